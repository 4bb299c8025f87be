# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The experiments of `make verify-acp`."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, Final

from sumwire.lowrank import shapes

from sumwire_lab.bench import contenders
from sumwire_lab.bench.benchmark import Context
from sumwire_lab.bench.suites.accuracy import Accuracy, Case, Row
from sumwire_lab.errors import LabError
from sumwire_lab.options.bench_options import BenchOptions
from sumwire_lab.options.recipes import BASELINE, parse
from sumwire_lab.options.run_options import LinkOptions, RunOptions, TrainOptions
from sumwire_lab.options.tasks import TASKS, TEXT
from sumwire_lab.run.records import Follower, StepRecord
from sumwire_lab.run.training_run import run
from sumwire_lab.study.check import Check
from sumwire_lab.study.experiment import Say
from sumwire_lab.verify.plan import Plan
from sumwire_lab.verify.processes import ROOT
from sumwire_lab.verify.rows import acp as rows
from sumwire_lab.verify.rows.acp import step_seconds

LINK: Final = LinkOptions(10.0)
ACP: Final = "acp"
POWERSGD: Final = "powersgd"
# Enough for a mean over P and Q steps after the warm-up steps.
STEPS: Final = 16
# The baselines, THC, Marsit and ACP-SGD. `make bench` has the other systems.
ACCURACY_SYSTEMS: Final = (*contenders.PUBLISHED, "thc", "marsit", "acp")
_REFERENCE_SECONDS: Final = 300.0
AGGREGATOR: Final = "aggregator"
AGGREGATOR_LINK: Final = LinkOptions(100.0)


def plan(results: Path, say: Say) -> Plan:
    """ACP-SGD, the baselines and the software aggregator: reference, sizes, time per step, time to accuracy."""
    return Plan(
        "acp",
        {
            "ACP-SGD against the reference": lambda: rows.reference(_reference()),
            "golden sizes": lambda: [rows.golden(model, shapes.sizes(model)) for model in rows.GOLDEN],
            "README": _readme,
            "transformer, time per step": lambda: _steps(results, say),
            "software aggregator": lambda: _aggregator(results, say),
            **{f"time to accuracy, {task}": partial(_accuracy, task, results, say) for task in TASKS},
        },
    )


def _reference() -> dict[str, Any]:
    """The record of `python -m sumwire.lowrank.check --json`. Raises LabError if it prints none."""
    command = [sys.executable, "-m", "sumwire.lowrank.check", "--json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_REFERENCE_SECONDS)
    if not done.stdout:
        raise LabError(f"{' '.join(command[1:])} ended with {done.returncode}: {done.stderr[-500:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _readme() -> list[Check]:
    return [rows.readme((ROOT / "README.md").read_text(), (ROOT / "Makefile").read_text())]


def _steps(results: Path, say: Say) -> list[Check]:
    """Time per step of S-SGD, Power-SGD and ACP-SGD, trained one after the other in one run."""
    systems = (BASELINE, POWERSGD, ACP)
    train = TrainOptions.of(TEXT.name, max_steps=STEPS)
    _, folder = run(RunOptions(systems=systems, link=LINK, train=train), results, say)
    seconds = {name: _mean_step(folder / name, RunOptions().workers, name) for name in systems}
    label = f"transformer, 4 workers, {LINK.mbit:g} Mbit/s, rank {train.rank}"
    return rows.steps(label, seconds, acp=ACP, gloo=BASELINE, powersgd=POWERSGD)


def _mean_step(folder: Path, workers: int, system: str) -> float | None:
    records = [_records(folder / f"worker{rank}.jsonl") for rank in range(workers)]
    warm_up = parse(system).recipe.warm_up_steps
    # Power-SGD has the longest warm-up. The same steps are compared for all systems.
    return step_seconds(records, max(warm_up, parse(POWERSGD).recipe.warm_up_steps))


def _records(path: Path) -> list[StepRecord]:
    follower = Follower(path)
    follower.poll()
    return follower.record.steps


def _aggregator(results: Path, say: Say) -> list[Check]:
    options = RunOptions(systems=(BASELINE, "thc"), link=AGGREGATOR_LINK, switch=AGGREGATOR)
    summary: dict[str, Any] = run(options, results, say)[0]
    return rows.aggregator(summary, f"software aggregator, THC, 4 workers, {AGGREGATOR_LINK.mbit:g} Mbit/s")


def _accuracy(task: str, results: Path, say: Say) -> list[Check]:
    """Measured as in the benchmark. A system that fails is reported and has no time."""
    suite, context = Accuracy(), Context(BenchOptions(), results, say)
    trained: list[Row] = []
    for system in ACCURACY_SYSTEMS:
        case = Case(task, system, LINK.mbit, seed=1, quick=False)
        try:
            trained += suite.measure(case, context)
        except LabError as error:
            say(f"{case.label}: {error}")
    return rows.accuracy_ratio(task, trained)
