# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The window alone: what goes out when, on a clock that the test moves."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from sumwire.errors import StaleRunError, UsageError
from sumwire.transport.congestion import START_CHUNKS, WindowLimit
from sumwire.transport.options import ExchangeOptions, Turn, WindowOptions
from sumwire.transport.retransmission import (
    JUDGED,
    REORDER_TOLERANCE,
    SHORT_TIMEOUT_S,
    TIMEOUT_BURST_CHUNKS,
    Budget,
    FastRetransmit,
    Reordering,
    RttEstimator,
    SendKind,
)
from sumwire.transport.scheduling import Chunks, EarlyClosing, Flight, SendSchedule
from sumwire.transport.window import NOTHING, Window
from sumwire.wire.packets import place_of, round_newer


def window(slots: int) -> Window:
    rtt = RttEstimator(initial_s=0.2, min_s=0.03, max_s=1.0)
    return Window(slots, rtt, job=1)


def drain(w: Window, now: float, most: int = 7) -> list[int]:
    chunks: list[int] = []
    while (outgoing := w.take(now, most)) is not None:
        assert 0 < len(outgoing.chunks) <= most
        chunks += outgoing.chunks.tolist()
    return chunks


def hear(w: Window, places: list[tuple[int, int]], now: float) -> list[int]:
    """Results that come together; the chunks they complete, or NOTHING for each."""
    slots, rounds = np.array(places, np.int64).reshape(-1, 2).T
    chunks = w.find(slots, rounds)
    w.complete(chunks[chunks != NOTHING], now)
    found: list[int] = chunks.tolist()
    return found


def answer(w: Window, chunk: int, now: float) -> int:
    return hear(w, [w.place(chunk)], now)[0]


@pytest.mark.parametrize("slots", [0, 1])
def test_fewer_than_two_slots_are_refused(slots: int) -> None:
    with pytest.raises(UsageError, match=f"slots = {slots}"):
        window(slots)


@pytest.mark.parametrize("slots", [2, 3, 4, 7, 8])
@pytest.mark.parametrize("chunks", [0, 1, 2, 5, 40])
def test_clean_exchange_sends_each_chunk_once(slots: int, chunks: int) -> None:
    w = window(slots)
    w.begin(chunks, 0.0)
    sent = drain(w, 0.0)
    assert sent == list(range(min(slots // 2, chunks)))
    for chunk in range(chunks):
        assert answer(w, chunk, 0.01) == chunk
        sent += drain(w, 0.01)
    assert sent == list(range(chunks))
    assert w.done
    assert w.counters.resent == 0


def test_next_chunk_waits_for_its_own_predecessor_only() -> None:
    w = window(8)
    w.begin(20, 0.0)
    assert drain(w, 0.0) == [0, 1, 2, 3]
    answer(w, 2, 0.01)
    assert drain(w, 0.01) == [6]
    answer(w, 0, 0.01)
    assert drain(w, 0.01) == [4]


def test_odd_slots_wait_for_both_predecessors() -> None:
    """Chunk 4 of 7 slots: 7 // 2 = 3 back is 1, and 4 back is 0. Without 0, some worker could pass it by a round."""
    w = window(7)
    w.begin(20, 0.0)
    assert drain(w, 0.0) == [0, 1, 2]
    answer(w, 1, 0.01)
    assert drain(w, 0.01) == []
    answer(w, 0, 0.01)
    assert drain(w, 0.01) == [3, 4]


def test_chunks_wait_for_their_payload() -> None:
    w = window(16)
    w.begin(12, 0.0, filled=3)
    assert drain(w, 0.0) == [0, 1, 2]
    answer(w, 1, 0.01)
    assert drain(w, 0.01) == [], "chunk 9 has its turn, but not its payload, and 3 comes first"
    w.filled = 10
    assert drain(w, 0.02) == [3, 4, 5, 6, 7, 9]
    assert w.completed() == 0
    answer(w, 0, 0.03)
    assert w.completed() == 2
    assert drain(w, 0.03) == [8]
    answer(w, 2, 0.04)
    assert drain(w, 0.04) == [], "10 has no payload yet"
    late = w.wake_at()
    assert late > 0.04
    assert drain(w, late)[0] == 3, "the timer does not wait for payloads"
    w.filled = 12
    assert drain(w, late) == [10]


def test_results_of_several_chunks_in_one_call() -> None:
    """As one by one: the same chunk twice counts once, and what follows is sent once, also for an odd S."""
    w = window(7)
    w.begin(20, 0.0)
    assert drain(w, 0.0) == [0, 1, 2]
    assert hear(w, [w.place(1), w.place(0), w.place(1), (6, 9)], 0.01) == [1, 0, NOTHING, NOTHING]
    assert w.counters.duplicates == 2
    assert drain(w, 0.01) == [3, 4]
    assert hear(w, [w.place(2), w.place(3), w.place(4)], 0.02) == [2, 3, 4]
    assert drain(w, 0.02) == [5, 6, 7]
    assert w.completed() == 5


def test_of_results_that_come_together_the_longest_round_trip_is_measured() -> None:
    rtt = RttEstimator()
    w = Window(16, rtt)
    w.begin(8, 0.0, filled=1)
    drain(w, 0.0)
    w.filled = 8
    drain(w, 0.1)
    hear(w, [w.place(3), w.place(0), w.place(1)], 0.15)
    assert rtt.smoothed_s == pytest.approx(0.15)


def test_sequence_goes_on_over_exchanges() -> None:
    w = window(5)
    w.begin(3, 0.0)
    for chunk in range(3):
        drain(w, 0.0)
        answer(w, chunk, 0.0)
    w.begin(4, 1.0)
    assert [w.place(chunk) for chunk in range(4)] == [(3, 0), (4, 0), (0, 1), (1, 1)]
    assert hear(w, [(2, 0)], 1.0) == [NOTHING], "a late result of the exchange before"


def test_rounds_wrap_at_32_bits() -> None:
    w = window(4)
    w.base = 4 * (2**32 - 1) + 3
    w.begin(2, 0.0)
    assert [w.place(chunk) for chunk in range(2)] == [(3, 2**32 - 1), (0, 0)]
    drain(w, 0.0)
    assert hear(w, [(3, 2**32 - 1)], 0.1) == [0]
    assert hear(w, [(0, 0)], 0.1) == [1]
    w.begin(1, 0.0)
    drain(w, 0.0)
    w.on_stale(1, 2**32 - 1)
    with pytest.raises(StaleRunError):
        w.on_stale(1, 1)


@pytest.mark.parametrize(
    ("a", "b", "newer"),
    [(1, 0, True), (0, 1, False), (0, 0, False), (0, 2**32 - 1, True), (2**31, 0, False), (2**31 - 1, 0, True)],
)
def test_serial_number_arithmetic(a: int, b: int, newer: bool) -> None:
    assert round_newer(a, b) is newer


def test_duplicates_unsent_and_foreign_results_are_ignored() -> None:
    w = window(8)
    w.begin(10, 0.0)
    drain(w, 0.0)
    assert answer(w, 1, 0.1) == 1
    assert answer(w, 1, 0.1) == NOTHING
    assert answer(w, 7, 0.1) == NOTHING, "not sent yet"
    assert hear(w, [(0, 5)], 0.1) == [NOTHING], "far ahead"
    assert hear(w, [(9, 0)], 0.1) == [NOTHING], "no such slot"
    assert hear(w, [(65535, 2**32 - 1)], 0.1) == [NOTHING]
    assert w.open_chunks == 9


def test_overtaken_chunk_is_resent_at_once_and_once() -> None:
    w = window(16)
    w.begin(8, 0.0)
    drain(w, 0.0)
    for chunk in range(1, REORDER_TOLERANCE):
        answer(w, chunk, 0.01)
        assert drain(w, 0.01) == []
    answer(w, REORDER_TOLERANCE, 0.01)
    assert drain(w, 0.01) == [0]
    for chunk in range(REORDER_TOLERANCE + 1, 8):
        answer(w, chunk, 0.02)
        assert drain(w, 0.02) == []
    assert (w.counters.resent_quick, w.counters.resent_timeout) == (1, 0)


def test_overtaken_chunk_near_the_end_needs_fewer_witnesses() -> None:
    w = window(16)
    w.begin(4, 0.0)
    drain(w, 0.0)
    for chunk in (0, 3):
        answer(w, chunk, 0.01)
    assert drain(w, 0.01) == [1, 2], "everything sent later is answered"
    assert drain(w, 0.02) == []
    w = window(8)
    w.begin(5, 0.0)
    drain(w, 0.0)
    answer(w, 3, 0.01)
    assert drain(w, 0.01) == [], "chunk 4 is still to come, and may overtake them too"


def test_answer_to_a_resent_chunk_overtakes_nothing() -> None:
    """One needless resend, answered from the first sending, must not make everything before it look lost."""
    w = window(32)
    w.begin(16, 0.0)
    drain(w, 0.0)
    resent = drain(w, 0.25)
    assert len(resent) == TIMEOUT_BURST_CHUNKS
    for chunk in resent:
        answer(w, chunk, 0.26)
    assert drain(w, 0.26) == []


def test_timer_resends_few_backs_off_and_grows_with_progress() -> None:
    w = window(64)
    w.begin(32, 0.0)
    drain(w, 0.0)
    assert w.wake_at() == pytest.approx(0.2)
    assert drain(w, 0.199) == []
    assert drain(w, 0.2) == [0, 1, 2, 3]
    assert w.wake_at() == pytest.approx(0.2 + 0.4)
    assert drain(w, 0.61) == [4, 5, 6, 7], "nothing came back: no more than before"
    answer(w, 0, 0.7)
    assert drain(w, 0.82) == list(range(8, 16)), "the path answers: twice as many, and the first timeout again"


def test_exchange_that_waits_for_workers_has_its_own_short_timeout() -> None:
    """However long full windows' round trips are; and they do not forget them."""
    rtt = RttEstimator()
    w = Window(8, rtt)
    w.begin(1, 0.0)
    drain(w, 0.0)
    answer(w, 0, 0.5)
    path_timeout_s = rtt.timeout_s
    w.begin(1, 1.0, options=ExchangeOptions(waits_for_workers=True))
    drain(w, 1.0)
    assert w.wake_at() == pytest.approx(1.0 + SHORT_TIMEOUT_S)
    assert drain(w, 1.07) == [0]
    assert w.wake_at() == pytest.approx(1.07 + 2 * SHORT_TIMEOUT_S)
    answer(w, 0, 1.1)
    assert rtt.timeout_s == path_timeout_s


def test_last_chunks_have_a_short_timeout() -> None:
    """It runs from the last result, as results of a draining queue may still be on their way."""
    w = window(16)
    w.begin(8, 0.0)
    drain(w, 0.0)
    answer(w, 0, 0.15)
    assert w.wake_at() == pytest.approx(0.15 + 4 * 0.075), "7 are open: the path's timeout"
    for chunk in range(1, 7):
        answer(w, chunk, 0.3)
    assert w.wake_at() == pytest.approx(0.3 + SHORT_TIMEOUT_S)
    assert drain(w, 0.3 + SHORT_TIMEOUT_S) == [7]
    assert w.wake_at() == pytest.approx(0.3 + 3 * SHORT_TIMEOUT_S)


def test_timer_leaves_young_chunks_alone() -> None:
    w = window(8)
    w.begin(8, 0.0)
    drain(w, 0.0)
    answer(w, 3, 0.15)
    assert drain(w, 0.15) == [7]
    assert 7 not in drain(w, 10.0 - 9.6)


def test_progress_is_the_last_new_result() -> None:
    w = window(8)
    w.begin(12, 0.0)
    drain(w, 0.0)
    assert w.progress_at == 0.0
    answer(w, 1, 4.9)
    answer(w, 1, 9.0)
    assert w.progress_at == 4.9
    drain(w, 9.8)
    error = w.deadline_error(10.0, w.oldest())
    assert str(error).startswith("job 1: no result for 5.10 s; slot ")
    assert error.open_chunks == 11
    assert error.missing is None
    assert error.chunk == error.slot != 1


def test_a_window_with_nothing_in_flight_never_wakes() -> None:
    w = window(8)
    w.begin(1, 0.0, filled=0)
    drain(w, 0.0)
    assert w.wake_at() == math.inf


def test_stale_answers() -> None:
    w = window(4)
    w.begin(10, 0.0)
    drain(w, 0.0)
    for chunk in (0, 1, 2, 3):
        answer(w, chunk, 0.0)
        drain(w, 0.0)
    # In flight: 4 and 5, slots 0 and 1 in round 1.
    w.on_stale(0, 1)
    w.on_stale(0, 0)
    w.on_stale(3, 7)
    assert w.counters.stale == 3
    with pytest.raises(StaleRunError, match="slot 1 is in round 2, this worker waits for round 1"):
        w.on_stale(1, 2)


def test_stale_tells_of_another_run() -> None:
    w = window(4)
    w.begin(10, 0.0)
    drain(w, 0.0)
    with pytest.raises(StaleRunError, match="another run of the job has begun") as caught:
        w.on_stale(0, 3)
    assert (caught.value.slot, caught.value.round) == (0, 3)


def test_begin_before_the_end_is_refused() -> None:
    w = window(4)
    w.begin(1, 0.0)
    with pytest.raises(UsageError, match="1 chunks"):
        w.begin(1, 0.0)


def test_round_trips_are_sampled_by_karns_rule() -> None:
    rtt = RttEstimator()
    w = Window(8, rtt)
    w.begin(2, 0.0)
    drain(w, 0.0)
    answer(w, 0, 0.1)
    assert rtt.smoothed_s == pytest.approx(0.1)
    drain(w, 5.0)
    answer(w, 1, 5.3)
    assert rtt.smoothed_s == pytest.approx(0.1), "chunk 1 was resent: which of its packets was answered is unknown"


def test_waiting_for_workers_is_no_sample() -> None:
    rtt = RttEstimator()
    w = Window(8, rtt)
    w.begin(1, 0.0, options=ExchangeOptions(waits_for_workers=True))
    drain(w, 0.0)
    answer(w, 0, 0.15)
    assert rtt.smoothed_s is None


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


def taken(w: Window, now: float) -> list[tuple[SendKind, list[int]]]:
    """What is sent now, in order."""
    out: list[tuple[SendKind, list[int]]] = []
    while (outgoing := w.take(now, 7)) is not None:
        out.append((outgoing.kind, outgoing.chunks.tolist()))
    return out


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


def test_who_does_not_contribute_sends_nothing() -> None:
    w = Window(4, RttEstimator(), options=WindowOptions(adaptive_retries=True, early_closing=True))
    w.begin(9, 0.0, options=ExchangeOptions(contribute=False))
    w.filled = 9
    assert taken(w, 0.0) == []
    for chunk in (8, 1, 2):
        assert answer(w, chunk, 0.01) == chunk
    sent = [kind for now in (0.01, 0.2, 0.5, 1.0, 2.0) for kind, _ in taken(w, now)]
    assert set(sent) == {SendKind.RECOVER}, "only other workers are asked"
    for chunk in (0, 3, 4, 5, 6, 7):
        answer(w, chunk, 2.0)
        assert all(kind == SendKind.RECOVER for kind, _ in taken(w, 2.0))
    assert w.done


def test_results_that_come_early_are_taken_but_what_follows_waits() -> None:
    """Chunk 2 follows 0, and 4 follows 2: 4 would take the slot of 0, which is still open."""
    w = Window(4, RttEstimator(), options=WindowOptions(adaptive_retries=True, early_closing=True))
    w.begin(7, 0.0)
    assert drain(w, 0.0) == [0, 1]
    assert hear(w, [w.place(2), w.place(4)], 0.01) == [2, 4]
    assert drain(w, 0.01) == []
    answer(w, 0, 0.01)
    assert drain(w, 0.01) == [6], "2 and 4 have their results, so it is the turn of 6"


def test_a_limit_below_half_of_the_slots() -> None:
    w = Window(64, RttEstimator(), options=WindowOptions(adaptive_retries=True), limit=WindowLimit(32))
    w.begin(100, 0.0)
    assert drain(w, 0.0) == list(range(START_CHUNKS))
    hear(w, [w.place(chunk) for chunk in range(4)], 0.01)
    assert len(drain(w, 0.01)) == 8, "slow start: two for each result"
    w.complete(w.find(*np.array([w.place(chunk) for chunk in range(4, 6)]).T), 0.02, marked=1)
    assert w.limit is not None
    assert w.limit.chunks == START_CHUNKS // 2 + 2
    assert drain(w, 0.02) == []


def test_rfc_6298_figures() -> None:
    """Section 2.2 and 2.3, by hand: R = 0.1, then R' = 0.2."""
    rtt = RttEstimator(initial_s=0.5, min_s=0.01, max_s=2.0)
    assert rtt.timeout_s == 0.5
    rtt.sample(0.1)
    assert rtt.timeout_s == pytest.approx(0.1 + 4 * 0.05)
    rtt.sample(0.2)
    assert rtt.variation_s == pytest.approx(0.75 * 0.05 + 0.25 * 0.1)
    assert rtt.smoothed_s == pytest.approx(0.1125)
    rtt.back_off()
    rtt.back_off()
    assert rtt.timeout_s == pytest.approx(4 * (0.1125 + 4 * 0.0625))
    rtt.back_off()
    assert rtt.timeout_s == 2.0
    rtt.settle()
    assert rtt.timeout_s == pytest.approx(0.1125 + 4 * 0.0625)


@pytest.mark.parametrize("limits", [(0.1, 0.2, 1.0), (2.0, 0.1, 1.0), (0.1, 0.0, 1.0)])
def test_impossible_timeouts_are_refused(limits: tuple[float, float, float]) -> None:
    initial_s, min_s, max_s = limits
    with pytest.raises(ValueError, match="0 < min <= initial <= max"):
        RttEstimator(initial_s=initial_s, min_s=min_s, max_s=max_s)


def test_a_small_window_lets_go_what_others_may_wait_for() -> None:
    """Chunk 0 is answered last, so chunk 4 stands behind 5, 6 and 7. Another worker may have sent only 4."""
    limit = WindowLimit(4)
    w = Window(8, RttEstimator(), options=WindowOptions(adaptive_retries=True), limit=limit)
    w.begin(12, 0.0)

    def sent(now: float) -> list[int]:
        outgoing = iter(lambda: w.take(now, 64), None)
        return [chunk for one in outgoing if one and one.kind == SendKind.FIRST for chunk in one.chunks.tolist()]

    assert sent(0.0) == [0, 1, 2, 3]
    w.complete(np.array([1, 2, 3]), 0.001)
    assert sent(0.001) == [5, 6, 7]
    limit._size = 1.0
    limit._slow_start = False
    w.complete(np.array([0]), 0.002)
    assert sent(0.002) == [4]


# -- turns and early closing, by the examples in their modules ---------------------------------------------


def chunks_of(*numbers: int) -> Chunks:
    return np.array(numbers, np.int64)


def early(chunks: int, slots: int, *, from_the_start: bool = True, kept: int | None = None) -> EarlyClosing:
    return EarlyClosing(chunks, slots, Flight(chunks), from_the_start=from_the_start, kept_results=kept)


def test_chunks_7_and_12_use_the_same_slot_of_5() -> None:
    assert place_of(7, 5) == (2, 1)
    assert place_of(12, 5) == (2, 2)
    assert place_of(5 * 2**32 + 1, 5) == (1, 0), "rounds have 32 bits"


def test_turns_need_the_results_of_half_the_slots_before() -> None:
    flight = Flight(10)
    turns = SendSchedule(10, 7, flight)
    assert turns.next(10, 10).tolist() == [0, 1, 2]
    flight.send(chunks_of(0, 1, 2), 0.0)
    assert turns.exhausted
    turns.follow(turns.land(chunks_of(1)))
    assert turns.exhausted, "chunk 4 needs chunks 1 and 0, chunk 3 needs chunk 0"
    turns.follow(turns.land(chunks_of(0)))
    assert turns.next(1, 10).tolist() == [3], "at most one"
    assert turns.next(10, 4).tolist() == [], "the payload of chunk 4 is not there"
    assert turns.next(10, 5).tolist() == [4]


@pytest.mark.parametrize(("kept", "gone"), [(16, True), (20, True), (21, False), (None, False)])
def test_a_result_is_gone_when_others_are_further_ahead_than_what_they_keep(kept: int | None, gone: bool) -> None:
    """8 slots and a switch 3 rounds ahead: the others have 3 x 8 - 4 = 20 more results."""
    turns = early(10, 8, kept=kept)
    if gone:
        with pytest.raises(
            StaleRunError, match=f"slot 1: the others are 20 chunks ahead and keep the results of {kept}"
        ):
            turns.overwritten(3, "slot 1", first_results=True)
    else:
        turns.overwritten(3, "slot 1", first_results=True)


def test_where_nobody_can_be_ahead_it_is_another_run() -> None:
    for turns, first in ((SendSchedule(10, 8, Flight(10)), False), (early(10, 8, from_the_start=False), True)):
        with pytest.raises(StaleRunError, match=r"slot 1: another run of the job has begun.* start all workers again"):
            turns.overwritten(1, "slot 1", first_results=first)
    early(10, 8, from_the_start=False).overwritten(1, "slot 1", first_results=False)


def test_three_answers_overtake_a_chunk() -> None:
    fast = FastRetransmit()
    fast.answered([2, 3])
    assert fast.threshold == 0
    fast.answered([4])
    assert (fast.threshold, fast.latest) == (2, 4), "transmission 1, of chunk 0, is overtaken"
    fast.answered([1])
    assert (fast.threshold, fast.latest) == (2, 4)
