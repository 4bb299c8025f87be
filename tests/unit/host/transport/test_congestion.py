# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The congestion window and the budgets alone."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import pytest
from sumwire.transport import congestion
from sumwire.transport.budget import Budget, allowance
from sumwire.transport.congestion import LEAST_CHUNKS, START_CHUNKS, WindowLimit


def test_slow_start_doubles_every_round_trip_up_to_half_of_the_slots() -> None:
    limit = WindowLimit(100)
    assert limit.chunks == START_CHUNKS == 10
    sizes = []
    for step in range(5):
        limit.results(limit.chunks, 0.1 * step, marked=0)
        sizes.append(limit.chunks)
    assert sizes == [20, 40, 80, 100, 100]


def test_the_first_mark_halves_once_in_a_round_trip_then_it_is_one_more_each() -> None:
    limit = WindowLimit(1000)
    limit.round_trip(0.1)
    limit.results(70, 1.0, marked=0)
    assert limit.chunks == 80
    limit.results(1, 1.01, marked=1)
    limit.results(1, 1.05, marked=1)
    assert limit.chunks == 40
    limit.results(1, 1.12, marked=1)
    assert limit.chunks == 20
    for _ in range(20):
        limit.results(1, 1.2, marked=0)
    assert limit.chunks == 20, "20 results, each a bit less than a 20th"
    limit.results(1, 1.2, marked=0)
    assert limit.chunks == 21


@pytest.mark.parametrize("share", [0.05, 0.25, 1.0])
def test_marks_shrink_it_by_half_of_the_share_of_marked_results(share: float) -> None:
    """RFC 8257. The window has 40 chunks each time, so that a round trip is 40 results."""
    limit = WindowLimit(1000)
    limit.round_trip(0.1)
    limit.results(30, 0.0, marked=1)
    for step in range(200):
        limit._size = 40.0
        limit.results(40, 1.0 + step, marked=round(40 * share))
    assert limit._size == pytest.approx(40 * (1 - share / 2), rel=1e-3)


def test_marks_never_stop_it() -> None:
    limit = WindowLimit(64)
    for step in range(50):
        limit.results(1, float(step), marked=1)
    assert limit.chunks == LEAST_CHUNKS
    assert WindowLimit(1).chunks == 1


def test_round_trips_far_above_the_shortest_shrink_it() -> None:
    limit = WindowLimit(1000)
    limit.round_trip(0.01)
    limit.results(90, 0.0, marked=0)
    for step in range(40):
        limit.round_trip(0.5)
        limit.results(1, 5.0 + 10.0 * step, marked=0)
    assert limit.chunks == 32
    steady = WindowLimit(1000)
    for step in range(40):
        steady.round_trip(0.05)
        steady.results(10, 10.0 * step, marked=0)
    assert steady.chunks == 410


class Sender:
    """Sends chunks one after the other, from ``since`` on. Its clock is ``behind_s`` behind those of others."""

    def __init__(self, since: float, behind_s: float) -> None:
        self.limit = WindowLimit(256, shared_s=-behind_s)
        self.since = since
        self.in_flight = 0
        self.landed: list[float] = []

    def take(self, sent_at: float, now: float) -> None:
        self.in_flight -= 1
        self.landed.append(now)
        self.limit.round_trip(now - sent_at)
        self.limit.results(1, now, marked=0)


def shares(senders: Sequence[Sender], *, rate: float, way_s: float, between: tuple[float, float]) -> list[float]:
    """What each sender gets of one link of ``rate`` chunks/s, whose queue drops nothing and marks nothing, and the sum.
    A round trip takes ``way_s`` when the queue is empty."""
    begin, end = between
    free = 0.0
    # When, by whom, and when it was sent. Before its first chunk a sender only begins.
    landings = [(sender.since, index, -1.0) for index, sender in enumerate(senders)]
    while landings:
        now, index, sent_at = heapq.heappop(landings)
        if now >= end:
            break
        if sent_at >= 0:
            senders[index].take(sent_at, now)
        while senders[index].in_flight < senders[index].limit.chunks:
            senders[index].in_flight += 1
            free = max(free, now) + 1 / rate
            heapq.heappush(landings, (free + way_s, index, now))
    counts = [sum(at >= begin for at in sender.landed) / (rate * (end - begin)) for sender in senders]
    return [*counts, sum(counts)]


@pytest.mark.parametrize(("rate", "way_s"), [(1000, 0.001), (1000, 0.02), (3000, 0.005)])
@pytest.mark.parametrize("starts", [(0, 5), (0, 3, 6), (0, 0, 0, 0)])
def test_who_starts_late_gets_no_more_than_the_others(rate: float, way_s: float, starts: Sequence[float]) -> None:
    """Clocks of hosts differ by up to 10 ms here."""
    senders = [Sender(since, 0.01 * index / len(starts)) for index, since in enumerate(starts)]
    *each, whole = shares(senders, rate=rate, way_s=way_s, between=(25.0, 55.0))
    assert max(each) < 1.5 * min(each)
    assert whole > 0.97


@pytest.mark.parametrize("apart", ["no drains", "clocks"])
def test_without_drains_at_once_the_late_one_takes_most(apart: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is the drains that make shares fair, and those that come at once."""
    if apart == "no drains":
        monkeypatch.setattr(congestion, "DRAIN_ABOVE_S", 1e9)
    senders = [Sender(0, 0.0), Sender(5, 5.0 if apart == "clocks" else 0.0)]
    early, late, _ = shares(senders, rate=1000, way_s=0.001, between=(25.0, 55.0))
    assert late > 1.5 * early


def drains(limit: WindowLimit, now: float, round_trip_s: float) -> bool:
    limit.round_trip(round_trip_s)
    limit.results(1, now, marked=0)
    return limit.chunks == 1


def grown(round_trip_s: float) -> WindowLimit:
    limit = WindowLimit(100)
    limit.round_trip(0.001)
    limit.results(90, 1.0, marked=0)
    for step in range(50):
        assert not drains(limit, 1.1 + 0.01 * step, round_trip_s)
    return limit


def test_a_drain_lasts_two_round_trips_and_slow_start_leads_back() -> None:
    limit = grown(0.05)
    assert not drains(limit, 9.99, 0.05)
    assert drains(limit, 10.01, 0.05)
    assert drains(limit, 10.1, 0.05)
    limit.results(1, 10.12, marked=0)
    assert limit.chunks == START_CHUNKS
    assert not drains(limit, 10.13, 0.05), "once in 10 s"
    limit.results(89, 10.14, marked=0)
    assert limit.chunks == 100
    assert not drains(limit, 19.9, 0.05)


def test_short_round_trips_never_drain() -> None:
    limit = grown(0.01)
    assert not any(drains(limit, 1.0 + 0.01 * step, 0.01) for step in range(5000))


def test_who_was_idle_when_the_others_drained_does_not_drain_alone() -> None:
    limit = grown(0.05)
    assert not drains(limit, 10.2, 0.05)


def test_a_mark_counts_while_a_sender_drains() -> None:
    limit = grown(0.05)
    assert drains(limit, 10.01, 0.05)
    limit.results(1, 10.05, marked=1)
    limit.results(1, 10.2, marked=0)
    limit.results(100, 10.21, marked=0)
    assert limit.chunks == 50


@pytest.mark.parametrize(
    ("bound", "chunks", "workers", "sequence", "allowances"),
    [
        (0.0, 1000, 4, 0, [0, 0, 0, 0]),
        (0.03, 100, 4, 0, [3, 3, 3, 3]),
        (0.03, 110, 4, 0, [4, 3, 3, 3]),
        (0.03, 110, 4, 2, [3, 3, 4, 3]),
        (0.03, 130, 4, 3, [4, 4, 3, 4]),
        (0.03, 8, 4, 5, [0, 0, 0, 0]),
        (0.03, 9, 4, 5, [0, 1, 0, 0]),
        (0.5, 1, 2, 1, [0, 1]),
        (0.9, 0, 3, 7, [0, 0, 0]),
    ],
)
def test_allowances_add_up_to_what_the_bound_allows(
    bound: float, chunks: int, workers: int, sequence: int, allowances: list[int]
) -> None:
    assert [allowance(bound, chunks, workers, worker=w, sequence=sequence) for w in range(workers)] == allowances


def test_a_flush_is_paid_for_beforehand() -> None:
    budget = Budget(2)
    assert budget.reserve(5)
    assert budget.reserve(5), "the same once more"
    assert budget.reserve(6)
    assert not budget.reserve(7)
    budget.settle(lambda chunk: chunk == 5, lambda chunk: 0)
    assert (budget.spent, budget.reserved) == (0, {6})
    assert budget.reserve(7)
    budget.settle(lambda chunk: True, lambda chunk: 1)
    assert (budget.spent, budget.reserved) == (2, set())
    assert not budget.reserve(8)
