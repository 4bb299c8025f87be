# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A run's packets carry its token: the switch takes those of the latest run, in their slot's next round only."""

from __future__ import annotations

import random

import pytest
from golden import model
from helpers.packet.play import Frames, Game, Rig, contribution, named
from helpers.packet.star import EVERY, FULL, LEAF, QUORUM, ROOT

TOKEN, OTHER = 0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210
OPENED = 40
OPS = pytest.mark.parametrize("op", model.OPS)


def opening(game: Game, job: model.Job, worker: int, slot: int = 0, *, token: int = TOKEN, at: int = OPENED) -> Frames:
    return game.open_run(job, worker, slot, at, token)


def opened(game: Game, job: model.Job, *, token: int = TOKEN, at: int = OPENED) -> None:
    """The job's workers open a run."""
    for worker in range(job.quorum):
        opening(game, job, worker, token=token, at=at)


def answered(frames: Frames) -> int:
    """The kind of the one answer."""
    ((_, frame),) = frames
    return model.decode(frame[42:]).kind


@OPS
def test_a_run_uses_its_slots_round_by_round(game: Game, op: int) -> None:
    opened(game, EVERY)
    for round_ in (OPENED + 1, OPENED + 2):
        for slot in (0, 3):
            for worker in range(4):
                out = game.contribute(EVERY, worker, slot, round_, op=op, token=TOKEN)
            assert {model.decode(frame[42:]).token for _, frame in out} == {TOKEN}
    assert game.golden.rejects == {}


def test_before_a_run_is_opened_none_of_its_packets_is_taken(game: Game) -> None:
    assert answered(game.contribute(FULL, 0, 0, OPENED + 1, token=TOKEN)) == model.REFUSED
    opening(game, FULL, 0)
    # Not all have opened it.
    game.contribute(FULL, 0, 1, OPENED + 1, token=TOKEN)
    for worker in range(1, FULL.quorum):
        opening(game, FULL, worker)
    assert game.contribute(FULL, 0, 1, OPENED + 1, token=TOKEN) == []
    assert game.golden.rejects == {"TOKEN": 2}


@pytest.mark.parametrize("round_", [0, OPENED, OPENED + 1, OPENED + 2, OPENED + 20, 2**31 - 1])
def test_packets_of_another_run_are_refused_whatever_their_round(game: Game, round_: int) -> None:
    opened(game, FULL)
    game.contribute(FULL, 0, 1, OPENED + 1, token=TOKEN)
    for slot in (0, 1, 2):
        game.contribute(FULL, 1, slot, round_, token=OTHER)
        game.contribute(FULL, 1, slot, round_, token=OTHER, flags=model.FLUSH)
    game.contribute(FULL, 1, 1, OPENED + 1, token=TOKEN)
    assert game.golden.rejects == {"TOKEN": 6}


def test_every_bit_of_the_token_counts(game: Game) -> None:
    opened(game, QUORUM)
    game.contribute(QUORUM, 0, 1, OPENED + 1, token=TOKEN)
    for bit in range(64):
        game.contribute(QUORUM, 1, 1, OPENED + 1, token=TOKEN ^ 1 << bit)
    assert len(game.contribute(QUORUM, 1, 1, OPENED + 1, token=TOKEN)) == 3
    assert game.golden.rejects == {"TOKEN": 64}


@pytest.mark.parametrize("ahead", [2, 3, 16, 2**31 - 1])
def test_no_round_but_the_next_is_taken(game: Game, ahead: int) -> None:
    """Of a slot that the run has used, of one that it has not, and of the one that opened it."""
    opened(game, FULL)
    game.contribute(FULL, 0, 1, OPENED + 1, token=TOKEN)
    for slot, newest in ((0, OPENED), (1, OPENED + 1), (2, OPENED)):
        game.contribute(FULL, 1, slot, newest + ahead, token=TOKEN)
    for slot, newest in ((0, OPENED), (1, OPENED + 1), (2, OPENED)):
        game.contribute(FULL, 1, slot, newest + 1, token=TOKEN)
    assert game.golden.rejects == {"ROUND": 3}


@OPS
@pytest.mark.parametrize("ahead", [2, 40, 2**31 - 1])
@pytest.mark.few(30)
def test_a_root_takes_over_slots_in_any_round(game: Game, op: int, ahead: int) -> None:
    """Another root had them and failed: one that this one has never seen, and one that it had before. Not of another
    run, and nothing older."""
    opened(game, ROOT)
    for slot in (0, 5):
        game.contribute(ROOT, 0, slot, OPENED + ahead, op=op, token=OTHER)
        for worker in range(ROOT.quorum):
            out = game.contribute(ROOT, worker, slot, OPENED + ahead, op=op, token=TOKEN)
        assert len(out) == 3
        assert answered(game.contribute(ROOT, 1, slot, OPENED + ahead - 1, op=op, token=TOKEN)) == model.STALE
    assert game.golden.rejects == {"TOKEN": 2}


@pytest.mark.parametrize("round_", [OPENED, OPENED + 1])
def test_a_slot_of_another_run_is_first_used_in_the_round_of_the_opening_or_the_next(game: Game, round_: int) -> None:
    opened(game, QUORUM)
    game.contribute(QUORUM, 0, 2, OPENED - 1, token=TOKEN)
    for worker in range(QUORUM.quorum):
        out = game.contribute(QUORUM, worker, 2, round_, token=TOKEN)
    assert len(out) == 3
    assert game.golden.rejects == {"ROUND": 1}


def test_rounds_of_a_run_wrap_around(game: Game) -> None:
    opened(game, QUORUM, at=2**32 - 2)
    for round_ in (2**32 - 1, 0, 1):
        game.contribute(QUORUM, 0, 1, round_, token=TOKEN)
        game.contribute(QUORUM, 0, 1, (round_ + 2) % 2**32, token=TOKEN)
    assert game.golden.rejects == {"ROUND": 3}


def test_an_older_packet_of_the_run_is_stale(game: Game) -> None:
    opened(game, FULL)
    for round_ in (OPENED + 1, OPENED + 2):
        game.contribute(FULL, 0, 0, round_, token=TOKEN)
    assert answered(game.contribute(FULL, 1, 0, OPENED + 1, token=TOKEN)) == model.STALE
    assert game.golden.rejects == {}


def test_a_switch_that_has_forgotten_its_slots_takes_nothing_more_of_the_run(rig: Rig) -> None:
    """Whoever lacks a result cannot have the slot closed once more, by other contributions than at first."""
    opened(earlier := Game(rig), QUORUM)
    for worker in range(QUORUM.quorum):
        earlier.contribute(QUORUM, worker, 1, OPENED + 1, token=TOKEN)
    forgotten = Game(rig)
    for round_ in (OPENED + 1, OPENED + 2):
        forgotten.contribute(QUORUM, 2, 1, round_, token=TOKEN)
    assert forgotten.golden.rejects == {"TOKEN": 2}
    forgotten.check_counters()


def test_what_would_open_a_run_of_an_earlier_generation_opens_nothing(rig: Rig) -> None:
    """A straggler, or late copies, would otherwise bring a run back that the switch has forgotten."""
    earlier = Game(rig).rig.generation(QUORUM.number)
    game = Game(rig)
    game.hello(QUORUM, 0, 0)
    game = Game(rig)
    assert rig.generation(QUORUM.number) != earlier
    for generation in (earlier, 0):
        packet = contribution(QUORUM, 0, 0, OPENED, named(generation), model.MAX32)
        game.send(QUORUM, packet._replace(bucket=model.OPENS_RUN, token=TOKEN))
    game.contribute(QUORUM, 0, 1, OPENED + 1, token=TOKEN)
    assert game.golden.rejects == {"TOKEN": 3}
    for worker in range(QUORUM.quorum):
        opening(game, QUORUM, worker)
    assert game.contribute(QUORUM, 0, 1, OPENED + 1, token=TOKEN) == []
    game.check_counters()


@OPS
def test_a_greeting_may_name_the_generation_and_then_it_must_be_the_jobs(game: Game, op: int) -> None:
    generation = game.rig.generation(EVERY.number)
    for round_, token in ((3, generation ^ 1), (4, generation), (4, generation ^ 1), (5, generation - 1), (6, 0)):
        for worker in range(4):
            out = game.contribute(EVERY, worker, 0, round_, op=op, bucket=0xFFFF, token=token)
        assert (len(out) == 4) == (token in (0, generation))
        assert {model.decode(frame[42:]).token for _, frame in out} <= {token}
        game.later(model.GAP_US)
    assert game.golden.rejects == {"TOKEN": 8, "CALL": 4}


def test_a_new_run_is_greeted_and_opened_over_an_old_one(game: Game) -> None:
    opened(game, FULL)
    game.contribute(FULL, 0, 0, OPENED + 1, token=TOKEN)
    later = OPENED + 17
    for worker in range(FULL.quorum):
        game.contribute(FULL, worker, 0, later, op=model.MAX32, bucket=0xFFFF)
    # The old run still holds, but not in the slots that the greeting has used: what comes late there closes nothing.
    game.contribute(FULL, 0, 1, OPENED + 1, token=TOKEN)
    for round_ in (OPENED, OPENED + 1, OPENED + 2):
        assert answered(game.contribute(FULL, 0, 0, round_, token=TOKEN)) == model.STALE
    assert answered(game.contribute(FULL, 0, 0, later, token=TOKEN)) == model.REFUSED
    for worker in range(FULL.quorum):
        opening(game, FULL, worker, token=OTHER, at=later + 1)
    game.contribute(FULL, 0, 1, OPENED + 1, token=TOKEN)
    game.contribute(FULL, 1, 2, OPENED + 1, token=TOKEN)
    game.contribute(FULL, 1, 1, later + 2, token=OTHER)
    assert game.golden.rejects == {"CALL": 1, "TOKEN": 1}


def test_a_greeting_needs_no_token_and_any_newer_round_will_do(game: Game) -> None:
    opened(game, FULL)
    game.contribute(FULL, 0, 1, OPENED + 1, token=TOKEN)
    assert answered(game.contribute(FULL, 1, 1, OPENED, op=model.MAX32, bucket=0xFFFF)) == model.STALE
    game.contribute(FULL, 1, 1, OPENED + 1, op=model.MAX32, bucket=0xFFFF)
    game.contribute(FULL, 1, 1, OPENED + 33, op=model.MAX32, bucket=0xFFFF)
    assert game.golden.rejects == {"CALL": 1}


def test_a_greeting_is_not_mixed_with_a_runs_data(game: Game) -> None:
    """Spin's schedule without the rule TOKEN: worker 1 is killed in the middle of a run, and its next process is told
    that slot 0 is open. Whatever op and bucket the run's data has, the greeting is refused."""
    opened(game, EVERY)
    for worker, token in ((0, TOKEN), (1, 0)):
        out = game.contribute(EVERY, worker, 0, OPENED + 1, op=model.MAX32, bucket=65535, token=token)
    assert answered(out) == model.REFUSED
    assert game.golden.rejects == {"CALL": 1}


def test_of_an_earlier_generation_nothing_is_left(rig: Rig) -> None:
    """Nobody is in, and it is no call."""
    earlier = Game(rig)
    for worker in range(3):
        earlier.contribute(FULL, worker, round_=57)
    game = Game(rig)
    told = game.hello(FULL, 1, round_=4)
    assert (told.round, told.contributors, told.count) == (4, 0, 0)
    assert game.contribute(FULL, 1, bucket=8) == []
    assert game.golden.verdicts == {"FIRST": 1, "INFORM": 1}
    game.check_counters()


def test_a_greeting_is_told_revision_and_digest(game: Game) -> None:
    """The program's revision, and the digest: 16 bits where the bucket was, 16 in the chunk.

    The configuration of one switch of a tree has none.
    """
    digests = []
    for job in (FULL, EVERY, ROOT):
        packet = game.hello(job, 0, bucket=0xFFFF, chunk=0xFFFFFF)
        assert packet.chunk >> 16 == model.REVISION
        digests.append(packet.bucket << 16 | packet.chunk & 0xFFFF)
    assert len(set(digests)) == 3
    assert [bool(digest) for digest in digests] == [True, True, False]


def test_questions_are_of_a_run_too_and_are_not_told_the_token(game: Game) -> None:
    opened(game, FULL)
    game.contribute(FULL, 0, 1, OPENED + 1, token=TOKEN)
    probe = contribution(FULL, 1, 1, OPENED + 1, b"")._replace(kind=model.PROBE)
    assert answered(game.send(FULL, probe._replace(token=TOKEN))) == model.INFORM
    game.send(FULL, probe._replace(token=OTHER))
    game.send(FULL, probe)
    for token in (model.NO_TOKEN, OTHER):
        told = game.hello(FULL, 2, 1, token=token)
        generation = game.rig.generation(FULL.number)
        assert (told.round, told.contributors, told.token) == (OPENED + 1, 1, generation)
    assert game.golden.rejects == {"TOKEN": 1, "CALL": 1}


def test_a_probe_of_a_slot_that_the_run_has_not_used_finds_nothing_in_it(game: Game) -> None:
    opened(game, FULL)
    game.contribute(FULL, 0, 2, OPENED, op=model.MAX32, bucket=0xFFFF)
    probe = contribution(FULL, 1, 2, OPENED + 1, b"", token=TOKEN)._replace(kind=model.PROBE)
    ((_, frame),) = game.send(FULL, probe)
    assert model.decode(frame[42:]).contributors == 0


def test_a_lower_switch_learns_of_a_run_and_takes_any_newer_round_of_it(game: Game) -> None:
    """Its workers may have results from others that it has missed."""
    for worker in range(LEAF.quorum):
        out = opening(game, LEAF, worker)
    assert model.decode(out[0][1][42:]).token == TOKEN
    assert game.contribute(LEAF, 0, 1, OPENED + 3, token=TOKEN) == []
    game.contribute(LEAF, 0, 1, OPENED + 9, token=TOKEN)
    game.contribute(LEAF, 0, 1, OPENED + 3, token=OTHER)
    assert game.golden.rejects == {"TOKEN": 1}
    assert game.golden.verdicts["FIRST"] == 3


def test_a_lower_switch_learns_of_a_run_from_above(game: Game) -> None:
    above = {"bucket": model.OPENS_RUN, "token": TOKEN}
    assert len(game.result_from_above(LEAF, 0, OPENED, model.MAX32, **above)) == 2
    assert game.contribute(LEAF, 0, 1, OPENED + 1, token=TOKEN) == []
    assert len(game.result_from_above(LEAF, 1, OPENED + 4, token=TOKEN)) == 2
    assert game.result_from_above(LEAF, 1, OPENED + 4, token=TOKEN) == []  # it is here already
    assert game.result_from_above(LEAF, 1, OPENED + 3, token=TOKEN) == []  # and this is over
    assert game.golden.verdicts["KNOWN"] == 2
    assert game.golden.rejects == {}


@pytest.mark.parametrize("run_is_known", [False, True])
def test_a_late_result_of_another_run_fills_no_slot_of_a_lower_switch(game: Game, run_is_known: bool) -> None:
    """The switch was restarted while the result was on its way. The next run may begin in the same round."""
    if run_is_known:
        game.result_from_above(LEAF, 0, OPENED, model.MAX32, bucket=model.OPENS_RUN, token=TOKEN)
    for round_ in (OPENED, OPENED + 1, OPENED + 17):
        assert game.result_from_above(LEAF, 1, round_, token=OTHER) == []
    if not run_is_known:
        game.result_from_above(LEAF, 0, OPENED, model.MAX32, bucket=model.OPENS_RUN, token=TOKEN)
    for worker in range(LEAF.quorum):
        out = game.contribute(LEAF, worker, 1, OPENED, token=TOKEN)
    assert len(out) == 1
    assert len(game.result_from_above(LEAF, 1, OPENED, token=TOKEN)) == 2
    assert game.golden.rejects == {"TOKEN": 3}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.few(10)
def test_random_runs_one_over_another(game: Game, seed: int) -> None:
    rng = random.Random(seed)
    opened(game, QUORUM)
    runs = [(TOKEN, OPENED)]
    for _ in range(150):
        token, at = rng.choice(runs[-3:])
        slot, worker = rng.randrange(4), rng.randrange(3)
        round_ = at + rng.choice([0, 1, 1, 1, 2, 2, 3])
        if rng.random() < 0.05:
            at = runs[-1][1] + rng.choice([1, 16])
            runs.append((rng.randrange(2**32, 2**64), at))
            for opener in range(QUORUM.quorum):
                opening(game, QUORUM, opener, rng.randrange(4), token=runs[-1][0], at=at)
        elif rng.random() < 0.1:
            game.contribute(QUORUM, worker, slot, round_, op=model.MAX32, bucket=0xFFFF)
        else:
            game.contribute(QUORUM, worker, slot, round_, token=token, flags=rng.choice([0, 0, model.FLUSH]))
    assert game.golden.rejects["TOKEN"] and game.golden.rejects["ROUND"]
