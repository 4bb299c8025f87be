# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A switch in a tree of switches: votes, overflow, what comes from above, and several switches above."""

from __future__ import annotations

import numpy as np
import pytest
from golden import model
from golden.model import Packet, udp_frame
from helpers.packet.layers import encoded
from helpers.packet.play import Frames, Game, contribution, random_partial, random_payload
from helpers.packet.star import AGGREGATOR, EVERY, FIFTEEN, HOSTS, LEAF, LOWER, PARENT, ROOT, SHARED, SPRAYED

OPS = pytest.mark.parametrize("op", model.OPS)
NOTICES = pytest.mark.parametrize("kind", [model.STALE, model.REFUSED], ids=["stale", "refused"])


def test_fifteen_votes(game: Game) -> None:
    """All ways in which two sevens and a host can vote, one per value: the majority of fifteen is eight."""
    rng = np.random.default_rng(3)
    first, second = rng.integers(0, 8, (2, 2 * model.VALUES))
    host = rng.integers(0, 2, 2 * model.VALUES)
    for worker, votes in enumerate((first, second)):
        payload = b"".join(model.to_planes(half, 3) for half in np.split(votes, 2))
        game.send(FIFTEEN, contribution(FIFTEEN, worker, 0, 0, payload, model.VOTE, count=7))
    payload = np.packbits(host.astype(np.uint8)).tobytes()
    out = game.send(FIFTEEN, contribution(FIFTEEN, 2, 0, 0, payload, model.VOTE))
    won = np.unpackbits(np.frombuffer(model.decode(out[0][1][42:]).payload, np.uint8))
    assert np.array_equal(won, first + second + host >= 8)
    assert model.decode(out[0][1][42:]).count == 15


def test_overflow_below_is_said_above_and_below(game: Game) -> None:
    big = np.full(256, 2**31 - 1, ">i4").tobytes()
    game.send(LEAF, contribution(LEAF, 0, 0, 0, big, model.SUM32))
    ((_, frame),) = game.send(LEAF, contribution(LEAF, 1, 0, 0, big, model.SUM32))
    assert model.decode(frame[42:]).flags == model.OVERFLOW
    game.contribute(ROOT, 0, op=model.SUM32, flags=model.OVERFLOW)
    zeros = bytes(1024)
    for worker in (1, 2):
        packet = contribution(ROOT, worker, 0, 0, zeros, model.SUM32, count=LOWER[worker].weight)
        out = game.send(ROOT, packet)
    assert model.decode(out[0][1][42:]).flags & model.OVERFLOW


@pytest.mark.parametrize("op", [model.THC, model.VOTE])
def test_hosts_send_no_partials_and_switches_nothing_else(game: Game, op: int) -> None:
    game.send(EVERY, contribution(EVERY, 0, 0, 0, random_partial(game.rng, op, 1), op))
    game.send(ROOT, contribution(ROOT, 0, 0, 0, random_payload(game.rng, op), op, count=2))
    assert game.golden.rejects == {"WORDS": 2}


@pytest.mark.parametrize("kind", [model.RESULT, model.STALE, model.REFUSED])
def test_what_comes_from_above_elsewhere_is_refused(game: Game, kind: int) -> None:
    """By port, address, and whether there is one above at all. A notice has no payload, and is not of a call."""
    for worker in range(2):
        game.contribute(LEAF, worker)
    is_result = kind == model.RESULT
    payload = random_payload(game.rng, model.THC, 8) if is_result else b""
    packet = contribution(LEAF, 3, 0, int(kind == model.STALE), payload, contributors=0xFF)._replace(kind=kind)
    game.frame(1, udp_frame(PARENT, AGGREGATOR, encoded(packet)))  # at a worker's port
    game.frame(PARENT.port, udp_frame(HOSTS[3], AGGREGATOR, encoded(packet)))  # from a worker's address
    changed = [{"job": EVERY.number}, {"slot": 8}, {"op": model.SUM32}]  # the first is of a root
    if not is_result:
        changed = [*changed[:2], {"op": 0}, {"words": 1, "payload": bytes(128)}]
    for fields in changed:
        game.frame(PARENT.port, udp_frame(PARENT, AGGREGATOR, encoded(packet._replace(**fields))))
    reasons = {"CALL": 1} if is_result else {"OP": 1, "WORDS": 1}
    assert game.golden.rejects == {"PARENT": 3, "SLOT": 1, **reasons}
    assert len(game.frame(PARENT.port, udp_frame(PARENT, AGGREGATOR, encoded(packet)))) == 2


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


def packets_of(frames: Frames) -> list[Packet]:
    return [model.decode(frame[42:]) for _, frame in frames]


def test_both_levels(game: Game) -> None:
    """A call that is refused at the top: what the root answers is what the leaf passes on."""
    game.contribute(ROOT, 0, round_=6)
    partial = contribution(ROOT, 1, 0, 6, b"\x01" * 1024, bucket=9)
    out = game.send(ROOT, partial)
    while not out:
        assert game.rig.clock is None
        out = game.send(ROOT, partial)
    (refused,) = packets_of(out)
    assert out[0][0] == LOWER[1].port
    for worker in range(2):
        game.contribute(LEAF, worker, round_=6, bucket=9)
    passed = packets_of(
        game.notice_from_above(refused.kind, LEAF, round_=6, bucket=refused.bucket, count=refused.count)
    )
    assert [(p.kind, p.count, p.bucket, p.round) for p in passed] == [(6, 15, 9, 6)] * 2
    ((_, frame),) = game.send(ROOT, partial._replace(round=2))
    stale = model.decode(frame[42:])
    passed = packets_of(game.notice_from_above(stale.kind, LEAF, round_=stale.round + 1, bucket=9))
    assert [(p.kind, p.round) for p in passed] == [(model.STALE, 7)] * 2


# -- two switches above: which one it is for a slot and a round


def way_up(game: Game, job: model.Job, slot: int, round_: int, op: int) -> int:
    game.contribute(job, 0, slot, round_, op)
    ((port, _),) = game.contribute(job, 1, slot, round_, op)
    return port


@OPS
def test_by_slot(game: Game, op: int) -> None:
    ports = [[way_up(game, SHARED, slot, round_, op) for slot in range(8)] for round_ in (0, 1, 6)]
    assert ports == [[4, 3] * 4] * 3


@OPS
def test_by_hash_of_slot_and_round(game: Game, op: int) -> None:
    """Not all rounds of a slot go the same way, nor all slots of a round; and a repeat goes where the first went."""
    ports = [[way_up(game, SPRAYED, slot, round_, op) for slot in range(4)] for round_ in range(6)]
    assert all(len(set(ways)) == 2 for ways in (*ports[:2], *zip(*ports, strict=True)))
    ((port, _),) = game.contribute(SPRAYED, 0, 3, 5, op)
    assert port == ports[5][3]


def test_a_greeting_goes_by_slot_there_too(game: Game) -> None:
    """Workers that greet in different rounds meet at one root."""
    token = game.rig.generation(SPRAYED.number)
    for round_ in range(8):
        game.contribute(SPRAYED, 0, 0, round_, model.MAX32, token=token)
        ((port, _),) = game.contribute(SPRAYED, 1, 0, round_, model.MAX32, token=token)
        assert port == SPRAYED.parents[0].switch.port
        assert len(game.result_from_above(SPRAYED, 0, round_, model.MAX32, token=token)) == 2
    assert game.golden.rejects == {}


def test_a_result_is_taken_from_the_switch_that_was_asked_alone(game: Game) -> None:
    for round_ in range(4):
        asked = way_up(game, SPRAYED, 0, round_, model.THC)
        other = next(parent for parent in SPRAYED.parents if parent.switch.port != asked)
        payload = random_payload(game.rng, model.THC, 8)
        result = contribution(SPRAYED, other.worker, 0, round_, payload)
        result = result._replace(kind=model.RESULT, contributors=0xFF, count=4)
        frame = model.udp_frame(other.switch, AGGREGATOR, encoded(result))
        assert game.frame(other.switch.port, frame) == []
        assert len(game.result_from_above(SPRAYED, 0, round_)) == 2
    assert game.golden.rejects == {"PARENT": 4}
