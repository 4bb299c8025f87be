# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The common parts of the verify commands' experiments.

An experiment is a function of a `Verification` that returns checks. Each topic's module has its experiments by label,
in the order in which they run; `sumwire_lab.verify.commands` carries out those that a command line asks for.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
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

from sumwire_lab.bench.benchmark import Bench, Rows
from sumwire_lab.bench.codec_time import THC_TARGETS_MS
from sumwire_lab.errors import LabError
from sumwire_lab.experiments import signs_alone
from sumwire_lab.network.switches import BMV2
from sumwire_lab.options.bench_options import AGGREGATOR_SLOTS
from sumwire_lab.options.recipes import TASKS
from sumwire_lab.options.run_options import RunOptions, TrainOptions
from sumwire_lab.run.results import ratio
from sumwire_lab.run.training_run import run
from sumwire_lab.study.check import Check, absent, at_least, at_most, holds, must_fail
from sumwire_lab.study.experiment import Say


@dataclass(frozen=True)
class Verification:
    """One run of a verify command. `options`: those of its topic, None for a topic without any."""

    results: Path
    say: Say
    options: Any = None

    @property
    def quick(self) -> bool:
        """Whether this is a quick trial of minutes, which proves nothing."""
        return bool(self.options and self.options.quick)

    def summary(self, options: RunOptions) -> dict[str, Any]:
        """Return the content of a run's summary.json. Raises LabError."""
        return run(options, self.results, self.say)[0]

    def rows(self, bench: Bench) -> Rows:
        """Return the rows of a benchmark, measured with or without a network as it needs. Raises LabError."""
        done = bench.measure(self.results, self.say) if bench.needs_network else bench.measure_here(self.say)
        return done.rows()

    def entry(self, options: RunOptions) -> dict[str, Any]:
        """Return the summary's entry of the run's first system."""
        entry: dict[str, Any] = self.summary(options)["systems"][options.systems[0]]
        return entry


Experiment = Callable[[Verification], list[Check]]
"""Measures something and returns its checks. Raises LabError."""
Experiments = Mapping[str, Experiment]


def needs_bmv2(label: str, target: str) -> Callable[[Experiment], Experiment]:
    """Decorator: on a machine without bmv2 the experiment returns only this row, undecided."""

    def wrapped(experiment: Experiment) -> Experiment:
        @functools.wraps(experiment)
        def measure(v: Verification) -> list[Check]:
            return experiment(v) if has_bmv2() else [absent(label, target, f"{BMV2} is not on PATH")]

        return measure

    return wrapped


def has_bmv2() -> bool:
    """Return whether bmv2 is on PATH."""
    return shutil.which(BMV2) is not None


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
    """Run every packet test on bmv2, and return one check."""
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
    """Return the record of a THC round (encode, decode, error feedback) of a million values, as `make bench-codec`
    measures it."""
    # The exit code says whether the benchmark's own target holds. The verify commands say that themselves.
    words = ["sumwire_lab", "bench", "codec", "--values", "1000000"]
    record: dict[str, Any] = recorded(words, results / "bench-codec.json")
    return record


def aggregator_us(results: Path) -> float:
    """Return the CPU microseconds of a THC contribution in the software aggregator, with trains as hosts send them."""
    words = ["sumwire_lab", "bench", "aggregator", "--piece", str(AGGREGATOR_PIECE)]
    return float(recorded(words, results / "bench-aggregator.json")["cpu_us"])


@dataclass(frozen=True)
class Ended:
    """The end of a command: its exit status, and the last line that it wrote."""

    status: int
    last_line: str


def run_module(words: Sequence[str]) -> Ended:
    """Run `python -m WORDS` in the checkout, where modules of the tests can be imported too."""
    return run_words(programs.module(*words))


def recorded(words: Sequence[str], file: Path) -> Any:
    """Run a module like :func:`run_module`, and return the JSON that it writes to `--json FILE`.

    Raises LabError if it ends without writing it.
    """
    file.unlink(missing_ok=True)
    ended = run_module([*words, "--json", str(file.resolve())])
    if not file.exists():
        raise LabError(f"{' '.join(words)} ended with {ended.status}: {ended.last_line}")
    return json.loads(file.read_text())


def simulated(results: Path, count: int, *flags: str) -> dict[str, Any]:
    """Return the record of `count` simulated schedules, with flags of `python -m simulate`."""
    words = ["simulate", "--seeds", str(count), "--keep-going", "--quiet", *flags]
    record: dict[str, Any] = recorded(words, results / "simulate.json")
    return record


def fuzzed_programs(count: int) -> Ended:
    """Run `count` mutations of the program and of the tests' programs, as `make fuzz-programs` does."""
    small = (ROOT / "tests" / "helpers").glob("*/programs/*.json")
    found = sorted(str(path.relative_to(ROOT)) for path in small if path.name != "sources.json")
    return run_module(["fuzz.programs", _PROGRAM, *found, "--mutations", str(count)])


def measured_by(experiment: str, *words: object) -> Any:
    """Run an experiment in a separate process, which may fork its ranks, and return the JSON in its last line.

    Raises LabError if it fails.
    """
    ended = run_module([f"sumwire_lab.experiments.{experiment}", *map(str, words)])
    if ended.status:
        raise LabError(f"{experiment} {' '.join(map(str, words))} ended with {ended.status}: {ended.last_line}")
    return json.loads(ended.last_line)


def run_words(words: Sequence[str]) -> Ended:
    """Run a command, given as words, in the same way as `run_module`."""
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
    """The outcome of each test by its name: passed, failed or skipped. `said`: short messages of those that failed."""

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
    """Return the experiment of a row that tests prove, by paths of pytest."""
    return lambda _: [tests_check(label, target, run_tests(paths))]


def tests_check(label: str, target: str, outcomes: Mapping[str, str]) -> Check:
    """Check that tests passed: all of them, and at least one ran. For failed tests it gives the reason."""
    counted = Counter(outcomes.values())
    said = outcomes.said if isinstance(outcomes, PytestOutcomes) else {}
    bad = [": ".join(filter(None, (name, said.get(name)))) for name, one in outcomes.items() if one == "failed"]
    return holds(label, dict(counted), target, bool(counted["passed"]) and not bad, "; ".join(bad[:3]))


def command_check(label: str, target: str, ended: Ended) -> Check:
    """Return the check of a row that a command's exit status decides."""
    return holds(label, ended.last_line, target, ended.status == 0)


def outcomes(junit: str) -> PytestOutcomes:
    """Return the outcome by test name, from pytest's JUnit report."""
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


COMM_RATIO_MIN: Final = 5.0
TIME_RATIO_MIN: Final = 4.0
ACCURACY_MIN: Final = 0.96
ACCURACY_GAP_MAX: Final = 0.005
# Accuracies are fractions of a few hundred images, so that a difference of 0.005 may come out as 0.00500001.
ROUNDING: Final = 1e-6
WHY_ABSENT: Final[Mapping[str, str]] = {
    "native": "no compiler for the native engine (clang 16 or later)",
    "native-trains": "no compiler for the native engine (clang 16 or later)",
    "bmv2": "simple_switch_grpc is not on PATH",
}


def speed(summary: dict[str, Any], label: str) -> list[Check]:
    """Check communication time and time to the target accuracy, gloo over THC."""
    comm = ratio(summary, "comm_s_per_step", "thc")
    target = ratio(summary, "time_to_target_s", "thc")
    return [
        at_least(f"{label}: communication time per step, gloo / Sumwire", comm, COMM_RATIO_MIN),
        at_least(f"{label}: time to 95 % test accuracy, gloo / Sumwire", target, TIME_RATIO_MIN),
    ]


def accuracy_checks(label: str, thc: dict[str, Any], gloo: dict[str, Any], known_bad: float) -> list[Check]:
    """Check final accuracies. ``known_bad``: that of `signs_alone`."""
    bad = {"accuracy": known_bad, "replicas_equal": True}
    return [_accuracy(label, thc, gloo), must_fail(signs_alone.NAME, _accuracy(label, bad, gloo))]


def target_check(label: str, train: TrainOptions) -> Check:
    """Check that a training that is known to be bad does not reach its task's accuracy, to which times are
    compared."""
    target = TASKS[train.task].target
    reached = at_least(f"{label}: largest test accuracy", max(signs_alone.by_step(train)), target)
    return must_fail(signs_alone.NAME, reached)


def _accuracy(label: str, thc: dict[str, Any], gloo: dict[str, Any]) -> Check:
    """Close to each other and both high enough, on bit-equal replicas."""
    mine, theirs = thc["accuracy"], gloo["accuracy"]
    close = abs(mine - theirs) <= ACCURACY_GAP_MAX + ROUNDING
    verdict = close and min(mine, theirs) >= ACCURACY_MIN and bool(thc["replicas_equal"] and gloo["replicas_equal"])
    return holds(
        f"{label}: final test accuracy, Sumwire and gloo",
        [mine, theirs],
        "within 0.5 points, both >= 96 %, replicas bit-equal",
        verdict,
    )


def switch_rate(label: str, rates: Mapping[str, float], over: str, under: str, least: float) -> Check:
    """Check packets/s of one contender of bench-switch over another's. Undecided if this machine lacks one of them."""
    for name in (over, under):
        if name not in rates:
            return absent(label, f">= {least:g}", WHY_ABSENT[name], value=dict(rates))
    return at_least(label, rates[over] / rates[under], least)


def codec(record: Mapping[str, Any]) -> Check:
    """Check encode and decode of a million values on one core, in CPU time. `record`: bench-codec's, with the form in
    use."""
    form = record["form"]
    label = f"encode + decode of 1 million float32 on one core, error feedback included, {form} form, ms"
    return at_most(label, record["cpu_median_ms"], THC_TARGETS_MS[form])
