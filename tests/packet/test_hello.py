# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""HELLO: a probe without an op, about whatever the slot has, and about the switch."""

from __future__ import annotations

import pytest
from golden import model
from golden.model import Packet
from helpers.packet.play import Game, Rig, contribution
from helpers.packet.star import EVERY, FULL, HOSTS, LEAF, NORMS, ROOT

OPS = pytest.mark.parametrize("op", model.OPS)
ROUNDS = pytest.mark.parametrize("asked", [0, 6, 7, 8, 2**31 + 7, 2**32 - 1])


def told(packet: Packet) -> tuple[int, int, int, int, int, int]:
    flags = packet.flags & ~model.OVERFLOW  # that random content of SUM32 earns
    return packet.kind, packet.round, packet.contributors, packet.count, flags, packet.words


@ROUNDS
@OPS
def test_the_slots_own_round_whatever_is_asked(game: Game, asked: int, op: int) -> None:
    """Also from one that is rounds behind or ahead: never STALE, and another call than the slot's does not matter."""
    assert told(game.hello(EVERY, 1, round_=asked)) == (model.INFORM, asked, 0, 0, 0, 0)
    for worker in (2, 0):
        game.contribute(EVERY, worker, round_=7, op=op)
    assert told(game.hello(EVERY, 1, round_=asked, bucket=9)) == (model.INFORM, 7, 0b101, 2, 0, 0)
    for worker in (1, 3):
        game.contribute(EVERY, worker, round_=7, op=op)
    assert told(game.hello(EVERY, 1, round_=asked)) == (model.INFORM, 7, 0b1111, 4, model.CLOSED, 0)
    assert game.golden.verdicts["INFORM"] == 3


def test_of_another_owner_nobody_is_in(rig: Rig) -> None:
    game = Game(rig)
    for worker in range(3):
        game.contribute(FULL, worker, round_=57)
    renewed = Game(rig)
    assert told(renewed.hello(FULL, 1, round_=4)) == (model.INFORM, 4, 0, 0, 0, 0)
    renewed.check_counters()


def test_what_it_speaks_to(game: Game) -> None:
    """The program's revision, and the digest: 16 bits where the bucket was, 16 in the chunk.

    The configuration of one switch of a tree has none.
    """
    digests = []
    for job in (FULL, EVERY, ROOT):
        packet = game.hello(job, 0, bucket=0xFFFF, chunk=0xFFFFFF)
        assert packet.chunk >> 16 == 4
        digests.append(packet.bucket << 16 | packet.chunk & 0xFFFF)
    assert len(set(digests)) == 3
    assert [bool(digest) for digest in digests] == [True, True, False]


def test_changes_nothing(game: Game) -> None:
    game.contribute(FULL, 0, round_=3)
    for round_ in (2, 3, 4):
        game.hello(FULL, 1, round_=round_, flags=model.FLUSH, contributors=0)
    for worker in (1, 2):
        game.contribute(FULL, worker, round_=3)
    assert len(game.contribute(FULL, 3, round_=3)) == 4


def test_whatever_the_jobs_ops_are(game: Game) -> None:
    assert told(game.hello(NORMS, 2)) == (model.INFORM, 0, 0, 0, 0, 0)


def test_in_a_tree_each_switch_answers_for_itself(game: Game) -> None:
    for worker in range(2):
        game.contribute(LEAF, worker)
    assert told(game.hello(LEAF, 0, round_=5)) == (model.INFORM, 0, 0b11, 2, 0, 0)
    game.result_from_above(LEAF)
    assert told(game.hello(LEAF, 1, round_=5)) == (model.INFORM, 0, 0b11, 9, model.CLOSED, 0)
    game.contribute(ROOT, 0)
    assert told(game.hello(ROOT, 1, round_=5)) == (model.INFORM, 0, 0b1, 2, 0, 0)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"version": 1}, "VERSION"),
        ({"kind": model.CONTRIBUTE}, "OP"),
        ({"kind": model.RESULT}, "OP"),
        ({"kind": model.STALE}, "OP"),
        ({"words": 1}, "OP"),
        ({"op": 7}, "OP"),
        ({"job": 99}, "JOB"),
        ({"worker": 9}, "WORKER"),
        ({"worker": 2}, "PORT"),
        ({"slot": 8}, "SLOT"),
        ({"count": 0}, "COUNT"),
        ({"payload": b"x"}, "LENGTH"),
    ],
)
def test_is_admitted_as_a_probe_is(game: Game, fields: dict[str, int], reason: str) -> None:
    hello = contribution(FULL, 0, 0, 0, b"", model.NO_OP)._replace(kind=model.PROBE)
    game.send(FULL, hello._replace(**fields), HOSTS[0])
    assert game.golden.rejects == {reason: 1}
