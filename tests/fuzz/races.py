# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Runs threaded tests with all C under ThreadSanitizer: ``python -m fuzz.races`` (`make races`).

Threads of jobs, an aggregator's processes (as threads that share its memory) and the native engine run as in the tests.
Then each of a few errors of locking is put into a copy of the C, and must be found. Python, numpy and torch are not
compiled for it, so that it sees their locks and not what they read: a race between C and Python is not found.

It needs root, a compiler for the native engine (clang 16 or later), and gcc's libtsan, for LD_PRELOAD.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from nativelib import NativeError, NoCompilerError, build, find_compiler, programs

ROOT: Final = Path(__file__).resolve().parents[2]
_ENGINE: Final = "tests/integration/softswitch/native"
_LOCK, _PORTS = f"{_ENGINE}/test_program_lock.py", f"{_ENGINE}/test_ports.py"
_CODEC: Final = "tests/unit/host/codec/test_native_codec.py::test_threads_change_no_bit"
_AGGREGATOR: Final = "tests/integration/host/aggregator/test_sharing.py"
TESTS: Final = (
    *(_LOCK, _PORTS, _CODEC, _AGGREGATOR),
    "tests/unit/softswitch/native/test_machine.py",
)


@dataclass(frozen=True)
class Plant:
    """An error that is put into a C file, and the tests that run it."""

    file: str
    right: str
    wrong: str
    tests: str


PLANTS: Final[Mapping[str, Plant]] = {
    "a run's token is read without care": Plant(
        "host/sumwire/aggregator/native/process.c",
        "__atomic_load_n(&p->run->token, __ATOMIC_ACQUIRE)",
        "p->run->token",
        f"{_AGGREGATOR}::test_a_process_learns_of_a_run_that_another_one_opens_meanwhile",
    ),
    "work is shared out without the lock": Plant(
        "host/sumwire/codec/native/threads.c",
        "  pthread_mutex_lock(&pool.lock);\n  pool.share = share;",
        "  pool.share = share;\n  pthread_mutex_lock(&pool.lock);",
        _CODEC,
    ),
    "a port's counters are read without the locks": Plant(
        "switch/softswitch/native/ports.c",
        "  ss_lock_enter(ports->lock);\n  pthread_mutex_lock(&ports->sending);\n  collect_drops(port);",
        "  *out = port->counters;\n"
        "  ss_lock_enter(ports->lock);\n  pthread_mutex_lock(&ports->sending);\n  collect_drops(port);",
        _PORTS,
    ),
}
# clang calls these instead of the C library's; gcc's libtsan has none of them, and checks the latter.
_CALLS: Final = """#include <string.h>
void *__tsan_memcpy(void *to, const void *from, size_t bytes) { return memcpy(to, from, bytes); }
void *__tsan_memmove(void *to, const void *from, size_t bytes) { return memmove(to, from, bytes); }
void *__tsan_memset(void *to, int value, size_t bytes) { return memset(to, value, bytes); }
"""
_OPTIONS: Final = "halt_on_error=0:exitcode=0:die_after_fork=0:log_path="
_PASSED: Final = re.compile(r"(\d+) passed")
_SUMMARY: Final = re.compile(r"^SUMMARY: ThreadSanitizer: (.*)$", re.MULTILINE)
_PACKAGES: Final = ("host", "protocol", "common", "controller", "switch", "mininet", "native")
_TESTS_SECONDS: Final = 1800.0


@dataclass(frozen=True)
class Raced:
    """``passed``: how many tests. ``failed``: pytest's last line if any of them failed. ``races``: what was found."""

    passed: int
    failed: str
    races: list[str]


def environment() -> dict[str, str]:
    """The variables with which all C is compiled for ThreadSanitizer and runs with it, but TSAN_OPTIONS.

    Raises nativelib.NativeError.
    """
    compiler = find_compiler(wide_bitint=True).command[0]
    calls = build("tsan-calls", [], generated={"calls.c": _CALLS}, flags=("-fno-builtin",))
    asked = subprocess.run(
        [programs.program("gcc"), "-print-file-name=libtsan.so"], stdout=subprocess.PIPE, text=True, check=True
    )
    library = Path(asked.stdout.strip()).resolve()
    if not library.exists():
        raise NoCompilerError("no libtsan of gcc: install it (Debian: libtsan2 and gcc)")
    return {"CC": shlex.join([compiler, "-fsanitize=thread", "-g"]), "LD_PRELOAD": f"{library}:{calls}"}


def race(tests: Sequence[str], plant: Plant | None = None) -> Raced:
    """Run tests under ThreadSanitizer, of this checkout, or of a copy with an error in it.

    Raises nativelib.NativeError.
    """
    variables = environment()
    with tempfile.TemporaryDirectory(prefix="sumwire-races-") as name:
        folder = Path(name)
        places = [str(ROOT / "tests"), *(str(_planted(folder, each, plant)) for each in _PACKAGES)]
        # Addresses that are drawn from too many bits are not where ThreadSanitizer expects them.
        command = [programs.program("setarch"), "-R", *programs.starter("pytest", "-q", "-n", "0", "--timeout=600")]
        done = subprocess.run(
            [*command, "-p", "no:cacheprovider", "-o", f"pythonpath={shlex.join(places)}", *tests],
            cwd=ROOT,
            env=os.environ | variables | {"TSAN_OPTIONS": f"{_OPTIONS}{folder}/report"},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
            timeout=_TESTS_SECONDS,
        )
        reports = "\n".join(report.read_text(errors="replace") for report in folder.glob("report.*"))
    last = (done.stdout.strip().splitlines() or ["(no output)"])[-1]
    passed = _PASSED.search(last)
    return Raced(int(passed[1]) if passed else 0, last if done.returncode else "", _SUMMARY.findall(reports))


def _planted(folder: Path, package: str, plant: Plant | None) -> Path:
    """The folder of a package: a copy if the error is in it."""
    if plant is None or not plant.file.startswith(f"{package}/"):
        return ROOT / package
    shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    text = (ROOT / plant.file).read_text()
    if plant.right not in text:
        raise ValueError(f"{plant.file} has no longer what is to be broken: {plant.right}")
    (folder / plant.file).write_text(text.replace(plant.right, plant.wrong))
    return folder / package


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.races", description=__doc__)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    try:
        result = race(TESTS)
        planted = {name: race([plant.tests], plant).races for name, plant in PLANTS.items()}
    except NativeError as error:
        sys.stderr.write(f"races: {error}\n")
        return 1
    for found in result.races:
        sys.stdout.write(f"{found}\n")
    missed = [name for name, found in planted.items() if not found]
    for name in missed:
        sys.stdout.write(f"not found: {name}\n")
    sys.stdout.write(
        f"{result.passed} tests, {result.failed or 'none failed'}; {len(result.races)} races; "
        f"{len(planted) - len(missed)} of {len(planted)} planted ones found\n"
    )
    if options.json:
        options.json.write_text(json.dumps({**asdict(result), "planted": planted}))
    return bool(result.races or result.failed or missed)


if __name__ == "__main__":
    sys.exit(main())
