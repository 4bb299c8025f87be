# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The search for ACP-SGD's buffer size: the first steps try several, and the workers agree on the fastest.

A buffer costs a start, and what is not yet in a full buffer waits. So the best size depends on the model, the link and
the processor. The sizes that are tried are powers of two of buffers a step, so they need no unit. Each is timed in a P
step and a Q step, and all of them in turns, so that a slow moment of the machine hits one time of each.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Final

from sumwire.lowrank.fusion import Phase, Plan

# About so many buffers a step are tried.
BUFFERS: Final = (1, 2, 4, 8, 16, 32)
# Steps that are not timed, since a program's first steps take longer.
WARM_UP_STEPS: Final = 2
# How often each size is timed in each phase; the least time counts.
ROUNDS: Final = 2
# A size that is so much slower than the best one, or more, counts as so much slower.
_SLOWER_MAX: Final = 1.0


def candidates(plan_of: Callable[[int], Plan], dense_bytes: int) -> tuple[Plan, ...]:
    """Return the plans to try, by falling size of their buffers, each with other groups than those before it.

    ``plan_of`` makes the plan of a threshold in bytes; ``dense_bytes`` are those of all gradients, uncompressed.
    """
    plans: list[Plan] = []
    for buffers in BUFFERS:
        plan = plan_of(-(-dense_bytes // buffers))
        if all(plan.groups != other.groups for other in plans):
            plans.append(plan)
    return tuple(plans)


class BufferSearch:
    """Which plan the next step uses, and what the steps so far have taken.

    All workers make the same steps, so all try the same plans at the same time. ``clock`` returns seconds.
    """

    def __init__(self, plans: Sequence[Plan], clock: Callable[[], float] = time.perf_counter) -> None:
        self._plans = tuple(plans)
        self.clock = clock
        self._made = 0
        self._began: float | None = None
        self._seconds = [[math.inf] * len(Phase) for _ in self._plans]

    @property
    def plan(self) -> Plan:
        """The plan of the next step."""
        return self._plans[self._number()]

    @property
    def steps(self) -> int:
        """Steps of the whole search; none if there is nothing to choose."""
        return WARM_UP_STEPS + ROUNDS * len(Phase) * len(self._plans) if len(self._plans) > 1 else 0

    @property
    def last(self) -> bool:
        """Whether the step that is being made is the last one of the search."""
        return self._made + 1 == self.steps

    def slower(self, phase: Phase) -> list[float]:
        """Return by how much each plan's steps, with the one that ends now, are slower than the best plan's.

        0.1 is 10 % slower, and 1 is 100 % or more. What workers agree on is the mean of these numbers.
        """
        seconds = [list(one) for one in self._seconds]
        self._note(seconds, phase)
        times = [sum(one) for one in seconds]
        best = min(times)
        return [min(one / best - 1.0, _SLOWER_MAX) if best > 0 else 0.0 for one in times]

    def chosen(self, slower: Sequence[float]) -> Plan:
        """Return the fastest plan, from the workers' mean of `slower`; the one with the largest buffers of equals."""
        return self._plans[min(range(len(self._plans)), key=lambda number: (slower[number], number))]

    def made(self, phase: Phase) -> None:
        """A step of this phase has ended, whose time counts from the end of the step before it."""
        self._note(self._seconds, phase)
        self._made += 1
        self._began = self.clock()

    def repeated(self) -> None:
        """A step has failed, and is made once more: its time counts from now on."""
        self._began = self.clock()

    def _note(self, seconds: list[list[float]], phase: Phase) -> None:
        if self._made >= WARM_UP_STEPS and self._began is not None:
            mine = seconds[self._number()]
            mine[phase] = min(mine[phase], self.clock() - self._began)

    def _number(self) -> int:
        """A plan has two steps, one for each phase, and is then followed by the next one."""
        return max(self._made - WARM_UP_STEPS, 0) // len(Phase) % len(self._plans)
