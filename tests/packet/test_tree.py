# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A switch in a tree of switches: as a leaf, as a root of lower switches, and in between."""

from __future__ import annotations

import numpy as np
import pytest
from golden import model
from golden.model import udp_frame
from helpers.packet.layers import encoded
from helpers.packet.play import Game, Rig, contribution, random_partial, random_payload
from helpers.packet.star import AGGREGATOR, EVERY, FIFTEEN, HOSTS, LEAF, LOWER, MIDDLE, PARENT, ROOT

OPS = pytest.mark.parametrize("op", model.OPS)
TREES = pytest.mark.parametrize("job", [LEAF, MIDDLE], ids=["leaf", "middle"])


@OPS
@TREES
def test_partial_result_goes_up_and_the_result_comes_down(game: Game, job: model.Job, op: int) -> None:
    assert game.contribute(job, 0, op=op) == []
    ((port, frame),) = game.contribute(job, 1, op=op)
    assert port == PARENT.port
    up = model.decode(frame[42:])
    assert (up.kind, up.worker, up.count) == (model.CONTRIBUTE, job.parent.worker, sum(w.weight for w in job.workers))
    out = game.result_from_above(job, op=op)
    assert sorted(port for port, _ in out) == [worker.port for worker in job.workers]
    assert {model.decode(frame[42:]).contributors for _, frame in out} == {0b11}
    assert game.golden.verdicts == {"FIRST": 1, "LAST": 1, "DOWN": 1}


@OPS
@TREES
def test_loss_above_is_repaired_by_any_worker(game: Game, job: model.Job, op: int) -> None:
    """The partial result or its answer was lost: a worker that asks again makes the switch ask again, the same."""
    game.contribute(job, 0, op=op)
    first = game.contribute(job, 1, op=op)
    for worker in (1, 0):
        ((_, again),) = game.contribute(job, worker, op=op)
        assert again[model.BARE :] == first[0][1][model.BARE :]
    game.result_from_above(job, op=op)
    game.contribute(job, 0, op=op)  # the result was lost below: from this switch's own copy
    assert game.golden.verdicts == {"FIRST": 1, "LAST": 1, "ASK": 2, "DOWN": 1, "DUPLICATE": 1}


@OPS
def test_a_second_result_and_a_late_one_are_dropped(game: Game, op: int) -> None:
    for round_ in (5, 6):
        for worker in range(2):
            game.contribute(LEAF, worker, round_=round_, op=op)
        game.result_from_above(LEAF, round_=round_, op=op)
    assert game.result_from_above(LEAF, round_=6, op=op) == []
    assert game.result_from_above(LEAF, round_=5, op=op) == []
    assert game.golden.verdicts["KNOWN"] == 2
    game.contribute(LEAF, 0, round_=6, op=op)


@OPS
def test_left_out_above(game: Game, op: int) -> None:
    """The switch above closed without this one: nobody here is in, and all get the result, early or late."""
    others = 0xFF & ~(1 << LEAF.parent.worker)
    game.contribute(LEAF, 0, op=op)
    out = game.result_from_above(LEAF, op=op, contributors=others, flags=model.INCOMPLETE)
    assert {model.decode(frame[42:]).contributors for _, frame in out} == {0}
    game.contribute(LEAF, 1, op=op)
    out = game.result_from_above(LEAF, 1, op=op, contributors=others)  # before anyone here has sent
    assert len(out) == 2
    game.contribute(LEAF, 1, 1, op=op)
    assert game.golden.verdicts == {"FIRST": 1, "DOWN": 2, "DUPLICATE": 2}


@OPS
def test_flush_goes_up_only_when_asked_again(game: Game, op: int) -> None:
    game.contribute(LEAF, 0, op=op)
    ((_, frame),) = game.contribute(LEAF, 0, op=op, flags=model.FLUSH)
    assert model.decode(frame[42:]).flags == model.INCOMPLETE
    ((_, frame),) = game.contribute(LEAF, 0, op=op, flags=model.FLUSH)
    assert model.decode(frame[42:]).flags == model.INCOMPLETE | model.FLUSH
    game.contribute(LEAF, 1, op=op)  # too late for the partial result: asks like the others
    out = game.result_from_above(LEAF, op=op, flags=model.INCOMPLETE)
    assert {model.decode(frame[42:]).contributors for _, frame in out} == {0b01}


@OPS
def test_root_of_uneven_switches(game: Game, op: int) -> None:
    for worker in (2, 0):
        assert game.contribute(ROOT, worker, op=op) == []
    out = game.contribute(ROOT, 1, op=op)
    assert sorted(port for port, _ in out) == [1, 2, 3]
    assert {model.decode(frame[42:]).count for _, frame in out} == {7}
    game.contribute(ROOT, 2, op=op)


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


def test_result_from_elsewhere_is_refused(game: Game) -> None:
    for worker in range(2):
        game.contribute(LEAF, worker)
    payload = random_payload(game.rng, model.THC, 8)
    result = contribution(LEAF, 3, 0, 0, payload)._replace(kind=model.RESULT, contributors=0xFF)
    game.frame(1, udp_frame(PARENT, AGGREGATOR, encoded(result)))  # at a worker's port
    game.frame(PARENT.port, udp_frame(HOSTS[3], AGGREGATOR, encoded(result)))  # from a worker's address
    game.frame(PARENT.port, udp_frame(PARENT, AGGREGATOR, encoded(result._replace(job=EVERY.number))))  # of a root
    game.frame(PARENT.port, udp_frame(PARENT, AGGREGATOR, encoded(result._replace(slot=8))))
    game.frame(PARENT.port, udp_frame(PARENT, AGGREGATOR, encoded(result._replace(op=model.SUM32))))
    assert game.golden.rejects == {"PARENT": 3, "SLOT": 1, "CALL": 1}


@pytest.mark.parametrize("op", [model.THC, model.VOTE])
def test_hosts_send_no_partials_and_switches_nothing_else(game: Game, op: int) -> None:
    game.send(EVERY, contribution(EVERY, 0, 0, 0, random_partial(game.rng, op, 1), op))
    game.send(ROOT, contribution(ROOT, 0, 0, 0, random_payload(game.rng, op), op, count=2))
    assert game.golden.rejects == {"WORDS": 2}


def test_a_switch_stands_for_no_more_than_it_may(game: Game) -> None:
    game.contribute(ROOT, 0, op=model.SUM32, count=3)
    game.contribute(ROOT, 0, op=model.SUM32, count=0)
    game.contribute(ROOT, 0, op=model.SUM32, count=1)  # one of its two hosts is missing: all right
    assert game.golden.rejects == {"COUNT": 2}


@pytest.mark.parametrize("seed", range(4))
def test_random_schedules_in_a_tree(rig: Rig, seed: int) -> None:
    game = Game(rig, rng=np.random.default_rng(seed))
    rng = np.random.default_rng([seed, 2])
    for step in range(200):
        job = (LEAF, MIDDLE, ROOT)[rng.integers(3)]
        slot = int(rng.integers(3))
        round_ = step // 40 - int(rng.random() < 0.1)
        op = model.OPS[slot]
        if job.parent and rng.random() < 0.3:
            contributors = int(rng.integers(256))
            game.result_from_above(job, slot, round_ % 2**32, op, contributors=contributors)
        else:
            flags = model.FLUSH if rng.random() < 0.15 else 0
            game.contribute(job, int(rng.integers(len(job.workers))), slot, round_ % 2**32, op, flags=flags)
    game.check_counters()
