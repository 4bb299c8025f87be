# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Whom a process may become. That it has no rights left then is in the tests of the commands."""

from __future__ import annotations

import os

import pytest
from commonlib.privileges import NotRootError, UnknownUserError, account_of
from helpers.rights import NOBODY


def test_an_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    found = account_of("nobody")
    assert (found.name, found.uid, found.gid) == ("nobody", NOBODY.pw_uid, NOBODY.pw_gid)


@pytest.mark.parametrize("name", ["no-such-user", "", "0", "nul\0"])
def test_an_unknown_user(name: str) -> None:
    with pytest.raises(UnknownUserError, match=r"there is no user .*: --user nobody"):
        account_of(name)


def test_root_is_no_user_to_become() -> None:
    with pytest.raises(UnknownUserError, match="user 'root' is root; leave --user out"):
        account_of("root")


def test_only_root_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(NotRootError, match="only root can become user 'nobody'; run it with sudo"):
        account_of("nobody")
