# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the ranks decide together, and the status that each tells."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from sumwire.errors import DeadlineError, RefusedError, SumwireError, SwitchLostError
from sumwire.job.coordination import (
    CoordinationPhase,
    Coordinator,
    Done,
    Fail,
    FallBack,
    Halt,
    HandOut,
    Hold,
    Limit,
    Return,
)
from sumwire.job.heartbeat import STATUS_BYTES, Failure, RankStatus


def test_what_is_told_is_what_is_heard() -> None:
    failure = Failure("RefusedError", "no such job", {"reason": 8, "name": "JOB"})
    standing = RankStatus(3, 7, 8, 6, "thc of 5 values", lost="silent", stalled=True, left="Ctrl-C", failure=failure)
    content = standing.encode()
    assert RankStatus.decode(content) == standing
    assert RankStatus.decode(content.ljust(STATUS_BYTES)) == standing


def test_what_is_as_usual_is_not_told() -> None:
    assert json.loads(RankStatus(3, 7, 8, joined=True).encode()) == {
        "worker": 3, "completed": 7, "started": 8, "joined": True
    }  # fmt: skip


def test_texts_that_are_too_long_are_cut() -> None:
    long = "\u00fc" * STATUS_BYTES
    content = RankStatus(1, call=long, lost=long, left=long, failure=Failure("OrderError", long)).encode()
    assert len(content) <= STATUS_BYTES
    heard = RankStatus.decode(content)
    assert long.startswith(heard.lost)
    assert len(heard.lost) > 100


@pytest.mark.parametrize(
    "error",
    [
        RefusedError("no such job", reason=8, name="JOB"),
        SwitchLostError("silent", job=7, slot=3),
        DeadlineError(job=7, slot=1, round_=2, chunk=3, open_chunks=4, waited_s=5.0, missing=[2]),
    ],
)
def test_an_error_is_the_same_on_every_rank(error: SumwireError) -> None:
    standing = RankStatus(0, failure=Failure.of(error))
    heard = RankStatus.decode(standing.encode()).failure
    assert heard is not None
    again = heard.error()
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)


def vector(*completed: int, working: bool = False, greeted: bool = True, **common: object) -> list[RankStatus]:
    return [
        RankStatus(worker, done, done + working, greeted=greeted, **common)  # type: ignore[arg-type]
        for worker, done in enumerate(completed)
    ]


def agreement(
    quorum: int = 3, phase: CoordinationPhase = CoordinationPhase.NETWORK, *, always: bool = False
) -> Coordinator:
    made = Coordinator("digits", quorum, always=always)
    made.phase = phase
    return made


def failure_of(made: Coordinator, standings: list[RankStatus]) -> Failure:
    decision = made.step(standings)
    assert isinstance(decision, Fail)
    assert made.phase == CoordinationPhase.ENDED
    return decision.failure


def test_nothing_changes_while_all_work() -> None:
    made = agreement()
    assert made.step(vector(8, 7, 8, working=True)) is None
    assert not made.urgent


def test_one_rank_that_lost_the_switch_halts_all() -> None:
    made = agreement()
    ranks = vector(8, 7, 8, working=True)
    assert made.step([ranks[0], replace(ranks[1], lost="silent"), ranks[2]]) == Halt()
    assert made.urgent
    assert made.step(ranks) is None
    halted = vector(8, 7, 8, halted=True, working=True)
    assert made.step([*halted[:2], replace(halted[2], halted=False)]) is None
    assert made.step(halted) == FallBack(8, "worker 1: silent", (HandOut(7, 0),))
    assert made.phase == CoordinationPhase.FALLBACK


def test_results_are_handed_out_however_far_apart_the_ranks_are() -> None:
    made = agreement(quorum=2, phase=CoordinationPhase.HALTING)
    ranks = [replace(rank, kept_from=kept) for rank, kept in zip(vector(5, 2, 4, halted=True), (4, 2, 1), strict=True)]
    decision = made.step(ranks)
    assert isinstance(decision, FallBack)
    assert decision.hand_outs == (HandOut(2, 2), HandOut(3, 2), HandOut(4, 0))


def test_a_result_that_nobody_keeps_ends_the_job() -> None:
    made = agreement(quorum=2, phase=CoordinationPhase.HALTING)
    failure = failure_of(made, [replace(rank, kept_from=4) for rank in vector(5, 2, 4, halted=True)])
    assert failure.kind == "FallbackError"
    assert "{0: 5, 1: 2, 2: 4}" in failure.text
    assert "kept_chunks" in failure.text


def test_return_at_an_operation_that_all_have_completed() -> None:
    made = agreement(phase=CoordinationPhase.FALLBACK)
    seeing = vector(8, 7, 8, sees_switch=True)
    assert made.step([*seeing[:2], replace(seeing[2], sees_switch=False)]) is None
    assert made.step(seeing) == Hold()
    started = [seeing[0], seeing[1], replace(seeing[2], started=9)]
    assert made.step(started) == Limit(9)
    assert made.step([*vector(9, 8, 9)]) is None
    assert made.step(vector(9, 9, 9)) == Return(9)
    assert made.phase == CoordinationPhase.NETWORK


def test_no_return_while_a_rank_closes() -> None:
    made = agreement(phase=CoordinationPhase.FALLBACK)
    seeing = vector(8, 8, 8, sees_switch=True)
    assert made.step([replace(seeing[0], closing=True), *seeing[1:]]) is None


def test_a_return_that_fails_at_once_makes_the_next_one_wait() -> None:
    made, rounds = agreement(quorum=1), []
    for completed in (4, 4, 4, 4, 4, 5, 5):
        made.step(vector(completed, lost="silent"))
        made.step(vector(completed, halted=True))
        count = 1
        while made.step(vector(completed, sees_switch=True)) is None:
            count += 1
        rounds.append(count)
        made.step(vector(completed))
        assert made.step(vector(completed)) == Return(completed)
    assert rounds == [1, 2, 4, 8, 8, 1, 2]


def test_different_calls_end_the_job_and_both_are_named() -> None:
    ranks = vector(3, 3, 4, working=True, call="thc of 2000 values")
    failure = failure_of(agreement(), [ranks[0], replace(ranks[1], call="thc of 6000 values"), ranks[2]])
    assert failure.kind == "OrderError"
    assert "operation 3 is thc of 2000 values on worker 0, but thc of 6000 values on worker 1" in failure.text


def test_an_error_of_one_rank_is_that_of_all() -> None:
    told = Failure("RefusedError", "job 23 is not on this switch", {"reason": 7})
    ranks = vector(0, 0, 0)
    assert failure_of(agreement(), [ranks[0], replace(ranks[1], failure=told), ranks[2]]) == told


def test_a_rank_that_left_ends_the_job() -> None:
    ranks = vector(0, 0, 0)
    failure = failure_of(agreement(), [ranks[0], replace(ranks[1], left="KeyboardInterrupt"), ranks[2]])
    assert failure.kind == "PeerLostError"
    assert "worker 1 has left: KeyboardInterrupt" in failure.text


def test_all_close() -> None:
    made = agreement()
    ranks = vector(3, 3, 3)
    closing = [replace(rank, closing=True) for rank in ranks]
    assert made.step([*closing[:2], ranks[2]]) is None
    assert made.step(closing) == Done()


@pytest.mark.parametrize(
    ("quorum", "phase", "fails"),
    [
        (3, CoordinationPhase.NETWORK, True),
        (2, CoordinationPhase.NETWORK, False),
        (2, CoordinationPhase.FALLBACK, True),
    ],
)
def test_an_operation_that_a_closed_rank_does_not_make(quorum: int, phase: CoordinationPhase, fails: bool) -> None:
    made = agreement(quorum, phase)
    first, *others = vector(1, 1, 1)
    ranks = [replace(first, closing=True), *(replace(rank, started=2) for rank in others)]
    if fails:
        assert "operation 1 cannot be finished: workers [0] have closed" in failure_of(made, ranks).text
    else:
        assert made.step(ranks) is None


def test_a_result_that_does_not_come_although_all_have_sent() -> None:
    """Rank 0 has operation 4 already; the switch was restarted before the others got it."""
    made = agreement()
    ranks = [RankStatus(0, 5, 6, greeted=True), *vector(0, 4, 4, working=True, stalled=True)[1:]]
    assert made.step([ranks[0], ranks[1], replace(ranks[2], stalled=False)]) is None
    assert made.step([replace(ranks[0], completed=4, started=4), *ranks[1:]]) is None, "it may still send"
    assert made.step(ranks) == Halt()


def test_a_greeting_without_result_is_an_error() -> None:
    waiting = vector(0, 0, 0, working=True, stalled=True, greeted=False)
    halted = vector(0, 0, 0, working=True, halted=True, greeted=False)
    made, always = agreement(), agreement(always=True)
    assert made.step(waiting) == always.step(waiting) == Halt()
    assert failure_of(made, halted).kind == "SwitchLostError"
    assert isinstance(always.step(halted), FallBack)


def test_a_greeting_that_ends_while_the_ranks_halt_was_a_greeting() -> None:
    """The round in which all told that they wait is over when its results come. Then there is nothing wrong with the
    set-up, and the ranks fall back."""
    made = agreement()
    assert made.step(vector(0, 0, 0, working=True, stalled=True, greeted=False)) == Halt()
    assert made.step(vector(1, 0, 1, working=True, halted=True)) == FallBack(
        1, "all workers have sent, and no result comes", (HandOut(0, 0),)
    )


@pytest.mark.parametrize("greeted", [False, True])
def test_a_greeting_waits_for_all_whatever_the_quorum(greeted: bool) -> None:
    """Worker 2 still reads its first batch: two of three cannot end a greeting, but they can end a chunk."""
    late = RankStatus(2, greeted=greeted)
    waiting = vector(0, 0, 0, working=True, stalled=True, greeted=greeted)[:2]
    assert agreement(quorum=2).step([*waiting, late]) is None
    assert (
        agreement(quorum=2).step(
            [*(replace(rank, greeted=True, joined=True) for rank in waiting), replace(late, greeted=True, joined=True)]
        )
        == Halt()
    )


def test_a_greeting_without_result_after_a_return_leads_to_the_fall_back_again() -> None:
    """Also if some rank has never greeted: at its start another one lost the switch."""
    made = agreement(phase=CoordinationPhase.RETURNING)
    assert made.step(vector(4, 4, 4)) == Return(4)
    waiting = vector(4, 4, 4, working=True, stalled=True)
    assert made.step([waiting[0], *(replace(rank, greeted=False) for rank in waiting[1:])]) == Halt()
