# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A cache of the test's own, and compilers made of a few lines of shell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from nativelib import NoCompilerError, find_compiler
from nativelib import cache as cache_module
from nativelib import compiler as compiler_module


def forget() -> None:
    """What is remembered per process."""
    compiler_module._find.cache_clear()
    cache_module._usable.cache_clear()


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every test starts with nothing remembered and no compiler chosen."""
    monkeypatch.delenv("CC", raising=False)
    forget()
    yield
    forget()


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
