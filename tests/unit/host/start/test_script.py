# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What `sumwire.init` reads from the environment where it makes the process group."""

from __future__ import annotations

from typing import Any

import pytest
import sumwire
from sumwire.errors import UsageError
from sumwire.start.errors import PlaceError

ENVIRONMENT = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


@pytest.mark.parametrize(
    ("name", "value", "span"),
    [
        ("WORLD_SIZE", "x", "1..2147483647"),
        ("WORLD_SIZE", "0", "1..2147483647"),
        ("RANK", "2", "0..1"),
        ("RANK", "-1", "0..1"),
        ("MASTER_PORT", "99999", "0..65535"),
        ("MASTER_PORT", "", "0..65535"),
    ],
)
def test_numbers_that_no_torchrun_sets_are_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, span: str
) -> None:
    for known, given in (ENVIRONMENT | {name: value}).items():
        monkeypatch.setenv(known, given)
    with pytest.raises(PlaceError) as error:
        sumwire.init()
    assert str(error.value) == (
        f"{name} = {value!r} in the environment: must be a whole number in {span}: start the script by torchrun, which "
        "sets it, or correct it"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"system": "acp"}, r"system = 'acp': must be \"auto\" or one of ssgd, fp16, sum32, thc, thc-wide; other"),
        ({"aggregator_rate": "1G"}, 'aggregator_rate: of no use without system="auto"'),
    ],
)
def test_systems_that_init_does_not_choose_are_refused(options: dict[str, Any], message: str) -> None:
    """Before any rank waits."""
    with pytest.raises(UsageError, match=message):
        sumwire.init(**options)
