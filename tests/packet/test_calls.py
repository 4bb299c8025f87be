# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A slot's round belongs to one call: op and bucket of the packet that opened it."""

from __future__ import annotations

import pytest
from golden import model
from helpers.packet.play import Game, Rig, contribution
from helpers.packet.star import EVERY, FULL, LEAF, QUORUM

OPS = pytest.mark.parametrize("op", model.OPS)
# contribution() has bucket 7: one bit less, one more in each byte, and all of them.
BUCKETS = pytest.mark.parametrize("bucket", [6, 0x87, 0x107, 0x8007, 0, 0xFFFF])


@BUCKETS
@OPS
def test_another_bucket_is_refused_until_the_next_round(game: Game, op: int, bucket: int) -> None:
    game.contribute(EVERY, 0, op=op)
    game.contribute(EVERY, 1, op=op, bucket=bucket)
    game.contribute(EVERY, 0, op=op, bucket=bucket, flags=model.FLUSH)
    for worker in (1, 2, 3):
        out = game.contribute(EVERY, worker, op=op)
    assert len(out) == 4
    game.contribute(EVERY, 0, op=op, bucket=bucket)  # closed by now, refused all the same
    for worker in range(4):
        out = game.contribute(EVERY, worker, round_=1, op=op, bucket=bucket)
    assert {model.decode(frame[42:]).bucket for _, frame in out} == {bucket}
    assert game.golden.rejects == {"CALL": 3}


def test_op_and_bucket_both_count(game: Game) -> None:
    """Another op is refused with the same bucket, another bucket with the same op."""
    game.contribute(QUORUM, 0)
    game.contribute(QUORUM, 1, op=model.MAX32)
    game.contribute(QUORUM, 1, bucket=8)
    assert len(game.contribute(QUORUM, 1)) == 3
    assert game.golden.rejects == {"CALL": 2}


@OPS
def test_a_probe_is_of_a_call_too(game: Game, op: int) -> None:
    game.contribute(EVERY, 0, round_=3, op=op)
    probe = contribution(EVERY, 1, 0, 3, b"", op, bucket=8)._replace(kind=model.PROBE)
    game.send(EVERY, probe)
    assert game.golden.rejects == {"CALL": 1}
    for round_, kind in ((2, model.STALE), (4, model.INFORM)):
        ((_, frame),) = game.send(EVERY, probe._replace(round=round_))
        assert model.decode(frame[42:]).kind == kind


@OPS
def test_a_result_of_another_call_is_refused(game: Game, op: int) -> None:
    for worker in range(2):
        game.contribute(LEAF, worker, op=op)
    assert game.result_from_above(LEAF, op=op, bucket=8) == []
    assert len(game.result_from_above(LEAF, op=op)) == 2
    # A newer one opens its round here with its own call.
    assert len(game.result_from_above(LEAF, round_=1, op=op, bucket=8)) == 2
    game.contribute(LEAF, 0, round_=1, op=op)
    assert len(game.contribute(LEAF, 0, round_=1, op=op, bucket=8)) == 1
    assert game.golden.rejects == {"CALL": 2}


def test_an_older_packet_is_stale_whatever_its_call(game: Game) -> None:
    game.contribute(FULL, 0, round_=9)
    ((_, frame),) = game.contribute(FULL, 1, round_=8, bucket=8)
    assert model.decode(frame[42:]).kind == model.STALE


def test_what_an_earlier_run_left_is_no_call(rig: Rig) -> None:
    Game(rig).contribute(FULL, 0)
    game = Game(rig)
    assert game.contribute(FULL, 1, bucket=8) == []
    assert game.golden.verdicts == {"FIRST": 1}
    game.check_counters()
