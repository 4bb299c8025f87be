# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a window does about chunks without result: sent again, asked about, or closed without a contribution."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from helpers.transport.windows import answer, drain, hear, taken, window
from sumwire.transport.options import ExchangeOptions, Turn, WindowOptions
from sumwire.transport.retransmission import (
    JUDGED,
    Budget,
    Reordering,
    RttEstimator,
    SendKind,
)
from sumwire.transport.window import Window


def adaptive(slots: int, *, budget: int = 0, **options: Any) -> Window:
    rtt = RttEstimator(initial_s=0.2, min_s=0.03, max_s=1.0)
    w = Window(slots, rtt, options=WindowOptions(adaptive_retries=True, **options))
    w.begin(8, 0.0, budget=Budget(budget))
    assert drain(w, 0.0) == list(range(min(8, slots // 2)))
    return w


def queued(slots: int, **options: Any) -> Window:
    """Like :func:`adaptive`, where packets wait in queues: the first round trip takes 1 ms, those to come 10 ms."""
    w = Window(slots, RttEstimator(), options=WindowOptions(adaptive_retries=True, probes=True, **options))
    w.begin(1, -1.0)
    drain(w, -1.0)
    answer(w, 0, -0.999)
    w.restart(0)
    w.begin(24, 0.0, budget=Budget(2))
    assert drain(w, 0.0) == list(range(slots // 2))
    return w


def test_overtaken_chunk_goes_out_again_and_then_is_asked_about() -> None:
    w = adaptive(16, probes=True)
    for chunk in range(1, 4):
        answer(w, chunk, 0.01)
    assert taken(w, 0.01) == [(SendKind.RESEND, [0])]
    assert taken(w, 0.3) == [(SendKind.PROBE, [4, 5, 6, 7, 0])], "the timer: another worker may be late"
    w.on_inform(*w.place(0), send=False)
    assert taken(w, 0.31) == []
    w.on_inform(*w.place(0), send=True)
    assert taken(w, 0.31) == [(SendKind.RESEND, [0])], "the switch lacks it"
    w.on_inform(0, 5, send=True)
    w.on_inform(9, 0, send=True)
    w.on_inform(3, 0, send=True)
    assert taken(w, 0.31) == [], "another round, not sent, answered: nothing to send"
    assert (w.counters.probes, w.counters.informs, w.counters.resent) == (5, 5, 2)


@pytest.mark.parametrize(
    ("options", "answered", "sent"),
    [
        ({"probes": False}, (1, 2, 3), [0]),
        # A round trip more would hold up the whole tensor, and whoever has the results may be gone.
        ({"budget": 2, "probes": True, "turn": Turn(1, 3)}, range(1, 8), [0]),
        ({"budget": 0, "probes": True, "turn": Turn(1, 3)}, (5, 6, 7), [0, 1, 2, 3, 4]),
    ],
    ids=["without probes", "the last chunks of a bounded tensor", "without a budget"],
)
def test_overtaken_chunks_go_out_again_without_a_question(
    options: Any, answered: Sequence[int], sent: list[int]
) -> None:
    w = adaptive(16, **options)
    hear(w, [w.place(chunk) for chunk in answered], 0.01)
    assert taken(w, 0.01) == [(SendKind.RESEND, sent)]


def test_chunks_of_the_own_turn_are_flushed_while_the_budget_lasts() -> None:
    """Worker 1 of 3 flushes the chunks 1, 4, 7 at once. Two may be missing: the first answer gives its one back."""
    w = adaptive(16, budget=2, probes=True, turn=Turn(1, 3))
    for chunk in (5, 6, 7):
        answer(w, chunk, 0.01)
    assert taken(w, 0.01) == [(SendKind.RESEND, [0, 2, 3]), (SendKind.FLUSH, [1, 4])]
    answer(w, 1, 0.02)
    w.settle(lambda chunk: False)
    answer(w, 4, 0.02)
    w.settle(lambda chunk: True)
    assert taken(w, 1.0) == [(SendKind.FLUSH, [0]), (SendKind.RESEND, [2, 3])], (
        "1 was complete, 4 cost one: one is left"
    )


def test_beside_another_workers_flush_only_a_lost_result_is_sent_for_in_queues() -> None:
    """A contribution that meets a closed slot brings the result once more, and results fill the links."""
    w = queued(16, turn=Turn(1, 3))
    for chunk in (4, 5, 6):
        answer(w, chunk, 0.01)
    first, *retries = sorted(taken(w, 0.01))
    assert first == (SendKind.FIRST, [12, 13, 14])
    assert retries == [(SendKind.FLUSH, [1]), (SendKind.PROBE, [0, 2, 3])]
    w.on_inform(*w.place(0), send=False)
    w.on_inform(*w.place(2), send=True)
    assert taken(w, 0.02) == [(SendKind.RESEND, [2])], "its slot is closed; the one of chunk 0 waits for the FLUSH"


def test_where_nothing_else_can_be_sent_a_lost_result_is_sent_for_at_once() -> None:
    """A question first would cost the tensor a round trip, in queues or not."""
    w = queued(16, turn=Turn(1, 3))
    hear(w, [w.place(chunk) for chunk in range(8)], 0.01)
    assert drain(w, 0.01) == list(range(8, 16))
    hear(w, [w.place(chunk) for chunk in range(8, 16)], 0.02)
    assert drain(w, 0.02) == list(range(16, 24))
    hear(w, [w.place(chunk) for chunk in (21, 22, 23)], 0.03)
    assert taken(w, 0.03) == [(SendKind.FLUSH, [16, 19]), (SendKind.RESEND, [17, 18, 20])]


def test_a_path_without_queues_is_not_asked_about_overtaken_chunks() -> None:
    w = Window(16, RttEstimator(), options=WindowOptions(adaptive_retries=True, probes=True, turn=Turn(1, 3)))
    w.begin(24, 0.0, budget=Budget(2))
    assert drain(w, 0.0) == list(range(8))
    hear(w, [w.place(chunk) for chunk in (4, 5, 6)], 0.04)
    assert sorted(taken(w, 0.04))[1:] == [(SendKind.RESEND, [0, 2, 3]), (SendKind.FLUSH, [1])]


def test_nobody_is_left_out_before_the_first_result() -> None:
    """A timer then tells of a worker that computes longer. Its contributions are not lost."""
    w = Window(16, RttEstimator(), options=WindowOptions(adaptive_retries=True, probes=True))
    w.begin(8, 0.0, budget=Budget(8), options=ExchangeOptions(waits_for_workers=True))
    drain(w, 0.0)
    slow = [kind for now in (0.3, 1.0, 3.0) for kind, _ in taken(w, now)]
    assert slow
    assert SendKind.FLUSH not in slow
    answer(w, 0, 3.1)
    assert SendKind.FLUSH in [kind for kind, _ in taken(w, 6.0)]


def test_chunks_before_the_bounded_ones_are_never_flushed() -> None:
    budget = Budget(2, first=1)
    assert [budget.reserve(chunk) for chunk in (0, 1, 2, 3)] == [False, True, True, False]


@pytest.mark.parametrize("sampled", [True, False])
def test_no_timer_is_shorter_than_the_path(sampled: bool) -> None:
    """An exchange that waits for slow workers has a short one, which on a long path would only send packets twice."""
    w = Window(16, RttEstimator(), options=WindowOptions(adaptive_retries=True, probes=True))
    w.begin(1, 0.0)
    drain(w, 0.0)
    answer(w, 0, 0.04)
    w.begin(8, 1.0, options=ExchangeOptions(waits_for_workers=not sampled))
    drain(w, 1.0)
    assert taken(w, 1.059) == []
    assert w.wake_at() >= 1.06 - 1e-9


def test_the_last_chunks_are_sent_twice_before_they_are_asked_about() -> None:
    """A question whose answer is that the slot is closed would cost the tensor a round trip."""
    w = adaptive(16, probes=True)
    hear(w, [w.place(chunk) for chunk in range(1, 8)], 0.01)
    kinds = [taken(w, now)[0] for now in (0.01, 0.2, 0.5)]
    assert kinds == [(SendKind.RESEND, [0]), (SendKind.RESEND, [0]), (SendKind.RESEND, [0])]


def test_several_paths_give_a_chunk_two_round_trips() -> None:
    """Results of the other way may overtake it: only time tells."""
    w = adaptive(16, probes=True, paths=2)
    hear(w, [w.place(chunk) for chunk in range(1, 8)], 0.1)
    assert taken(w, 0.11) == []
    assert w.wake_at() == pytest.approx(0.2)
    assert taken(w, 0.2) == [(SendKind.RESEND, [0])], "the last of all: not asked about first"


def test_blocks_that_overtake_each_other_are_soon_waited_for() -> None:
    """Two processes of an aggregator have blocks of 64 slots, and one is always a little later."""
    w = window(512)
    w.begin(64 * 64, 0.0)
    drain(w, 0.0, 512)
    for first in range(0, 64 * 64, 128):
        now = 0.01 + first / 12800
        hear(w, [w.place(chunk) for chunk in range(first + 64, first + 128)], now)
        before = w.counters.resent
        drain(w, now, 512)
        late = [w.place(chunk) for chunk in range(first, first + 64)]
        hear(w, late, now + 0.001)
        # What was sent again is answered again.
        hear(w, late[: w.counters.resent - before], now + 0.002)
        drain(w, now + 0.002, 512)
    assert w.done
    assert 64 <= w.counters.resent <= 192
    assert w.counters.resent == w.counters.duplicates


@pytest.mark.parametrize("workers", [2, 4, 32])
def test_needless_resends_among_real_losses_prove_nothing(workers: int) -> None:
    """With equal losses on all links (n - 1) / (n + 1) of what is sent again is needless."""
    reordering = Reordering(several_paths=False, workers=workers)
    draw = random.Random(workers)
    for _ in range(20 * JUDGED):
        reordering.sent_again(1)
        reordering.answered_twice(int(draw.random() < (workers - 1) / (workers + 1)))
        assert not reordering.expected
    for _ in range(4 * JUDGED):
        reordering.sent_again(1)
        reordering.answered_twice(1)
    assert reordering.expected, "nothing is lost any more"
    for _ in range(JUDGED):
        reordering.sent_again(1)
    assert not reordering.expected, "and now everything is"
