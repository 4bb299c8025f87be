# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Measurements of the verify commands that run in processes of their own: pytest, and benchmarks without a network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from nativelib import programs

from sumwire_lab.errors import LabError
from sumwire_lab.options.bench_options import AGGREGATOR_SLOTS
from sumwire_lab.study.check import Check, holds
from sumwire_lab.verify.plan import Verification, needs_bmv2

ROOT: Final = Path(__file__).resolve().parents[3]
PACKET_TESTS: Final = "tests/packet"
# Of all tests of a row, and of one that names no limit itself. They are for tests that hang: a busy machine takes many
# times as long as a quiet one.
_TESTS_SECONDS: Final = 3600.0
_TEST_SECONDS: Final = 600
_PYTEST: Final = ("-v", "--long")
# Of a failed test's message, from both of its ends.
_SAID: Final = 300
_COMMAND_SECONDS: Final = 7200.0
_PROGRAM: Final = "p4src/build/sumwire.json"
AGGREGATOR_PIECE: Final = AGGREGATOR_SLOTS // 2
"""Slots at a time: half of the job's, as many as hosts keep under way."""


@needs_bmv2("every packet test on bmv2", "green")
def packet_tests(_: Verification) -> list[Check]:
    """Run every packet test on bmv2: one check."""
    done = subprocess.run(
        programs.starter("pytest", "-q", "-m", "bmv2", "--require-bmv2", PACKET_TESTS),
        cwd=ROOT,
        env={**os.environ, "SWITCH": "bmv2"},
        check=False,
        capture_output=True,
        text=True,
        timeout=_TESTS_SECONDS,
    )
    last = done.stdout.strip().splitlines()[-1:] or ["(no output)"]
    return [holds("every packet test on bmv2", last[0], "green", done.returncode == 0)]


def codec_record(results: Path) -> dict[str, Any]:
    """A THC round (encode, decode, error feedback) of a million values, as `make bench-codec` measures it."""
    # The exit code says whether the benchmark's own target holds. The verify commands say that themselves.
    words = ["sumwire_lab", "bench", "codec", "--values", "1000000"]
    record: dict[str, Any] = recorded(words, results / "bench-codec.json")
    return record


def aggregator_us(results: Path) -> float:
    """CPU microseconds of a THC contribution in the software aggregator, with trains as hosts send them."""
    words = ["sumwire_lab", "bench", "aggregator", "--piece", str(AGGREGATOR_PIECE)]
    return float(recorded(words, results / "bench-aggregator.json")["cpu_us"])


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit status, and the last line that it wrote."""

    status: int
    last_line: str


def run_module(words: Sequence[str]) -> Ended:
    """Run `python -m WORDS` in the checkout; modules of the tests are found too."""
    return run_words(programs.module(*words))


def recorded(words: Sequence[str], file: Path) -> Any:
    """What a module writes as JSON to `--json FILE`. It is run as by :func:`run_module`.

    Raises LabError if it ends without that.
    """
    file.unlink(missing_ok=True)
    ended = run_module([*words, "--json", str(file.resolve())])
    if not file.exists():
        raise LabError(f"{' '.join(words)} ended with {ended.status}: {ended.last_line}")
    return json.loads(file.read_text())


def simulated(results: Path, count: int, *flags: str) -> dict[str, Any]:
    """The record of so many simulated schedules, with flags of `python -m simulate`."""
    words = ["simulate", "--seeds", str(count), "--keep-going", "--quiet", *flags]
    record: dict[str, Any] = recorded(words, results / "simulate.json")
    return record


def fuzzed_programs(count: int) -> Ended:
    """Run so many mutations of the program and of the tests' ones, as `make fuzz-programs` does."""
    small = (ROOT / "tests" / "helpers").glob("*/programs/*.json")
    found = sorted(str(path.relative_to(ROOT)) for path in small if path.name != "sources.json")
    return run_module(["fuzz.programs", _PROGRAM, *found, "--mutations", str(count)])


def measured_by(experiment: str, *words: object) -> Any:
    """What an experiment prints as JSON in its last line. It is a process of its own, which may fork its ranks.

    Raises LabError if it fails.
    """
    ended = run_module([f"sumwire_lab.experiments.{experiment}", *map(str, words)])
    if ended.status:
        raise LabError(f"{experiment} {' '.join(map(str, words))} ended with {ended.status}: {ended.last_line}")
    return json.loads(ended.last_line)


def run_words(words: Sequence[str]) -> Ended:
    """Run a command in the same way."""
    path = os.pathsep.join([str(ROOT / "tests"), *filter(None, sys.path)])
    done = subprocess.run(
        words,
        cwd=ROOT,
        env=programs.environment({"PYTHONPATH": path}),
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=_COMMAND_SECONDS,
    )
    return Ended(done.returncode, (done.stdout.strip().splitlines() or ["(no output)"])[-1])


class PytestOutcomes(dict[str, str]):
    """Outcome of each test by its name: passed, failed or skipped. `said`: messages of those that failed, in short."""

    def __init__(self) -> None:
        super().__init__()
        self.said: dict[str, str] = {}


def run_tests(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> PytestOutcomes:
    """Run pytest with these arguments, long tests as well.

    Raises LabError if pytest ends without a report, or not within an hour.
    """
    words = f"pytest {' '.join(arguments)}"
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        try:
            done = subprocess.run(
                programs.starter("pytest", *_PYTEST, f"--timeout={_TEST_SECONDS}", f"--junitxml={report}", *arguments),
                cwd=ROOT,
                env={**os.environ, **(environment or {})},
                check=False,
                capture_output=True,
                text=True,
                timeout=_TESTS_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            last = (error.stdout or b"").decode(errors="replace").strip().splitlines()[-1:]
            raise LabError(f"{words}: no end after {_TESTS_SECONDS:g} s, at: {''.join(last)}") from error
        if not report.exists():
            raise LabError(f"{words} ended with {done.returncode}: {done.stdout[-500:]}")
        return outcomes(report.read_text())


def shown_by(label: str, target: str, *paths: str) -> Callable[[Verification], list[Check]]:
    """The experiment of a row that tests show, by paths of pytest."""
    return lambda _: [tests_check(label, target, run_tests(paths))]


def tests_check(label: str, target: str, outcomes: Mapping[str, str]) -> Check:
    """A row that tests show: all of them passed, and at least one ran. Of those that failed it says why."""
    counted = Counter(outcomes.values())
    said = outcomes.said if isinstance(outcomes, PytestOutcomes) else {}
    bad = [": ".join(filter(None, (name, said.get(name)))) for name, one in outcomes.items() if one == "failed"]
    return holds(label, dict(counted), target, bool(counted["passed"]) and not bad, "; ".join(bad[:3]))


def command_check(label: str, target: str, ended: Ended) -> Check:
    """A row that a command shows by its exit status."""
    return holds(label, ended.last_line, target, ended.status == 0)


def outcomes(junit: str) -> PytestOutcomes:
    """Outcome by test name, from pytest's JUnit report."""
    bad = {"failure": "failed", "error": "failed", "skipped": "skipped"}
    found = PytestOutcomes()
    for case in ElementTree.fromstring(junit).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        child = next((child for child in case if child.tag in bad), None)
        found[name] = "passed" if child is None else bad[child.tag]
        if found[name] == "failed" and child is not None:
            found.said[name] = _short(child.get("message") or "")
    return found


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 2 * _SAID else f"{words[:_SAID]} ... {words[-_SAID:]}"
