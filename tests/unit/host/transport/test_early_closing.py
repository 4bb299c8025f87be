# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The rules of turns, of early closing and of fast retransmit, by the examples in their modules."""

from __future__ import annotations

import numpy as np
import pytest
from sumwire.errors import StaleRunError
from sumwire.transport.retransmission import FastRetransmit
from sumwire.transport.scheduling import Chunks, EarlyClosing, Flight, SendSchedule
from sumwire.wire.packets import place_of, round_newer


def chunks_of(*numbers: int) -> Chunks:
    return np.array(numbers, np.int64)


def early(chunks: int, slots: int, *, from_the_start: bool = True, kept: int | None = None) -> EarlyClosing:
    return EarlyClosing(chunks, slots, Flight(chunks), from_the_start=from_the_start, kept_results=kept)


def test_chunks_7_and_12_use_the_same_slot_of_5() -> None:
    assert place_of(7, 5) == (2, 1)
    assert place_of(12, 5) == (2, 2)
    assert place_of(5 * 2**32 + 1, 5) == (1, 0), "rounds have 32 bits"
    assert round_newer(0, 2**32 - 1)


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


def test_early_results_are_not_sent_and_what_follows_waits() -> None:
    flight = Flight(7)
    turns = EarlyClosing(7, 4, flight, from_the_start=True, kept_results=None)
    assert turns.next(10, 7).tolist() == [0, 1]
    flight.send(chunks_of(0, 1), 0.0)
    assert turns.land(chunks_of(2, 4)).tolist() == [], "they were not in flight"
    turns.follow(chunks_of(2, 4))
    assert turns.exhausted
    assert turns.first_open(chunks_of(3, 4, 3)).tolist() == [True, False, False]
    turns.follow(turns.land(chunks_of(0)))
    assert turns.next(10, 7).tolist() == [6]


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
