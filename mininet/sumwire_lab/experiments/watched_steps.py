# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A step's time without metrics, with metrics that nobody reads, and with `sumwire top` beside the run, in turn."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Final

from sumwire_lab.errors import LabError
from sumwire_lab.experiments.metrics_run import Top, top_beside
from sumwire_lab.options.run_options import RunOptions, TrainOptions
from sumwire_lab.run.experiment import Say
from sumwire_lab.run.records import Follower
from sumwire_lab.run.training_run import run

PLAIN: Final = "plain"
METRICS: Final = "metrics"
TOP: Final = "top"
WAYS: Final = (PLAIN, METRICS, TOP)
_SYSTEM: Final = "thc"
# The first steps are those of a cold start.
_COLD: Final = 5


def step_times(results: Path, folder: Path, say: Say, *, steps: int, rounds: int) -> dict[str, list[float]]:
    """Median seconds of a step, by way, of each round. Every other round goes the ways backwards.

    `folder`: for the lists of targets. Raises LabError.
    """
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for number, way in _turns(rounds):
        targets = folder / f"targets-{number}-{way}.json"
        found[way].append(_step_s(results, targets, say, way, steps))
        say(f"round {number + 1} of {rounds}, {way}: {found[way][-1]:.4f} s a step")
    return found


def _turns(rounds: int) -> Iterator[tuple[int, str]]:
    for number in range(rounds):
        yield from ((number, way) for way in (WAYS if number % 2 == 0 else reversed(WAYS)))


def _step_s(results: Path, targets: Path, say: Say, way: str, steps: int) -> float:
    options = RunOptions(systems=(_SYSTEM,), train=TrainOptions(max_steps=steps + _COLD))
    if way != PLAIN:
        targets.write_text("[]")
        options = replace(options, metrics=str(targets))
    tops: list[Top] = []
    with ExitStack() as stack:

        def told(line: str) -> None:
            if way == TOP and not tops and json.loads(targets.read_text()):
                tops.append(stack.enter_context(top_beside(targets)))
            say(line)

        _, made = run(options, results, told)
        if way == TOP and (not tops or tops[0].ended):
            raise LabError("sumwire top did not run beside the run; give it more steps")
    return median(step for path in sorted((made / _SYSTEM).glob("worker*.jsonl")) for step in _steps(path))


def _steps(path: Path) -> list[float]:
    follower = Follower(path)
    follower.poll()
    return [one.step_s for one in follower.record.steps[_COLD:]]
