# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The steady state of a window through C: numpy's way sends the same chunks and leaves the same state behind."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from sumwire.native import SWITCH
from sumwire.transport.options import ExchangeOptions, WindowOptions
from sumwire.transport.retransmission import RttEstimator, SendKind
from sumwire.transport.scheduling import EarlyClosing, Steady
from sumwire.transport.steady import kernels
from sumwire.transport.window import Window

pytestmark = pytest.mark.cc
ADAPTIVE = WindowOptions(adaptive_retries=True, probes=True)
EARLY = WindowOptions(adaptive_retries=True, early_closing=True)


def window(slots: int, *, native: bool, options: WindowOptions, monkeypatch: pytest.MonkeyPatch) -> Window:
    """A window whose exchanges begin in C or in numpy."""
    with monkeypatch.context() as patch:
        patch.setenv(SWITCH, "1" if native else "0")
        return Window(slots, RttEstimator(), options=options)


def state(w: Window) -> list[Any]:
    """All that later decisions depend on."""
    flight, turns, timers = w._flight, w._turns, w._timers
    arrays = (flight.flying, flight.landed, flight.first, flight.latest, flight.sent_at, flight.log[: flight.end])
    numbers = [flight.count, flight.last_first, flight.end, turns.taken, turns.to, w.open_chunks, w.completed()]
    answers = [w._fast.threshold, w._fast.latest, timers.progress_at, w._timers._rtt.timeout_s, w.counters]
    turned = turns.turned().tolist() if isinstance(turns, EarlyClosing) else []
    return [*(array.tolist() for array in arrays), turns.ready[: turns.to].tolist(), turned, *numbers, *answers]


@pytest.mark.parametrize("options", [WindowOptions(), ADAPTIVE, EARLY], ids=["plain", "adaptive", "early"])
@pytest.mark.parametrize("slots", [2, 7, 16])
@pytest.mark.parametrize("seed", range(3))
def test_c_does_what_numpy_does(slots: int, options: WindowOptions, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random exchanges in which results are lost, late and out of turn, so that chunks are sent again between runs."""
    rng = random.Random(seed)
    both = [window(slots, native=native, options=options, monkeypatch=monkeypatch) for native in (True, False)]
    now = 0.0
    for chunks in (1, 50, 100):
        for w in both:
            w.begin(chunks, now, filled=0)
        assert [w.steady is not None for w in both] == [True, False]
        while not both[0].done:
            now += rng.choice([0.0001, 0.001, 0.1])
            upto, most = rng.randrange(both[0].filled, chunks + 1), rng.choice([1, 5, 512])
            for w in both:
                w.filled = upto
            taken = [_taken(w, now, most) for w in both]
            assert taken[0] == taken[1]
            assert state(both[0]) == state(both[1])
            _land(both, now, rng)
            assert state(both[0]) == state(both[1])


def _taken(w: Window, now: float, most: int) -> list[Any]:
    """All that is to be sent now."""
    sent = []
    while (outgoing := w.take(now, most)) is not None:
        sent.append((outgoing.kind, outgoing.chunks.tolist()))
    return sent


def _land(both: list[Window], now: float, rng: random.Random) -> None:
    """Results of some chunks in flight: now a run of them, now any."""
    flying = np.flatnonzero(both[0]._flight.flying)
    if not len(flying):
        return
    if rng.random() < 0.3:
        some = flying[[rng.random() < 0.5 for _ in flying]]
        for w in both:
            w.complete(some, now)
        return
    first = last = int(rng.choice(flying.tolist()))
    while last < len(both[0]._flight.flying) and both[0]._flight.flying[last] and rng.random() < 0.95:
        last += 1
    for w in both:
        w.complete_run(first, last, now) if last > first else None


def test_a_log_that_retransmissions_have_moved_is_read_where_it_is_now() -> None:
    """Nothing more is taken before the results come, as with a full socket. C once read behind the old log's end."""
    w = Window(8, RttEstimator())
    w.begin(4, 0.0)
    now, moved = 0.0, False
    while not moved or w._flight.end < 20_000:
        log = w._flight.log
        assert w.take(now, 512) is not None
        moved = w._flight.log is not log
        now += 10.0
    w.complete_run(0, 1, now)
    assert (w._flight.head, w.oldest()) == (w._flight.end - 3, 1)


def test_from_a_result_on_that_comes_before_its_chunk_is_sent_numpy_goes_on() -> None:
    """Slots of 8: chunks 0 to 3 are sent, 4 to 7 when those have results. Chunk 5 need not be sent at all."""
    early = Window(8, RttEstimator(), options=EARLY)
    early.begin(20, 0.0)
    assert _taken(early, 0.0, 512) == [(SendKind.FIRST, [0, 1, 2, 3])]
    early.complete_run(0, 2, 0.001)
    assert isinstance(early.steady, Steady)
    assert _taken(early, 0.001, 512) == [(SendKind.FIRST, [4, 5])]
    early.complete(np.array([6]), 0.002)
    assert early.steady is None
    early.complete_run(2, 4, 0.003)
    assert _taken(early, 0.003, 512) == [(SendKind.FIRST, [7, 10])]
    early.begin(0, 0.0) if early.done else early.restart(20)
    early.begin(20, 0.0)
    assert isinstance(early.steady, Steady), "it is of one exchange"


def test_who_only_waits_leaves_what_may_close_early_to_numpy() -> None:
    """All chunks count as sent, also those whose turn has not come."""
    early = Window(8, RttEstimator(), options=EARLY)
    early.begin(20, 0.0, options=ExchangeOptions(contribute=False))
    assert early.steady is None


def test_without_c_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "0")
    assert kernels() is None
