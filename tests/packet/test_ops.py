# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""SUM32, SIGN, VOTE and MIN32 on one switch; THC and MAX32 are in test_slots.py."""

from __future__ import annotations

import numpy as np
import pytest
from golden import model
from helpers.packet.play import Game, contribution, random_payload
from helpers.packet.star import EVERY

OPS = pytest.mark.parametrize("op", model.OPS)


def elements(values: list[int], fill: int = 0) -> bytes:
    """256 int32, the first ones given."""
    return np.array(values + [fill] * (256 - len(values)), ">i4").tobytes()


def all_send(game: Game, op: int, payloads: list[bytes]) -> model.Packet:
    for worker, payload in enumerate(payloads):
        out = game.send(EVERY, contribution(EVERY, worker, 0, 0, payload, op))
    assert len(out) == 4
    return model.decode(out[0][1][42:])


@OPS
def test_every_op_through_the_whole_protocol(game: Game, op: int) -> None:
    for slot, round_ in ((0, 0), (1, 0), (0, 1)):
        game.contribute(EVERY, 2, slot, round_, op)
        game.contribute(EVERY, 2, slot, round_, op)
        for worker in (0, 3, 1):
            game.contribute(EVERY, worker, slot, round_, op)
        game.contribute(EVERY, 1, slot, round_, op)
    game.contribute(EVERY, 0, 0, 0, op)
    assert game.golden.verdicts == {"FIRST": 3, "REPEAT": 3, "ADD": 6, "LAST": 3, "DUPLICATE": 3, "STALE": 1}


@OPS
def test_flush_then_late_worker(game: Game, op: int) -> None:
    for worker in (0, 1, 3):
        game.contribute(EVERY, worker, op=op)
    assert len(game.contribute(EVERY, 3, op=op, flags=model.FLUSH)) == 4
    game.contribute(EVERY, 2, op=op)


def test_sum32_element_by_element_without_carries_between_them(game: Game) -> None:
    values = [0, -1, 1, -1, 2**29, -(2**29), 0x00FFFFFF, -0x01000000]
    packet = all_send(game, model.SUM32, [elements(values, fill) for fill in (-1, 1, -1, 1)])
    sums = np.frombuffer(packet.payload, ">i4")
    assert sums[: len(values)].tolist() == [4 * value for value in values[:4]] + [
        2**31 - 2**32, -(2**31), 4 * 0x00FFFFFF, -4 * 0x01000000,
    ]  # fmt: skip
    assert set(sums[len(values) :].tolist()) == {0}
    assert packet.flags == model.OVERFLOW  # 4 x 2^29 does not fit


@pytest.mark.parametrize(
    ("values", "flag"),
    [
        ([2**31 - 1, 0, 0, 0], 0),
        ([2**31 - 1, 1, 0, 0], model.OVERFLOW),
        ([2**31 - 1, 1, -1, 0], model.OVERFLOW),  # comes back into range: said all the same
        ([-(2**31), 0, 0, 0], 0),
        ([-(2**31), -1, 0, 0], model.OVERFLOW),
        ([2**31 - 1, -(2**31), 1, 0], 0),
    ],
)
@pytest.mark.parametrize("element", [0, 1, 31, 32, 255])
def test_sum32_overflow_is_flagged(game: Game, values: list[int], flag: int, element: int) -> None:
    payloads = [elements([0] * element + [value]) for value in values]
    assert all_send(game, model.SUM32, payloads).flags == flag


def test_overflow_of_one_round_is_forgotten_in_the_next(game: Game) -> None:
    all_send(game, model.SUM32, [elements([2**31 - 1])] * 4)
    for worker in range(4):
        out = game.send(EVERY, contribution(EVERY, worker, 0, 1, elements([1]), model.SUM32))
    assert model.decode(out[0][1][42:]).flags == 0


@pytest.mark.parametrize(("a", "b"), [(0, 0), (1, 0), (0, 0xFFFFFFFF), (0x80000000, 0x7FFFFFFF), (7, 0x100)])
@pytest.mark.parametrize("element", [0, 1, 30, 31])
def test_min32_element_by_element(game: Game, a: int, b: int, element: int) -> None:
    """Two workers send `a` or `b` in one element, and all send other numbers in the others."""
    payloads = np.random.default_rng(element).integers(0, 2**32, (4, 32), np.uint32)
    payloads[:, element] = a, b, a, b
    packet = all_send(game, model.MIN32, [row.astype(">u4").tobytes() for row in payloads])
    assert np.array_equal(np.frombuffer(packet.payload, ">u4"), payloads.min(axis=0))


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
