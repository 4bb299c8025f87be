# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""PROBE and INFORM: how a worker asks about a slot, and what it is told; FLUSH that says how few are enough."""

from __future__ import annotations

import pytest
from golden import model
from helpers.packet.play import Game, contribution, random_payload
from helpers.packet.star import EVERY, FULL, LEAF, QUORUM, ROOT, SINGLE

OPS = pytest.mark.parametrize("op", model.OPS)


def earned(packet: model.Packet) -> int:
    """Flags, without the one that random content of SUM32 earns."""
    return packet.flags & ~model.OVERFLOW


def told(packet: model.Packet) -> tuple[int, int, int, int, int, int]:
    return packet.kind, packet.round, packet.contributors, packet.count, earned(packet), packet.words


@OPS
def test_from_nobody_to_closed(game: Game, op: int) -> None:
    assert told(game.probe(EVERY, 1, round_=3, op=op)) == (model.INFORM, 3, 0, 0, 0, 0)
    game.contribute(EVERY, 2, round_=3, op=op)
    game.contribute(EVERY, 0, round_=3, op=op)
    assert told(game.probe(EVERY, 1, round_=3, op=op)) == (model.INFORM, 3, 0b101, 2, 0, 0)
    assert told(game.probe(EVERY, 2, round_=3, op=op)) == (model.INFORM, 3, 0b101, 2, 0, 0)
    for worker in (1, 3):
        game.contribute(EVERY, worker, round_=3, op=op)
    assert told(game.probe(EVERY, 1, round_=3, op=op)) == (model.INFORM, 3, 0b1111, 4, model.CLOSED, 0)
    assert game.golden.verdicts["INFORM"] == 4


@OPS
def test_a_probe_changes_nothing(game: Game, op: int) -> None:
    """Of a newer round too: the slot still holds the result of the round before."""
    for worker in range(4):
        game.contribute(EVERY, worker, round_=7, op=op)
    assert told(game.probe(EVERY, 0, round_=8, op=op)) == (model.INFORM, 8, 0, 0, 0, 0)
    ((_, frame),) = game.contribute(EVERY, 0, round_=7, op=op)
    assert model.decode(frame[42:]).contributors == 0b1111
    assert game.contribute(EVERY, 0, round_=8, op=op) == []
    assert game.golden.verdicts == {"FIRST": 2, "ADD": 2, "LAST": 1, "DUPLICATE": 1, "INFORM": 1}


def test_never_closes_a_slot_even_alone_or_with_flush(game: Game) -> None:
    assert told(game.probe(SINGLE, 0, 1)) == (model.INFORM, 0, 0, 0, 0, 0)
    game.contribute(FULL, 0)
    probe = contribution(FULL, 0, 0, 0, b"", flags=model.FLUSH)._replace(kind=model.PROBE)
    ((_, frame),) = game.send(FULL, probe)
    assert told(model.decode(frame[42:])) == (model.INFORM, 0, 1, 1, 0, 0)


def test_of_an_older_round_is_stale(game: Game) -> None:
    game.contribute(FULL, 0, round_=9)
    assert told(game.probe(FULL, 1, round_=8)) == (model.STALE, 9, 0, 0, 0, 0)


def test_is_admitted_as_a_contribution_is(game: Game) -> None:
    game.contribute(EVERY, 0, op=model.SUM32)
    good = contribution(EVERY, 0, 0, 0, b"", model.SUM32)._replace(kind=model.PROBE)
    for fields in ({"op": model.THC}, {"slot": 8}, {"worker": 4}, {"count": 2}, {"job": 99}, {"words": 1}):
        game.send(EVERY, good._replace(**fields), EVERY.workers[0])
    game.send(EVERY, good, EVERY.workers[1])
    assert sum(game.golden.rejects.values()) == 7
    assert len(game.golden.rejects) == 7


@OPS
def test_in_a_tree(game: Game, op: int) -> None:
    """A leaf that waits for the switch above says who is in, and CLOSED only once the result is here."""
    for worker in range(2):
        game.contribute(LEAF, worker, op=op)
    assert told(game.probe(LEAF, 0, op=op)) == (model.INFORM, 0, 0b11, 2, 0, 0)
    game.result_from_above(LEAF, op=op)
    assert told(game.probe(LEAF, 1, op=op)) == (model.INFORM, 0, 0b11, 9, model.CLOSED, 0)
    game.contribute(ROOT, 0, op=op)
    assert told(game.probe(ROOT, 1, op=op)) == (model.INFORM, 0, 0b1, 2, 0, 0)


@OPS
@pytest.mark.parametrize("least", [1, 2, 3, 4])
def test_flush_needs_as_many_as_it_says(game: Game, op: int, least: int) -> None:
    """Three of four are in: enough for up to three, and then a sum of three, no failure."""
    for worker in (0, 1, 3):
        game.contribute(EVERY, worker, op=op)
    out = game.contribute(EVERY, 1, op=op, flags=model.FLUSH, contributors=least)
    if least == 4:
        assert out == []
        assert game.golden.verdicts["REPEAT"] == 1
    else:
        assert len(out) == 4
        packet = model.decode(out[0][1][42:])
        assert (packet.count, packet.contributors, earned(packet)) == (3, 0b1011, model.MISSING)
        # The fourth comes late, is told the same, and that it is out.
        ((_, frame),) = game.contribute(EVERY, 2, op=op)
        assert told(model.decode(frame[42:]))[2:5] == (0b1011, 3, model.MISSING)


def test_flush_of_one_who_is_not_in_is_a_contribution(game: Game) -> None:
    """First of all it adds what it brings; it closes only what its own packet makes full."""
    fields = {"flags": model.FLUSH, "contributors": 1}
    for worker in range(3):
        assert game.contribute(FULL, worker, **fields) == []
    assert len(game.contribute(FULL, 3, **fields)) == 4
    game.contribute(QUORUM, 0, **fields)
    assert len(game.contribute(QUORUM, 1, **fields)) == 3
    assert game.golden.verdicts == {"FIRST": 2, "ADD": 2, "LAST": 2}


def test_least_beyond_any_count_of_workers(game: Game) -> None:
    game.contribute(FULL, 0)
    for least in (2, 256, 2**31, 2**32 - 1):
        assert game.contribute(FULL, 0, flags=model.FLUSH, contributors=least) == []


@OPS
def test_missing_below_is_said_above_and_flush_goes_up_only_unconditional(game: Game, op: int) -> None:
    game.contribute(LEAF, 0, op=op)
    ((_, frame),) = game.contribute(LEAF, 0, op=op, flags=model.FLUSH, contributors=1)
    assert earned(model.decode(frame[42:])) == model.MISSING
    ((_, frame),) = game.contribute(LEAF, 0, op=op, flags=model.FLUSH, contributors=1)
    assert earned(model.decode(frame[42:])) == model.MISSING
    ((_, frame),) = game.contribute(LEAF, 0, op=op, flags=model.FLUSH)
    up = model.decode(frame[42:])
    assert (up.contributors, earned(up)) == (0, model.MISSING | model.FLUSH)
    game.contribute(ROOT, 0, op=op, flags=model.MISSING, count=1)
    for worker in (1, 2):
        out = game.contribute(ROOT, worker, op=op)
    assert earned(model.decode(out[0][1][42:])) == model.MISSING


@pytest.mark.parametrize("seed", range(3))
def test_random_schedules_with_probes_and_bounded_flushes(game: Game, seed: int) -> None:
    rng = game.rng
    for step in range(150):
        job = (EVERY, QUORUM, LEAF)[rng.integers(3)]
        worker, slot, round_ = int(rng.integers(len(job.workers))), int(rng.integers(2)), step // 30
        if job.parent and rng.random() < 0.1:
            game.result_from_above(job, slot, round_)
        elif rng.random() < 0.2:
            game.probe(job, worker, slot, round_)
        else:
            flush = rng.random() < 0.4
            fields = {"flags": model.FLUSH, "contributors": int(rng.integers(4))} if flush else {}
            tos = int(rng.integers(256))
            payload = random_payload(rng, model.THC)
            game.send(job, contribution(job, worker, slot, round_, payload, **fields), tos=tos)
