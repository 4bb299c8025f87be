# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A typical step of each system, worker by worker: what is computed, and what is under way meanwhile."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sumwire_lab.run.page import wording
from sumwire_lab.run.records import StepRecord
from sumwire_lab.run.summary import SystemResult, measured, warm_up_of

_TICKS_MOST: Final = 5
_ROUND: Final = (1, 2, 5, 10)


@dataclass(frozen=True)
class Span:
    """Something that takes time. `left` and `width` are shares of the whole axis, in percent."""

    kind: str
    left: float
    width: float
    tip: str


@dataclass(frozen=True)
class Lane:
    """One worker: what it computes, and its communication, which goes on at the same time."""

    worker: int
    computes: tuple[Span, ...]
    sends: tuple[Span, ...]


@dataclass(frozen=True)
class Timeline:
    """The step of one system whose duration is the median."""

    system: str
    step: int
    lanes: tuple[Lane, ...]
    ticks: tuple[tuple[str, float], ...]
    """Words below the axis, and their places on it in percent."""


def timelines(results: Sequence[SystemResult]) -> list[Timeline]:
    """By system, all on one axis; without those whose records do not say when a step began."""
    chosen = {result.system: _typical(result) for result in results}
    steps = {name: one for name, one in chosen.items() if one}
    axis = max((_ends(one) for one in steps.values()), default=0.0)
    ticks = ticks_of(axis)
    return [
        Timeline(name, one[0].step, tuple(_lane(k, step, _begin(one), axis) for k, step in enumerate(one)), ticks)
        for name, one in steps.items()
    ]


def ticks_of(axis_s: float) -> tuple[tuple[str, float], ...]:
    """Round times on an axis of so many seconds, and their places in percent; empty for an axis of no length."""
    if axis_s <= 0:
        return ()
    power = 10.0 ** math.floor(math.log10(axis_s / _TICKS_MOST))
    each = next(power * one for one in _ROUND if axis_s / (power * one) <= _TICKS_MOST)
    times = [each * k for k in range(int(axis_s / each) + 1)]
    scale, unit = (1, "s") if axis_s >= 1 else (1000, "ms")
    return tuple((f"{scale * time_s:.4g} {unit}" if time_s else "0", 100 * time_s / axis_s) for time_s in times)


def _typical(result: SystemResult) -> list[StepRecord]:
    """Each worker's record of the step whose duration is the median of the first worker's; empty without one."""
    first = measured(result.workers[0].steps, warm_up_of(result.system))
    timed = sorted((s for s in first if s.at_s is not None), key=lambda s: s.step_s)
    if not timed:
        return []
    number = timed[len(timed) // 2].step
    found = [s for w in result.workers for s in w.steps if s.step == number and s.at_s is not None]
    return found if len(found) == len(result.workers) else []


def _begin(steps: Sequence[StepRecord]) -> float:
    return min(step.at_s or 0.0 for step in steps)


def _ends(steps: Sequence[StepRecord]) -> float:
    return max((step.at_s or 0.0) + step.step_s for step in steps) - _begin(steps)


def _lane(worker: int, step: StepRecord, begin: float, axis: float) -> Lane:
    offset = (step.at_s or 0.0) - begin
    forward, backward = step.forward_s or 0.0, step.backward_s or 0.0
    under_way = communication(step)
    # DDP waits within the backward pass: it computes until the last tensor is handed over.
    handed = min(max((start for start, _, _ in under_way), default=backward), backward)

    def span(kind: str, start: float, end: float, what: str) -> Span:
        tip = f"worker {worker}, {what}: {wording.seconds(end - start)}"
        return Span(kind, 100 * (offset + start) / axis, 100 * (end - start) / axis, tip)

    computes = [
        span("forward", 0.0, forward, "forward pass"),
        span("backward", forward, max(forward, handed), "backward pass"),
        span("waiting", max(forward, handed), backward, "waiting for the communication"),
        span("optimizer", backward, step.step_s, "optimizer's step"),
    ]
    sends = [span("sending", start, start + length, what) for start, length, what in under_way]
    return Lane(worker, tuple(one for one in computes if one.width > 0), tuple(sends))


def communication(step: StepRecord) -> list[tuple[float, float, str]]:
    """What is communicated in a step: begin, from the step's; seconds; and words. In the order of the begins."""
    codec = "" if step.codec_s is None else f"; encoding and decoding of the step: {wording.seconds(step.codec_s)}"
    timed = [one for one in step.tensors if "at_s" in one]
    if timed and step.at_s is not None:
        return sorted((float(one["at_s"]) - step.at_s, float(one["seconds"]), _words(one) + codec) for one in timed)
    if not step.comm_s:
        return []
    # Either DDP's hook communicates, which has tensors and the backward pass waits for, or the optimizer.
    end = step.backward_s if step.tensors and step.backward_s is not None else step.step_s
    return [(max(0.0, end - step.comm_s), step.comm_s, "communication" + codec)]


def _words(tensor: Mapping[str, Any]) -> str:
    return f"bucket {tensor['bucket']} of {tensor['values']:,} values, from hand-over to result"
