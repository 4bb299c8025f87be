# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One training over the network, as `make run` does it, for suites and checks that compare trainings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sumwire_lab.options.run_options import LinkOptions, RunOptions, TrainOptions
from sumwire_lab.options.tasks import TASKS
from sumwire_lab.run.records import Follower
from sumwire_lab.run.training_run import run
from sumwire_lab.study.experiment import Say

# By then a digits model has reached its accuracy.
QUICK_EPOCHS: Final = 8
# The slowest training: the transformer over gloo at 10 Mbit/s.
DEADLINE_S: Final = 3 * 3600.0


@dataclass(frozen=True)
class Trained:
    """The result of one training: its entry of summary.json, and the test accuracy over time."""

    entry: dict[str, Any]
    target: float
    curve: tuple[tuple[float, float], ...]
    """(training seconds, accuracy 0 to 1) at every test."""


def train(
    task: str,
    system: str,
    *,
    link_mbit: float,
    seed: int,
    quick: bool,
    switch: str,
    engine: str,
    folder: Path,
    say: Say,
) -> Trained:
    """Train one system. `quick`: with QUICK_EPOCHS instead of the task's own epochs. Raises LabError."""
    options = RunOptions(
        link=LinkOptions(link_mbit),
        train=TrainOptions.of(task, seed=seed, epochs=QUICK_EPOCHS if quick else None),
        systems=(system,),
        switch=switch,
        engine=engine,
        deadline_s=DEADLINE_S,
    )
    summary, where = run(options, folder / task, say)
    follower = Follower(where / system / "worker0.jsonl")
    follower.poll()
    curve = tuple((step.clock_s, step.accuracy) for step in follower.record.steps if step.accuracy is not None)
    return Trained(summary["systems"][system], TASKS[task].target, curve)
