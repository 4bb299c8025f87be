# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The slot protocol: every verdict, on every switch that is here, against the golden model."""

from __future__ import annotations

import numpy as np
import pytest
from golden import model
from helpers.packet.play import Game, Rig, contribution, random_payload
from helpers.packet.star import FULL, NORMS, QUORUM, SINGLE, SOLOS, WIDE

OPS = pytest.mark.parametrize("op", [model.THC, model.MAX32])


@OPS
def test_all_contribute_and_all_get_the_result(game: Game, op: int) -> None:
    for worker in range(3):
        assert game.contribute(FULL, worker, op=op) == []
    assert len(game.contribute(FULL, 3, op=op)) == 4
    assert game.golden.verdicts == {"FIRST": 1, "ADD": 2, "LAST": 1}


def test_every_order_of_arrival_gives_the_same_sum(game: Game) -> None:
    payloads = [random_payload(game.rng, model.THC) for _ in range(4)]
    sums = set()
    for slot, order in enumerate([(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)]):
        for worker in order:
            out = game.send(FULL, contribution(FULL, worker, slot, 0, payloads[worker]))
        sums.add(out[0][1][model.BARE :])
    assert len(sums) == 1


@OPS
def test_duplicate_of_the_last_arrival_and_of_others_get_the_result_alone(game: Game, op: int) -> None:
    for worker in range(4):
        game.contribute(FULL, worker, op=op)
    for worker in (3, 0, 3):
        out = game.contribute(FULL, worker, op=op)
        assert [port for port, _ in out] == [FULL.workers[worker].port]


@OPS
def test_repeat_is_counted_once(game: Game, op: int) -> None:
    game.contribute(FULL, 1, op=op)
    assert game.contribute(FULL, 1, op=op) == []
    for worker in (0, 2, 3):
        game.contribute(FULL, worker, op=op)
    assert game.golden.verdicts["REPEAT"] == 1


@OPS
def test_flush_closes_with_those_who_are_in(game: Game, op: int) -> None:
    game.contribute(FULL, 0, op=op, flags=model.FLUSH)  # the first: opens, does not close
    game.contribute(FULL, 2, op=op)
    out = game.contribute(FULL, 2, op=op, flags=model.FLUSH)
    assert len(out) == 4
    packet = model.decode(out[0][1][42:])
    assert (packet.count, packet.contributors, packet.flags) == (2, 0b101, model.INCOMPLETE)
    # The missing worker is told the result that all have, and is not in it.
    late = game.contribute(FULL, 1, op=op)
    assert model.decode(late[0][1][42:]).contributors == 0b101


def test_quorum_leaves_the_late_one_out(game: Game) -> None:
    game.contribute(QUORUM, 2)
    assert len(game.contribute(QUORUM, 0)) == 3
    assert len(game.contribute(QUORUM, 1)) == 1


def test_a_newer_round_overwrites_whatever_was_there(game: Game) -> None:
    game.contribute(FULL, 0)
    game.contribute(FULL, 1)
    for worker in range(4):
        game.contribute(FULL, worker, round_=5)
    for worker in range(4):
        game.contribute(FULL, worker, round_=6, op=model.MAX32)


@pytest.mark.parametrize("behind", [1, 2, 3, 1000, 2**31 - 1])
def test_a_stale_packet_changes_nothing_however_late(game: Game, behind: int) -> None:
    now = 2**31 + 500
    game.contribute(FULL, 0, round_=now)
    out = game.contribute(FULL, 1, round_=now - behind)
    packet = model.decode(out[0][1][42:])
    assert (packet.kind, packet.round, packet.words) == (model.STALE, now, 0)
    for worker in (1, 2, 3):
        game.contribute(FULL, worker, round_=now)


def test_rounds_wrap_around(game: Game) -> None:
    for round_ in (2**32 - 1, 0, 1):
        for worker in range(4):
            game.contribute(FULL, worker, round_=round_)
    assert game.contribute(FULL, 0, round_=2**32 - 1)  # stale now
    assert game.golden.verdicts["STALE"] == 1


def test_exactly_half_the_circle_away_is_not_newer(game: Game) -> None:
    game.contribute(FULL, 0, round_=0)
    game.contribute(FULL, 1, round_=2**31)
    assert game.golden.verdicts == {"FIRST": 1, "STALE": 1}


def test_a_lost_result_then_a_stale_packet(game: Game) -> None:
    for round_ in (0, 1):
        for worker in range(4):
            game.contribute(FULL, worker, round_=round_)
    game.contribute(FULL, 2, round_=0)  # a copy from the round before, late
    game.contribute(FULL, 2, round_=1)  # the result of this round was lost: ask again
    assert game.golden.verdicts["DUPLICATE"] == 1


def test_jobs_and_slots_do_not_touch_each_other(game: Game) -> None:
    jobs = ((FULL, 7), (QUORUM, 0), (QUORUM, 2), (WIDE, 0))  # neighbours in the registers
    for job, slot in jobs:
        game.contribute(job, 0, slot)
    for job, slot in reversed(jobs):
        for worker in range(1, len(job.workers)):
            game.contribute(job, worker, slot)


def test_a_job_of_one_worker(game: Game) -> None:
    assert len(game.contribute(SINGLE, 0, 1)) == 1
    assert len(game.contribute(SINGLE, 0, 1)) == 1
    assert game.golden.verdicts == {"LAST": 1, "DUPLICATE": 1}


def test_largest_sum_does_not_overflow(game: Game) -> None:
    """127 x 2 and 30 x 4 everywhere; and a table that uses all eight planes."""
    ones = b"\xff" * 4 * model.WORD
    for job in (WIDE, FULL):
        for worker in range(len(job.workers)):
            out = game.send(job, contribution(job, worker, 0, 0, ones))
        sums = model.from_planes(out[0][1][model.BARE :])
        assert set(sums.tolist()) == {job.table[15] * len(job.workers)}


@pytest.mark.parametrize("job", [FULL, WIDE, *SOLOS], ids=lambda job: f"job{job.number}")
def test_every_index_is_looked_up(game: Game, job: model.Job) -> None:
    indices = np.arange(model.VALUES) % 16
    zeros = model.to_planes(np.zeros(model.VALUES, int), 4)
    out = game.send(job, contribution(job, 0, 1, 0, model.to_planes(indices, 4)))
    for worker in range(1, len(job.workers)):
        out = game.send(job, contribution(job, worker, 1, 0, zeros))
    assert np.array_equal(model.from_planes(out[0][1][model.BARE :]), np.asarray(job.table)[indices])


@pytest.mark.parametrize(
    ("a", "b"),
    [(0, 0), (1, 0), (0xFFFFFFFF, 0), (0x80000000, 0x7FFFFFFF), (0x7F800000, 0x3F800000), (0xFFFFFFFF, 0xFFFFFFFF)],
)
def test_max32_element_by_element(game: Game, a: int, b: int) -> None:
    """Both orders in neighbouring elements: no borrow may reach the next one."""
    first = np.array([a, b] * 16, ">u4").tobytes()
    second = np.array([b, a] * 16, ">u4").tobytes()
    for worker, payload in enumerate((first, second, first, second)):
        out = game.send(NORMS, contribution(NORMS, worker, 0, 0, payload, model.MAX32))
    assert set(np.frombuffer(out[0][1][model.BARE :], ">u4").tolist()) == {max(a, b)}


@pytest.mark.parametrize("seed", range(6))
def test_random_schedules(rig: Rig, seed: int) -> None:
    """Loss, duplication, reordering, stale packets, flushes: 150 packets each, all answers and counts compared."""
    game = Game(rig, rng=np.random.default_rng(seed))
    rng = np.random.default_rng([seed, 1])
    old: list[tuple[model.Job, model.Packet]] = []
    jobs = (FULL, QUORUM, WIDE)
    for step in range(150):
        if old and rng.random() < 0.3:
            job, packet = old[rng.integers(len(old))]
        else:
            job = jobs[rng.integers(len(jobs))]
            op = model.MAX32 if rng.random() < 0.1 else model.THC
            packet = contribution(
                job, int(rng.integers(len(job.workers))), int(rng.integers(min(3, job.slots))), step // 25,
                random_payload(rng, op), op, flags=model.FLUSH if rng.random() < 0.15 else 0,
            )  # fmt: skip
            old.append((job, packet))
        game.send(job, packet)
    game.check_counters()
