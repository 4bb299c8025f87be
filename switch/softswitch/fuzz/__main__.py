# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sends millions of mutated frames through a compiled program under AddressSanitizer and UndefinedBehaviorSanitizer.

``python -m softswitch.fuzz PROGRAM.json --packets 10000000 --seed 1 --config STATE.json``. STATE has tables, groups and
the frames to start from, as :func:`softswitch.fuzz.state.describe` makes them. The first finding ends the run with
status 1, and with the seed and the packet on stderr.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from softswitch.fuzz.driver import fuzz
from softswitch.program.load.program import load_program
from softswitch.program.load.text import read_program


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m softswitch.fuzz", description=__doc__)
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
