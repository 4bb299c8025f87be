# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Cuts and joins millions of mutated trains under AddressSanitizer and UndefinedBehaviorSanitizer.

``python -m fuzz.trains --trains 10000000 --seed 1``. Any compiler with sanitizers does, for example
``CC=gcc``. The first finding ends the run with status 1, and with the seed and the train on stderr.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nativelib import build
from softswitch.native.runtime_library import FOLDER

from fuzz.packets import SANITIZED

_SOURCES = ("layers.c", "cut.c", "join.c")
# A small quarantine: blocks of a few bytes come and go all the time.
_OPTIONS = "detect_leaks=0:quarantine_size_mb=4:thread_local_quarantine_size_kb=64"


@dataclass(frozen=True)
class TrainResult:
    """``packets``: that trains were cut into. ``joined``: of them, those that became trains again. ``refused``: trains
    that are none."""

    trains: int
    packets: int
    joined: int
    refused: int
    seconds: float


def build_train_fuzzer(folder: Path = FOLDER) -> Path:
    """Compile fuzz_trains.c with the soft switch's C sources in ``folder``; return the executable.

    Raises nativelib.NativeError.
    """
    sources = [Path(__file__).with_name("fuzz_trains.c"), *(folder / name for name in _SOURCES)]
    flags = ("-D_GNU_SOURCE", *SANITIZED)
    return build("softswitch-fuzz-trains", sources, includes=[folder], flags=flags, shared=False)


def fuzz_trains(trains: int, seed: int, folder: Path = FOLDER) -> TrainResult:
    """Cut and join this many trains.

    Raises subprocess.CalledProcessError at a finding; the report is on stderr.
    """
    command = [str(build_train_fuzzer(folder)), str(trains), str(seed)]
    environment = os.environ | {"ASAN_OPTIONS": _OPTIONS, "UBSAN_OPTIONS": "print_stacktrace=1"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    ran, packets, joined, refused, seconds = done.stdout.split()
    return TrainResult(int(ran), int(packets), int(joined), int(refused), float(seconds))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.trains", description=__doc__)
    parser.add_argument("--trains", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    try:
        result = fuzz_trains(options.trains, options.seed)
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"fuzz: seed {options.seed} found something (status {error.returncode})\n")
        return 1
    counts = f"{result.packets} packets, {result.joined} of them joined again, {result.refused} trains refused"
    rate = result.trains / max(result.seconds, 1e-9)
    sys.stdout.write(f"{result.trains} trains, {counts}, {rate:.0f} trains/s, nothing found\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
