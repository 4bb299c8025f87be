# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Prebuilt libraries in the wheel: one file for each level of a processor's features.

A file is used only if its key shows that it was made from the very same text, and if its checksum is right. Without one
for this processor, or in a checkout, the text is compiled at first use.
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from nativelib.cache import is_whole

FOLDER: Final = Path(__file__).parent / "prebuilt"
_CPU: Final = Path("/proc/cpuinfo")
_V2: Final = frozenset({"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"})
_V3: Final = _V2 | {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"}
_V4: Final = _V3 | {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"}
# By machine: values of -march, the best first, with the features that Linux must name.
LEVELS: Final[dict[str, dict[str, frozenset[str]]]] = {
    "x86_64": {"x86-64-v4": _V4, "x86-64-v3": _V3, "x86-64-v2": _V2},
    "aarch64": {"armv8-a": frozenset({"asimd"})},
}


def name_of(name: str, key: str) -> str:
    """Return the file name of a library in the folder of its level."""
    return f"{name}-{key[:32]}.so"


def find(name: str, key: str) -> Path | None:
    """Return the best library for this processor, or None. ``key``: a hash of everything that was compiled, without the
    compiler."""
    for level in _levels():
        path = FOLDER / level / name_of(name, key)
        if path.exists() and is_whole(path):
            return path
    return None


def level() -> str | None:
    """Return the best level for which there are libraries for this processor, or None."""
    return next((level for level in _levels() if any((FOLDER / level).glob("*.so"))), None)


@functools.cache
def _levels() -> tuple[str, ...]:
    """Those that were brought and that this processor has, the best first."""
    return tuple(_suitable(platform.machine(), _features())) if FOLDER.is_dir() else ()


def _suitable(machine: str, features: frozenset[str]) -> Iterator[str]:
    return (level for level, needed in LEVELS.get(machine, {}).items() if needed <= features)


def _features() -> frozenset[str]:
    """What Linux says of the first processor; nothing if it says nothing."""
    try:
        first, _, _ = _CPU.read_text().partition("\n\n")
    except OSError:
        return frozenset()
    lines = (line.partition(":") for line in first.splitlines())
    named = [words for name, _, words in lines if name.strip() in ("flags", "Features")]
    return frozenset(" ".join(named).split())
