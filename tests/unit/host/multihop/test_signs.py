# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rings and tori of sign bits, all ranks in one process."""

from __future__ import annotations

import numpy as np
import pytest
from sumwire.multihop.schedule import HopError, Step, ring
from sumwire.multihop.sign_hops import Bits, Draws, SignHopper, SimulatedSigns, lockstep

LENGTHS = (0, 1, 2, 7, 8, 33, 1000)
SHAPES = [
    (ranks, rows) for ranks in range(1, 17) for rows in (None, *range(1, 17)) if rows is None or ranks % rows == 0
]


def random_bits(*shape: int) -> Bits:
    return np.random.default_rng([*shape]).integers(0, 256, shape, np.uint8)


@pytest.mark.parametrize(("ranks", "rows"), SHAPES)
def test_where_all_agree_the_result_is_theirs_and_elsewhere_one_of_them(ranks: int, rows: int | None) -> None:
    for length in LENGTHS:
        bits = random_bits(ranks, length)
        result = SimulatedSigns(ranks, rows, seed=1).sign_merge(bits)
        low, high = np.bitwise_and.reduce(bits), np.bitwise_or.reduce(bits)
        assert result.shape == (length,)
        assert np.all(result & low == low)
        assert np.all(result & ~high == 0)


def test_one_rank_gets_its_own_bits() -> None:
    bits = random_bits(1, 100)
    assert np.array_equal(SimulatedSigns(1, seed=1).sign_merge(bits), bits[0])


@pytest.mark.parametrize("rows", [None, 2])
def test_a_seed_repeats_a_run_and_another_does_not(rows: int | None) -> None:
    bits = random_bits(4, 500)

    def run(seed: int) -> list[bytes]:
        signs = SimulatedSigns(4, rows, seed=seed)
        return [signs.sign_merge(bits).tobytes() for _ in range(3)]

    assert run(7) == run(7)
    assert len({*run(7), *run(8)}) == 6


def test_the_merge_does_not_change_its_input() -> None:
    bits = random_bits(3, 50)
    before = bits.copy()
    SimulatedSigns(3, seed=1).sign_merge(bits)
    assert np.array_equal(bits, before)


def test_variance_of_the_result_is_that_of_one_sign_drawn_at_random() -> None:
    """In +-1 form mean s and variance 1 - s^2: a draw among the workers' signs has no other."""
    bits = np.repeat(np.array([[255], [255], [255], [0]], np.uint8), 1 << 17, axis=1)
    plus_minus = 2.0 * np.unpackbits(SimulatedSigns(4, seed=5).sign_merge(bits)) - 1
    assert plus_minus.mean() == pytest.approx(0.5, abs=6 * np.sqrt(0.75 / plus_minus.size))
    assert plus_minus.var() == pytest.approx(0.75, abs=0.006)


def test_a_neighbour_out_of_step_is_noticed() -> None:
    step = ring(3, 0, 3)[0]
    hopper = SignHopper(np.zeros(3, np.uint8), Draws(1, 0))
    with pytest.raises(HopError, match="2 workers"):
        hopper.take(step, np.array([2, 0], np.uint8))


def test_ranks_that_end_differently_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_gather(rank: int, units: int) -> list[Step]:
        return [step for step in ring(3, rank, units) if step.merges]

    signs = SimulatedSigns(3, seed=1)
    monkeypatch.setattr(signs, "plan", no_gather)
    with pytest.raises(HopError, match="different"):
        signs.sign_merge(np.array([[0] * 9, [255] * 9, [0] * 9], np.uint8))


def test_a_message_of_another_length_is_noticed() -> None:
    hoppers = [SignHopper(np.zeros(size, np.uint8), Draws(1, 0)) for size in (8, 9)]
    with pytest.raises(HopError, match="bytes"):
        lockstep(hoppers, [ring(2, 0, 8), ring(2, 1, 9)])


def test_as_many_rows_of_signs_as_ranks() -> None:
    with pytest.raises(ValueError, match="3 ranks"):
        SimulatedSigns(4, seed=1).sign_merge(random_bits(3, 8))
