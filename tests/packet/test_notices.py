# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""STALE and REFUSED of the switch above: a lower switch passes them on to its workers."""

from __future__ import annotations

import pytest
from golden import model
from golden.model import Packet, udp_frame
from helpers.packet.layers import encoded
from helpers.packet.play import Frames, Game, contribution
from helpers.packet.star import AGGREGATOR, EVERY, HOSTS, LEAF, LOWER, MIDDLE, PARENT, ROOT, SHARED

OPS = pytest.mark.parametrize("op", model.OPS)
TREES = pytest.mark.parametrize("job", [LEAF, MIDDLE], ids=["leaf", "middle"])
NOTICES = pytest.mark.parametrize("kind", [model.STALE, model.REFUSED], ids=["stale", "refused"])


def packets(frames: Frames) -> list[Packet]:
    return [model.decode(frame[42:]) for _, frame in frames]


@OPS
@TREES
def test_a_refusal_of_the_round_goes_to_all_workers(game: Game, job: model.Job, op: int) -> None:
    """With its reason, and with each worker's own number."""
    for worker in range(2):
        game.contribute(job, worker, round_=4, op=op)
    out = game.notice_from_above(model.REFUSED, job, round_=4, op=op, count=15, chunk=77)
    assert sorted(port for port, _ in out) == [worker.port for worker in job.workers]
    assert {(p.kind, p.count, p.round, p.chunk, p.bucket, p.words) for p in packets(out)} == {
        (model.REFUSED, 15, 4, 77, 7, 0)
    }
    assert sorted(p.worker for p in packets(out)) == [0, 1]
    assert {len(frame) for _, frame in out} == {model.BARE}
    assert game.golden.verdicts["RELAY"] == 1
    # It changed nothing: a repeat still asks above.
    assert len(game.contribute(job, 0, round_=4, op=op)) == 1
    assert game.golden.verdicts["ASK"] == 1


@OPS
@TREES
def test_a_newer_round_above_is_told_to_all_workers(game: Game, job: model.Job, op: int) -> None:
    """Whatever call it is about, and only while it is news."""
    for worker in range(2):
        game.contribute(job, worker, round_=4, op=op)
    out = game.notice_from_above(model.STALE, job, round_=20, op=op, count=0, bucket=99)
    assert {(p.kind, p.round, p.count, p.contributors) for p in packets(out)} == {(model.STALE, 20, 0, 0)}
    assert len(out) == 2
    # Nothing has changed: the slot here is in its own round.
    assert game.hello(job, 0).round == 4
    for round_ in (4, 3, 2**31 + 4):
        assert game.notice_from_above(model.STALE, job, round_=round_, op=op, bucket=99) == []
    assert game.golden.verdicts["KNOWN"] == 3


@pytest.mark.parametrize("round_", [3, 5, 2**31])
def test_a_refusal_of_another_round_is_known(game: Game, round_: int) -> None:
    for worker in range(2):
        game.contribute(LEAF, worker, round_=4)
    assert game.notice_from_above(model.REFUSED, LEAF, round_=round_) == []
    assert game.golden.verdicts["KNOWN"] == 1


@NOTICES
def test_after_the_result_both_are_known(game: Game, kind: int) -> None:
    for worker in range(2):
        game.contribute(LEAF, worker, round_=4)
    game.result_from_above(LEAF, round_=4)
    assert game.notice_from_above(kind, LEAF, round_=4) == []
    game.contribute(LEAF, 0, round_=4)
    assert game.golden.verdicts["DUPLICATE"] == 1


def test_in_a_slot_of_nobody(game: Game) -> None:
    """After a renewal here: what the switch above has is newer than nothing, and nothing was asked."""
    assert game.notice_from_above(model.REFUSED, LEAF) == []
    assert len(game.notice_from_above(model.STALE, LEAF, round_=3)) == 2


@NOTICES
def test_only_of_the_switch_above(game: Game, kind: int) -> None:
    """As a result: port, address, and whether there is one above at all. And they have no payload."""
    for worker in range(2):
        game.contribute(LEAF, worker)
    notice = contribution(LEAF, 3, 0, 1 if kind == model.STALE else 0, b"")._replace(kind=kind)
    game.frame(1, udp_frame(PARENT, AGGREGATOR, encoded(notice)))  # at a worker's port
    game.frame(PARENT.port, udp_frame(HOSTS[3], AGGREGATOR, encoded(notice)))  # from a worker's address
    game.frame(PARENT.port, udp_frame(PARENT, AGGREGATOR, encoded(notice._replace(job=EVERY.number))))  # of a root
    game.frame(PARENT.port, udp_frame(PARENT, AGGREGATOR, encoded(notice._replace(slot=8))))
    game.frame(PARENT.port, udp_frame(PARENT, AGGREGATOR, encoded(notice._replace(op=0))))
    game.frame(PARENT.port, udp_frame(PARENT, AGGREGATOR, encoded(notice._replace(words=1, payload=bytes(128)))))
    assert game.golden.rejects == {"PARENT": 3, "SLOT": 1, "OP": 1, "WORDS": 1}
    assert len(game.frame(PARENT.port, udp_frame(PARENT, AGGREGATOR, encoded(notice)))) == 2


@NOTICES
def test_of_the_right_one_of_two_above(game: Game, kind: int) -> None:
    round_ = 1 if kind == model.STALE else 0
    for slot in (2, 3):
        for worker in range(2):
            game.contribute(SHARED, worker, slot)
        assert len(game.notice_from_above(kind, SHARED, slot, round_)) == 2
    wrong = contribution(SHARED, 3, 3, round_, b"")._replace(kind=kind)
    game.frame(PARENT.port, udp_frame(PARENT, AGGREGATOR, encoded(wrong)))
    assert game.golden.rejects == {"PARENT": 1}


def test_both_levels(game: Game) -> None:
    """A call that is refused at the top: what the root answers is what the leaf passes on."""
    game.contribute(ROOT, 0, round_=6)
    partial = contribution(ROOT, 1, 0, 6, b"\x01" * 1024, bucket=9)
    out = game.send(ROOT, partial)
    while not out:
        assert game.rig.clock is None
        out = game.send(ROOT, partial)
    (refused,) = packets(out)
    assert out[0][0] == LOWER[1].port
    for worker in range(2):
        game.contribute(LEAF, worker, round_=6, bucket=9)
    passed = packets(game.notice_from_above(refused.kind, LEAF, round_=6, bucket=refused.bucket, count=refused.count))
    assert [(p.kind, p.count, p.bucket, p.round) for p in passed] == [(6, 15, 9, 6)] * 2
    ((_, frame),) = game.send(ROOT, partial._replace(round=2))
    stale = model.decode(frame[42:])
    passed = packets(game.notice_from_above(stale.kind, LEAF, round_=stale.round + 1, bucket=9))
    assert [(p.kind, p.round) for p in passed] == [(model.STALE, 7)] * 2


@pytest.mark.parametrize("seed", range(3))
def test_random_schedules_with_notices(game: Game, seed: int) -> None:
    rng = game.rng
    for step in range(150):
        job = (LEAF, MIDDLE)[rng.integers(2)]
        slot, round_ = int(rng.integers(2)), max(0, step // 30 + int(rng.integers(-1, 2)))
        bucket = 7 + int(rng.random() < 0.1)
        if rng.random() < 0.3:
            kind = (model.STALE, model.REFUSED)[rng.integers(2)]
            game.notice_from_above(kind, job, slot, round_, bucket=bucket, count=int(rng.integers(256)))
        elif rng.random() < 0.2:
            game.result_from_above(job, slot, round_, bucket=bucket)
        elif rng.random() < 0.2:
            game.hello(job, int(rng.integers(2)), slot, round_, bucket=bucket)
        else:
            game.contribute(job, int(rng.integers(2)), slot, round_, bucket=bucket)
        game.later(int(rng.integers(0, 15_000)))
