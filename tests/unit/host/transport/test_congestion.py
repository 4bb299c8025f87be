# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The congestion window and the budgets alone."""

from __future__ import annotations

import pytest
from sumwire.transport.congestion import LEAST_CHUNKS, START_CHUNKS, WindowLimit
from sumwire.transport.retransmission import Budget, allowance


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
        limit.results(1, 10.0 * step, marked=0)
    assert limit.chunks == 32
    steady = WindowLimit(1000)
    for step in range(40):
        steady.round_trip(0.05)
        steady.results(10, 10.0 * step, marked=0)
    assert steady.chunks == 410


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
