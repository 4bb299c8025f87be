# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Windows of all workers of a run, with a slot that completes once all have contributed: nobody waits for ever.

Packets of all kinds get lost, and windows are cut far below half of the slots, as marks do it. Workers that have lost
different results then have different chunks in flight. Time is counted, not waited for.
"""

from __future__ import annotations

import heapq
import itertools
import random
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pytest
from sumwire.transport.options import WindowOptions
from sumwire.transport.retransmission import RttEstimator, SendKind
from sumwire.transport.window import NOTHING, Window

WORKERS, SLOTS, CHUNKS = 4, 64, 300
HALF = SLOTS // 2
TRIP_S, STEP_S, SILENCE_S = 0.005, 0.001, 8.0


class Cut:
    """A limit that is cut from outside."""

    most = HALF

    def __init__(self) -> None:
        self.chunks = HALF

    def round_trip(self, seconds: float) -> None:
        pass

    def results(self, *arguments: Any, **named: Any) -> None:
        pass


@dataclass
class Run:
    """Four workers and their switch. ``later`` packets are delayed by up to so many seconds."""

    loss: float
    later: float
    seed: int
    now: float = 0.0
    under_way: list[tuple[float, int, str, int, Any]] = field(default_factory=list)
    # By chunk: the workers in its sum.
    sums: dict[int, set[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.numbers = itertools.count()
        self.limits = [Cut() for _ in range(WORKERS)]
        options = WindowOptions(adaptive_retries=True, probes=True, workers=WORKERS)
        self.windows = [Window(SLOTS, RttEstimator(), options=options, limit=cast(Any, limit)) for limit in self.limits]
        for window in self.windows:
            window.begin(CHUNKS, 0.0)

    def send(self, what: str, worker: int, content: Any) -> None:
        if self.random.random() >= self.loss:
            due = self.now + TRIP_S + self.later * self.random.random()
            heapq.heappush(self.under_way, (due, next(self.numbers), what, worker, content))

    def ends(self, *, cut_at: float, chunks: int) -> bool:
        """Whether all workers get all results, before nothing has completed for a long time."""
        latest = 0.0
        while not all(window.done for window in self.windows) and self.now - latest < SILENCE_S:
            if self.now >= cut_at:
                for limit in self.limits:
                    limit.chunks = chunks
            for worker, window in enumerate(self.windows):
                self._take(worker, window)
            self.now += STEP_S
            while self.under_way and self.under_way[0][0] <= self.now:
                _, _, what, worker, content = heapq.heappop(self.under_way)
                if what in ("contribution", "probe"):
                    self._switch(what, worker, content)
                elif not self.windows[worker].done and self._answer(what, self.windows[worker], content):
                    latest = self.now
        return all(window.done for window in self.windows)

    def _take(self, worker: int, window: Window) -> None:
        while not window.done and (order := window.take(self.now, SLOTS)) is not None:
            what = "probe" if order.kind == SendKind.PROBE else "contribution"
            for chunk in order.chunks.tolist():
                self.send(what, worker, chunk)

    def _switch(self, what: str, worker: int, chunk: int) -> None:
        sum_of = self.sums.setdefault(chunk, set())
        whole = len(sum_of) == WORKERS
        if what == "probe":
            self.send("inform", worker, (chunk, whole or worker not in sum_of))
        elif whole:
            self.send("result", worker, chunk)
        else:
            sum_of.add(worker)
            if len(sum_of) == WORKERS:
                for each in range(WORKERS):
                    self.send("result", each, chunk)

    def _answer(self, what: str, window: Window, content: Any) -> bool:
        """Whether it has completed a chunk."""
        if what == "inform":
            chunk, wanted = content
            window.on_inform(*window.place(chunk), send=wanted)
            return False
        slot, number = window.place(content)
        found = window.find(np.array([slot]), np.array([number]))
        found = found[found != NOTHING]
        if len(found):
            window.complete(found, self.now)
        return bool(len(found))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("loss", "later", "chunks"), [(0.01, 0.0, 1), (0.05, 0.0, 4), (0.01, 0.001, 4), (0.01, 0.001, 10), (0.05, 0.001, 1)]
)
def test_windows_that_are_cut_never_stand_still(loss: float, later: float, chunks: int, seed: int) -> None:
    assert Run(loss, later, seed).ends(cut_at=0.05, chunks=chunks)
