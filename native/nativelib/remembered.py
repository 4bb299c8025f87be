# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Remembers between processes what tests of a compiler found, in a file beside the compiled code.

Only compilers proper are remembered. A script, or a program such as ccache, may start another compiler tomorrow.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nativelib.cache import cache_folder
from nativelib.errors import UntrustedError
from nativelib.trusted import open_file

_COMPILER_NAME = re.compile(r"clang(-[\d.]+)?|([\w.-]+-)?gcc(-[\d.]+)?")
_ELF_MAGIC = b"\x7fELF"
_CPU_LINES = ("vendor_id", "cpu family", "model", "stepping", "flags", "Features", "CPU ")
_VARIABLES = ("CPATH", "C_INCLUDE_PATH", "COMPILER_PATH", "LIBRARY_PATH", "GCC_EXEC_PREFIX", "CCC_OVERRIDE_OPTIONS")


def key_of(program: str, options: Sequence[str], tests: Sequence[str]) -> str | None:
    """A name for the result of ``tests`` with the compiler ``program``; None if it must not be remembered.

    It changes with the compiler's file, its options, the environment variables that it reads, and the CPU.
    """
    file = Path(program).resolve()
    if not _COMPILER_NAME.fullmatch(file.name) or not all(option.startswith("-") for option in options):
        return None
    try:
        with file.open("rb") as opened:
            if opened.read(len(_ELF_MAGIC)) != _ELF_MAGIC:
                return None
            status = os.fstat(opened.fileno())
        cpu = _cpu()
    except OSError:
        return None
    variables = [os.environ.get(name) for name in _VARIABLES]
    known = [str(file), status.st_size, status.st_mtime_ns, program, *options, *tests, variables, cpu]
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()[:32]


def _cpu() -> list[str]:
    """What the system says of the first CPU."""
    first, _, _ = Path("/proc/cpuinfo").read_text().partition("\n\n")
    return [line for line in first.splitlines() if line.startswith(_CPU_LINES)]


def recall(key: str) -> Any:
    """What :func:`remember` wrote; None if there is nothing that can be read, or another user could have written it."""
    try:
        with open_file(_path(key)) as file:
            return json.loads(file.read())
    except (OSError, ValueError, UntrustedError):
        return None


def remember(key: str, found: Any) -> None:
    """Write ``found`` as JSON; where that fails, the next process tests the compiler again."""
    try:
        with tempfile.NamedTemporaryFile("w", dir=cache_folder(), prefix="compiler-", delete=False) as new:
            json.dump(found, new)
        Path(new.name).replace(_path(key))
    except (OSError, UntrustedError):
        return


def _path(key: str) -> Path:
    return cache_folder() / f"compiler-{key}.json"
