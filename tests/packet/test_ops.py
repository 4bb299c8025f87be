# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The values of every op, element by element."""

from __future__ import annotations

import numpy as np
import pytest
from golden import model
from helpers.packet.play import Game, contribution, random_payload
from helpers.packet.star import EVERY, FULL, QUORUM, SOLOS, WIDE

# With the sign bit, as floats, and where a carry or a borrow could show.
PAIRS = ((0, 0), (1, 0), (2**32 - 1, 0), (2**31, 2**31 - 1), (0x7F800000, 0x3F800000), (7, 0x100), (2**32 - 1,) * 2)


def elements(values: list[int], fill: int = 0) -> bytes:
    """256 int32, the first ones given."""
    return np.array(values + [fill] * (256 - len(values)), ">i4").tobytes()


def all_send(game: Game, op: int, payloads: list[bytes], round_: int = 0) -> model.Packet:
    for worker, payload in enumerate(payloads):
        out = game.send(EVERY, contribution(EVERY, worker, 0, round_, payload, op))
    assert len(out) == 4
    return model.decode(out[0][1][42:])


def test_every_order_of_arrival_gives_the_same_sum(game: Game) -> None:
    payloads = [random_payload(game.rng, model.THC) for _ in range(4)]
    sums = set()
    for slot, order in enumerate([(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)]):
        for worker in order:
            out = game.send(FULL, contribution(FULL, worker, slot, 0, payloads[worker]))
        sums.add(out[0][1][model.BARE :])
    assert len(sums) == 1


def test_jobs_and_slots_do_not_touch_each_other(game: Game) -> None:
    jobs = ((FULL, 7), (QUORUM, 0), (QUORUM, 2), (WIDE, 0))  # neighbours in the registers
    for job, slot in jobs:
        game.contribute(job, 0, slot)
    for job, slot in reversed(jobs):
        for worker in range(1, len(job.workers)):
            game.contribute(job, worker, slot)


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


@pytest.mark.parametrize("op", [model.MAX32, model.MIN32])
def test_max32_and_min32_element_by_element(game: Game, op: int) -> None:
    """Both orders in neighbouring elements: no borrow may reach the next one. The last ones are any numbers."""
    payloads = np.random.default_rng(op).integers(0, 2**32, (4, 32), np.uint32)
    payloads[:, : 2 * len(PAIRS)] = np.resize([np.ravel(PAIRS), np.ravel(PAIRS)[::-1]], (4, 2 * len(PAIRS)))
    packet = all_send(game, op, [row.astype(">u4").tobytes() for row in payloads])
    pick = np.max if op == model.MAX32 else np.min
    assert np.array_equal(np.frombuffer(packet.payload, ">u4"), pick(payloads, axis=0))


def test_sum32_element_by_element_without_carries_between_them(game: Game) -> None:
    values = [0, -1, 1, -1, 2**29, -(2**29), 0x00FFFFFF, -0x01000000]
    packet = all_send(game, model.SUM32, [elements(values, fill) for fill in (-1, 1, -1, 1)])
    sums = np.frombuffer(packet.payload, ">i4")
    assert sums[: len(values)].tolist() == [4 * value for value in values[:4]] + [
        2**31 - 2**32, -(2**31), 4 * 0x00FFFFFF, -4 * 0x01000000,
    ]  # fmt: skip
    assert set(sums[len(values) :].tolist()) == {0}
    assert packet.flags == model.OVERFLOW  # 4 x 2^29 does not fit


@pytest.mark.parametrize("plus", range(5))
def test_vote_majority_and_ties(game: Game, plus: int) -> None:
    """The first `plus` workers vote plus everywhere; two of four are a tie, which is plus."""
    payloads = [(b"\xff" if worker < plus else b"\x00") * 256 for worker in range(4)]
    packet = all_send(game, model.VOTE, payloads)
    assert (packet.words, packet.payload) == (2, (b"\xff" if plus >= 2 else b"\x00") * 256)


def test_vote_counts_those_who_are_in(game: Game) -> None:
    """Three contributors, one plus: minus, although with four it might have been a tie."""
    for worker in range(3):
        game.send(EVERY, contribution(EVERY, worker, 0, 0, (b"\xff" if worker == 0 else b"\x00") * 256, model.VOTE))
    repeat = contribution(EVERY, 0, 0, 0, bytes(256), model.VOTE, flags=model.FLUSH)
    out = game.send(EVERY, repeat)
    assert model.decode(out[0][1][42:]).payload == bytes(256)


def test_agreed_signs_stay_and_others_are_drawn(game: Game) -> None:
    """The golden model holds the switch to all bits on which the workers agree; and the rest is no constant."""
    half = random_payload(game.rng, model.SIGN)
    packet = all_send(game, model.SIGN, [half, half, bytes(1024), bytes(1024)])
    drawn = np.unpackbits(np.frombuffer(packet.payload, np.uint8))
    open_bits = np.unpackbits(np.frombuffer(half, np.uint8))
    assert drawn[open_bits == 0].sum() == 0
    # About 4096 open bits, each plus with 1/2: six standard deviations are 0.047.
    assert abs(drawn[open_bits == 1].mean() - 0.5) < 0.05


def test_a_repeated_sign_packet_draws_nothing_new(game: Game) -> None:
    result = all_send(game, model.SIGN, [random_payload(game.rng, model.SIGN) for _ in range(4)])
    for worker in range(4):
        out = game.contribute(EVERY, worker, op=model.SIGN)
        assert model.decode(out[0][1][42:]).payload == result.payload
