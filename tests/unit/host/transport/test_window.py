# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The window alone: what goes out when, on a clock that the test moves."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers.transport.windows import answer, drain, hear, taken, window
from sumwire.errors import StaleRunError, UsageError
from sumwire.transport.congestion import START_CHUNKS, WindowLimit
from sumwire.transport.options import ExchangeOptions, WindowOptions
from sumwire.transport.retransmission import (
    REORDER_TOLERANCE,
    SHORT_TIMEOUT_S,
    TIMEOUT_BURST_CHUNKS,
    FastRetransmit,
    RttEstimator,
    SendKind,
)
from sumwire.transport.scheduling import Chunks, EarlyClosing, Flight, SendSchedule
from sumwire.transport.window import NOTHING, Window
from sumwire.wire.packets import place_of, round_newer


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
