# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The short form of `make fuzz-files`, and loaders that err, which it must find."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import fuzz_files
from helpers.fuzz_files import FindingError, Kind, fuzz


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_mutated_files_load_or_are_refused() -> None:
    assert "refused" in fuzz(range(150), 1)


def raises_another_error(_path: Path) -> None:
    raise KeyError("x")


def refuses_with_escapes(_path: Path) -> None:
    raise ValueError("\x1b[2J")


def takes_long(_path: Path) -> None:
    end = time.process_time() + 2 * fuzz_files.SECONDS_MOST
    while time.process_time() < end:
        pass


@pytest.mark.parametrize("load", [raises_another_error, refuses_with_escapes, takes_long])
def test_what_is_found(load: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_files, "SECONDS_MOST", 0.05)
    monkeypatch.setattr(fuzz_files, "kinds", lambda: {"file": Kind("a", load, ValueError)})
    with pytest.raises(FindingError, match="repeat it: --seed 1 --only 0"):
        fuzz(range(5), 1)
