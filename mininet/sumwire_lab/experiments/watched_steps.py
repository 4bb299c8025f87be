# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What watching a run does to the time of a step: whole runs without and with metrics, in turn, and one run beside
which `sumwire top` works and is stopped in turn."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from typing import Final

from sumwire_lab.errors import LabError
from sumwire_lab.experiments.metrics_run import Top, top_beside, training_of
from sumwire_lab.options.run_options import RunOptions
from sumwire_lab.run.records import Follower, StepRecord
from sumwire_lab.run.training_run import run
from sumwire_lab.study.experiment import Say

_SYSTEM: Final = "thc"
# The first steps are those of a cold start.
_COLD: Final = 5
# Two scrapes of `sumwire top`.
WINDOW_S: Final = 4.0


def with_metrics(results: Path, folder: Path, say: Say, *, steps: int, rounds: int) -> list[tuple[float, float]]:
    """Median seconds of a step without metrics, and with metrics that nobody reads, of each round.

    Every other round begins with metrics. `folder`: for the lists of targets. Raises LabError.
    """
    found = []
    for number in range(rounds):
        took = {}
        for metrics in (False, True) if number % 2 == 0 else (True, False):
            options = _options(steps, folder / f"targets{number}.json" if metrics else None)
            took[metrics] = median(step.step_s for step in _trained(results, options, say))
        found.append((took[False], took[True]))
        say(f"round {number + 1} of {rounds}: {took[False]:.4f} s a step, {took[True]:.4f} s with metrics")
    return found


def with_top(results: Path, folder: Path, say: Say, *, steps: int) -> list[tuple[float, float]]:
    """Mean seconds of a step while `sumwire top` is stopped, and in the window after it or before it in which it works.

    Raises LabError.
    """
    targets = folder / "targets.json"
    options = _options(steps, targets)
    turns: list[_Turns] = []
    with ExitStack() as stack:

        def told(line: str) -> None:
            if not turns and json.loads(targets.read_text()):
                turns.append(stack.enter_context(_in_turn(stack.enter_context(top_beside(targets)))))
            say(line)

        done = _trained(results, options, told)
        if not turns or turns[0].top.ended:
            raise LabError("sumwire top did not run beside the run; give it more steps")
    return compared(done, turns[0].times)


def compared(steps: Sequence[StepRecord], times: Sequence[float]) -> list[tuple[float, float]]:
    """Pairs of neighbouring windows: the mean step of that without `sumwire top`, and of that with it.

    `times`: when the windows began and the last one ended; in the first one it works. Steps at a border belong to none.
    """
    windows = [
        [step.step_s for step in steps if step.at_s is not None and begin <= step.at_s <= end - step.step_s]
        for begin, end in pairwise(times)
    ]
    pairs = []
    for number, (one, other) in enumerate(pairwise(windows)):
        if one and other:
            watched, plain = (one, other) if number % 2 == 0 else (other, one)
            pairs.append((mean(plain), mean(watched)))
    return pairs


class _Turns:
    """`times`: when `top` was continued or stopped, by the machine's clock."""

    def __init__(self, top: Top) -> None:
        self.top, self.times = top, [time.perf_counter()]


@contextmanager
def _in_turn(top: Top) -> Iterator[_Turns]:
    turns, ending = _Turns(top), threading.Event()

    def work() -> None:
        while not ending.wait(WINDOW_S):
            top.turn(works=len(turns.times) % 2 == 0)
            turns.times.append(time.perf_counter())

    thread = threading.Thread(target=work, name="turns", daemon=True)
    thread.start()
    try:
        yield turns
    finally:
        ending.set()
        thread.join()
        top.turn(works=True)


def _options(steps: int, targets: Path | None) -> RunOptions:
    options = RunOptions(systems=(_SYSTEM,), train=training_of(steps + _COLD))
    if targets is None:
        return options
    targets.write_text("[]")
    return replace(options, metrics=str(targets))


def _trained(results: Path, options: RunOptions, say: Say) -> list[StepRecord]:
    """The steps of the first worker; all workers' begin and end together."""
    _, made = run(options, results, say)
    follower = Follower(made / _SYSTEM / "worker0.jsonl")
    follower.poll()
    return follower.record.steps[_COLD:]
