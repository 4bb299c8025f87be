# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sends millions of mutated frames through a compiled program under AddressSanitizer and UndefinedBehaviorSanitizer.

``python -m fuzz.packets PROGRAM.json --packets 10000000 --seed 1 --config STATE.json`` (`make fuzz`). STATE has tables,
groups and the frames to start from, as :func:`fuzz.state.describe` makes them. The first finding ends the run with
status 1, and with the seed and the packet on stderr.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nativelib import build
from softswitch.native.emit import emit_c
from softswitch.native.runtime_library import FOLDER
from softswitch.program import ir
from softswitch.program.load.node import read_program
from softswitch.program.load.program import load_program

from fuzz.state import pack_state

SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g", "-O1")
_SOURCES = ("runtime.c", "tables.c", "impair.c")

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
        [Path(__file__).with_name("fuzz.c"), *(FOLDER / name for name in _SOURCES)],
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


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("program", type=Path, help="bmv2 JSON")
    parser.add_argument("--config", type=Path, help="tables, groups and frames as JSON; none: the program's own")
    parser.add_argument("--packets", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    program = load_program(read_program(options.program))
    state = json.loads(options.config.read_text()) if options.config else {"tables": {}, "groups": {}, "frames": []}
    try:
        result = fuzz(program, state, options.packets, options.seed)
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"fuzz: seed {options.seed} found something (status {error.returncode})\n")
        return 1
    rate = result.packets / max(result.seconds, 1e-9)
    reached = f"{result.points - len(result.missed)} of {result.points} points of the program reached"
    told = f"{result.packets} packets, {result.sent} frames left, {rate:.0f} packets/s, {reached}, nothing found"
    sys.stdout.write(f"{told}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
