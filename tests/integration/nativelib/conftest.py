# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A cache of the test's own, and compilers made of a few lines of shell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from nativelib import NoCompilerError, find_compiler


@pytest.fixture(autouse=True)
def no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test starts with no compiler chosen. What is remembered of compilers is remembered by name and path, and
    those here are of one test each."""
    monkeypatch.delenv("CC", raising=False)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("NATIVELIB_CACHE", str(folder))
    return folder


@pytest.fixture
def real() -> str:
    """A compiler of this machine."""
    try:
        return find_compiler().command[0]
    except NoCompilerError as error:
        pytest.skip(str(error))


@pytest.fixture
def fake(tmp_path: Path) -> Callable[[str, str], Path]:
    """``fake(name, script)``: an executable."""

    def write(name: str, script: str) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    return write
