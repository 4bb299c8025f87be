# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Builds a program together with fuzz.c under sanitizers, and runs it."""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nativelib import build

from softswitch.fuzz.state import pack_state
from softswitch.native.emit import emit_c
from softswitch.native.runtime_library import FOLDER
from softswitch.program import ir

SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g", "-O1")
_SOURCES = ("fuzz.c", "runtime.c", "tables.c", "impair.c")

Json = Any


@dataclass(frozen=True)
class Result:
    """``packets``: frames that ran. ``sent``: frames that left. ``missed``: points of the program that none of them
    reached, out of ``points``."""

    packets: int
    sent: int
    seconds: float
    points: int
    missed: tuple[str, ...]


def build_fuzzer(source: str) -> Path:
    """Compile a program's C, with coverage, and fuzz.c; return the executable.

    Raises nativelib.NativeError.
    """
    return build(
        "softswitch-fuzz",
        [FOLDER / name for name in _SOURCES],
        generated={"program.c": source},
        includes=[FOLDER],
        flags=(*SANITIZED, "-DSS_CHECK_WRITES"),
        wide_bitint=True,
        shared=False,
    )


def fuzz(program: ir.Program, state: Json, packets: int, seed: int) -> Result:
    """Run ``packets`` mutated frames through ``program``. Those that reach something new are mutated in their turn.

    Raises UnsupportedProgramError, nativelib.NativeError, and at a finding subprocess.CalledProcessError; the
    sanitizer's report is on stderr.
    """
    emitted = emit_c(program, coverage=True)
    with tempfile.TemporaryDirectory(prefix="softswitch-fuzz-") as folder:
        file = Path(folder) / "state"
        file.write_bytes(pack_state(program, state))
        command = [str(build_fuzzer(emitted.source)), str(file), str(packets), str(seed)]
        # Memory that a process keeps until it ends is not a leak.
        environment = os.environ | {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    ran, sent, _, seconds, *reached = done.stdout.split()
    missed = tuple(point for point, hit in zip(emitted.points, reached, strict=False) if hit == "0")
    return Result(int(ran), int(sent), float(seconds), len(emitted.points), missed)
