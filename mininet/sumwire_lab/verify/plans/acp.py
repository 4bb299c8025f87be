# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`make verify-acp`: ACP-SGD, the baselines, the software aggregator: what they promise, and what holds."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, Final

from sumwire.lowrank import shapes

from sumwire_lab.bench import contenders
from sumwire_lab.bench.gradient_recorder import TASKS
from sumwire_lab.bench.options import BenchOptions
from sumwire_lab.bench.suite import Context
from sumwire_lab.bench.suites.accuracy import Accuracy, Case, Row
from sumwire_lab.errors import LabError
from sumwire_lab.options.recipes import BASELINE, parse
from sumwire_lab.options.run_options import LinkOptions, RunOptions, TrainOptions
from sumwire_lab.options.tasks import TEXT
from sumwire_lab.run.experiment import Say
from sumwire_lab.run.records import Follower, StepRecord
from sumwire_lab.run.training_run import run
from sumwire_lab.verify.plan import ROOT, Verification
from sumwire_lab.verify.rows import acp as acp_checks
from sumwire_lab.verify.rows.acp import step_seconds
from sumwire_lab.verify.rows.thc import Check

LINK: Final = LinkOptions(10.0)
ACP: Final = "acp"
POWERSGD: Final = "powersgd"
# Enough for a mean over P and Q steps, after those that are not like the others.
STEPS: Final = 16
# Marsit and THC at their best, and ACP-SGD; every other system is in `make bench`.
ACCURACY_SYSTEMS: Final = (*contenders.PUBLISHED, "thc", "marsit", "acp")
_REFERENCE_SECONDS: Final = 300.0
AGGREGATOR: Final = "aggregator"
AGGREGATOR_LINK: Final = LinkOptions(100.0)


def verify(results: Path, say: Say) -> list[Check]:
    """All checks; one that fails does not stop the others. Writes verify-acp.json. Raises KeyboardInterrupt."""
    rows = Verification(results / "verify-acp.json", say)
    rows.add("ACP-SGD against the reference", lambda: acp_checks.reference(_reference()))
    rows.add("golden sizes", lambda: [acp_checks.golden(model, shapes.sizes(model)) for model in acp_checks.GOLDEN])
    rows.add("README", _readme)
    rows.add("transformer, time per step", lambda: _steps(results, say))
    rows.add("software aggregator", lambda: _aggregator(results, say))
    for task in TASKS:
        rows.add(f"time to accuracy, {task}", partial(_accuracy, task, results, say))
    return rows.done


def _reference() -> dict[str, Any]:
    """What sumwire.lowrank.check finds, in processes of its own. Raises LabError where it comes to no end."""
    command = [sys.executable, "-m", "sumwire.lowrank.check", "--json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_REFERENCE_SECONDS)
    if not done.stdout:
        raise LabError(f"{' '.join(command[1:])} ended with {done.returncode}: {done.stderr[-500:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _readme() -> list[Check]:
    return [acp_checks.readme((ROOT / "README.md").read_text(), (ROOT / "Makefile").read_text())]


def _steps(results: Path, say: Say) -> list[Check]:
    """The three systems one after the other in one run."""
    systems = (BASELINE, POWERSGD, ACP)
    train = TrainOptions.of(TEXT.name, max_steps=STEPS)
    _, folder = run(RunOptions(systems=systems, link=LINK, train=train), results, say)
    seconds = {name: _mean_step(folder / name, RunOptions().workers, name) for name in systems}
    label = f"transformer, 4 workers, {LINK.mbit:g} Mbit/s, rank {train.rank}"
    return acp_checks.steps(label, seconds, acp=ACP, gloo=BASELINE, powersgd=POWERSGD)


def _mean_step(folder: Path, workers: int, system: str) -> float | None:
    records = [_records(folder / f"worker{rank}.jsonl") for rank in range(workers)]
    warm_up = parse(system).recipe.warm_up_steps
    # Power-SGD's is the longest; the same steps are compared for all.
    return step_seconds(records, max(warm_up, parse(POWERSGD).recipe.warm_up_steps))


def _records(path: Path) -> list[StepRecord]:
    follower = Follower(path)
    follower.poll()
    return follower.record.steps


def _aggregator(results: Path, say: Say) -> list[Check]:
    options = RunOptions(systems=(BASELINE, "thc"), link=AGGREGATOR_LINK, switch=AGGREGATOR)
    summary: dict[str, Any] = run(options, results, say)[0]
    return acp_checks.aggregator(summary, f"software aggregator, THC, 4 workers, {AGGREGATOR_LINK.mbit:g} Mbit/s")


def _accuracy(task: str, results: Path, say: Say) -> list[Check]:
    """As the benchmark does it; a system that fails leaves its row without a number."""
    suite, context = Accuracy(), Context(BenchOptions(), results, say)
    rows: list[Row] = []
    for system in ACCURACY_SYSTEMS:
        case = Case(task, system, LINK.mbit, seed=1, quick=False)
        try:
            rows += suite.measure(case, context)
        except LabError as error:
            say(f"{case.label}: {error}")
    return acp_checks.accuracy_ratio(task, rows)
