# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The simulator's window (simulate/native/window.c) against the host library's: the same results at the same times make
both send the same chunks at the same times."""

from __future__ import annotations

import ctypes
import heapq
import math
import random
from dataclasses import dataclass, field

import numpy as np
import pytest
from sumwire.transport.congestion import WindowLimit
from sumwire.transport.options import ExchangeOptions, WindowOptions
from sumwire.transport.retransmission import RttEstimator, SendKind
from sumwire.transport.window import NOTHING, Window
from sumwire_lab.simulate.native import engine

SCHEDULES = 1000
OTHER = ExchangeOptions(waits_for_workers=True)
TAKEN = {1: SendKind.FIRST, 2: SendKind.RESEND}


@dataclass
class Terms:
    """A random path, and what is exchanged over it."""

    draws: random.Random
    slots: int = field(init=False)
    workers: int = field(init=False)
    paths: int = field(init=False)
    limited: bool = field(init=False)
    exchanges: list[tuple[int, bool]] = field(init=False)

    def __post_init__(self) -> None:
        draws = self.draws
        self.slots = draws.choice([2, 3, 4, 5, 8, 9, 16, 64, 65])
        self.workers = draws.choice([1, 2, 4, 8])
        self.paths = draws.choice([1, 1, 2])
        self.limited = draws.random() < 0.5
        self.exchanges = [(draws.randint(1, 400), draws.random() < 0.5) for _ in range(draws.randint(1, 4))]
        self.loss = draws.choice([0.0, 0.01, 0.1, 0.3])
        self.twice = draws.choice([0.0, 0.05])
        self.marks = draws.choice([0.0, 0.2])
        self.delay_s = draws.choice([0.0001, 0.001, 0.02])
        self.spread_s = self.delay_s * draws.choice([0.0, 0.1, 1.0, 8.0])
        self.gap_s = draws.choice([0.0, 1e-5, 1e-4])


class Pair:
    """Both windows, of which every answer is compared."""

    def __init__(self, terms: Terms) -> None:
        limit = WindowLimit(terms.slots // 2) if terms.limited else None
        options = WindowOptions(paths=terms.paths, workers=terms.workers)
        self.real = Window(terms.slots, RttEstimator(), options=options, limit=limit)
        self.native = engine()
        self.window = self.native.window_new(terms.slots, terms.workers, terms.paths > 1, terms.limited)
        self.state = self.window.contents
        self.slots = terms.slots

    def begin(self, chunks: int, filled: int, waits: bool, now: float) -> None:
        options = OTHER if waits else ExchangeOptions()
        self.real.begin(chunks, now, filled=filled, options=options)
        self.native.window_begin(self.window, chunks, filled, not waits, now)

    def fill(self, filled: int) -> None:
        self.real.filled = filled
        self.native.window_fill(self.window, filled)

    def take(self, now: float) -> tuple[int, SendKind] | None:
        outgoing = self.real.take(now, 1)
        chunk = ctypes.c_uint64()
        kind = self.native.window_take(self.window, now, ctypes.addressof(chunk))
        real = None if outgoing is None else (int(outgoing.chunks[0]), outgoing.kind)
        assert (None if kind == 0 else (chunk.value, TAKEN[kind])) == real
        return real

    def result(self, sequence: int, marked: bool, now: float) -> bool:
        slot, round_ = sequence % self.slots, sequence // self.slots
        found = self.real.find(np.array([slot]), np.array([round_]))
        fresh = int(found[0]) != NOTHING
        if fresh:
            self.real.complete(found, now, marked=int(marked))
        assert bool(self.native.window_result(self.window, sequence, marked, now)) == fresh
        return fresh

    def same(self) -> None:
        assert self.native.window_wakes(self.window) == self.real.wake_at()
        state, counters = self.state, self.real.counters
        counted = (state.sent, state.resent_quick, state.resent_timeout, state.duplicates)
        assert counted == (counters.sent, counters.resent_quick, counters.resent_timeout, counters.duplicates)
        assert (state.open, state.in_flight) == (self.real.open_chunks, self.real.in_flight)


def played(seed: int) -> int:
    """Play one schedule, and return how many packets were sent."""
    terms = Terms(random.Random(seed))
    draws, pair, now, sent = terms.draws, Pair(terms), 0.0, 0
    arrivals: list[tuple[float, int, bool]] = []
    base = 0
    for chunks, waits in terms.exchanges:
        filled = draws.randint(0, chunks)
        pair.begin(chunks, filled, waits, now)
        while not pair.real.done:
            while (taken := pair.take(now)) is not None:
                sent += 1
                now += terms.gap_s
                for _ in range(1 + (draws.random() < terms.twice)):
                    if draws.random() >= terms.loss:
                        late = terms.delay_s + draws.random() * terms.spread_s
                        heapq.heappush(arrivals, (now + late, base + taken[0], draws.random() < terms.marks))
            pair.same()
            wakes = pair.real.wake_at()
            if arrivals and arrivals[0][0] <= wakes:
                at, sequence, marked = heapq.heappop(arrivals)
                now = max(now, at)
                pair.result(sequence, marked, now)
            elif wakes < math.inf:
                # A clock moves on: sums of times are rounded.
                now = max(now, wakes) + 1e-9
            if filled < chunks and (draws.random() < 0.3 or not pair.real.in_flight):
                filled = draws.randint(filled + 1, chunks)
                pair.fill(filled)
        pair.same()
        base += chunks
    pair.native.window_free(pair.window)
    return sent


@pytest.mark.few(1)
@pytest.mark.parametrize("part", range(10))
def test_both_send_the_same_packets(part: int) -> None:
    assert sum(played(seed) for seed in range(part * SCHEDULES // 10, (part + 1) * SCHEDULES // 10)) > SCHEDULES
