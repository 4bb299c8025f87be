# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Merges of signs as a truth table, in rings and tori of ranks in one process, and the cascade that Marsit avoids."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from sumwire.multihop.schedule import HopError, Step, ring
from sumwire.multihop.sign_hops import (
    Bits,
    CascadeHopper,
    Draws,
    SignHopper,
    SimulatedSigns,
    lockstep,
    merge,
    paper_form,
    reservoir_form,
    transient_of,
)

# received, own, taken -> result, written out: own where the draw says so, else received.
TRUTH = {
    (0, 0, 0): 0, (0, 0, 1): 0, (0, 1, 0): 0, (0, 1, 1): 1,
    (1, 0, 0): 1, (1, 0, 1): 0, (1, 1, 0): 1, (1, 1, 1): 1,
}  # fmt: skip
DIGITS = 11


def _columns() -> tuple[Bits, Bits, Bits, Bits]:
    rows = np.array([[*key, result] for key, result in TRUTH.items()], np.uint8)
    received, own, taken, result = (np.packbits(column) for column in rows.T)
    return received, own, taken, result


def test_reservoir_form_is_the_truth_table() -> None:
    received, own, taken, result = _columns()
    assert np.array_equal(reservoir_form(received, own, taken), result)


def test_paper_form_with_the_linked_draw_gives_the_same() -> None:
    received, own, taken, result = _columns()
    assert np.array_equal(paper_form(received, own, transient_of(own, taken)), result)


def test_the_linked_draw_has_the_papers_probabilities() -> None:
    """1/m where own is plus, (m - 1)/m where it is minus, from a draw of 1/m."""
    drawn = Draws(1, 0).bernoulli(1, 5, (1 << 17,))
    for own, probability in ((0x00, 4 / 5), (0xFF, 1 / 5)):
        bits = np.unpackbits(transient_of(np.full_like(drawn, own), drawn))
        assert abs(bits.mean() - probability) < 6 * math.sqrt(0.16 / bits.size)


class AllFractions(Draws):
    """u runs through every string of 11 binary digits once; all further digits are 1."""

    def __init__(self) -> None:
        super().__init__(0, 0)
        self.calls = 0

    def bits(self, shape: tuple[int, ...]) -> Bits:
        self.calls += 1
        if self.calls > DIGITS:
            return np.full(shape, 0xFF, np.uint8)
        return np.packbits(np.arange(1 << DIGITS) >> (DIGITS - self.calls) & 1)


@pytest.mark.parametrize("denominator", range(1, 17))
def test_the_share_of_ones_among_all_fractions_is_the_probability(denominator: int) -> None:
    """No rounding: of the 2^11 possible starts of u exactly floor(p 2^11) lie wholly below p."""
    for numerator in range(denominator + 1):
        ones = np.unpackbits(AllFractions().bernoulli(numerator, denominator, (1 << DIGITS - 3,))).sum()
        assert ones == math.floor(Fraction(numerator, denominator) * (1 << DIGITS))


@pytest.mark.parametrize(("denominator", "digits"), [(1, 0), (2, 1), (4, 2), (8, 3), (16, 4)])
def test_powers_of_two_take_their_logarithm_of_random_bits(denominator: int, digits: int) -> None:
    draws = AllFractions()
    draws.bernoulli(1, denominator, (1 << DIGITS - 3,))
    assert draws.calls == digits


@pytest.mark.parametrize(("numerator", "denominator"), [(-1, 2), (3, 2), (0, 0)])
def test_no_probability(numerator: int, denominator: int) -> None:
    with pytest.raises(ValueError, match="probability"):
        Draws(1, 0).bernoulli(numerator, denominator, (1,))


@pytest.mark.parametrize(("first", "second"), [(1, 1), (1, 7), (7, 1), (3, 5), (4, 4), (12, 4), (2, 1)])
def test_general_merge_takes_the_second_by_its_weight(first: int, second: int) -> None:
    zeros, ones = np.zeros(1 << 17, np.uint8), np.full(1 << 17, 0xFF, np.uint8)
    p = second / (first + second)
    limit = 6 * math.sqrt(p * (1 - p) / (8 * zeros.size))
    draws = Draws(2, 0)
    assert abs(np.unpackbits(merge(zeros, ones, first, second, draws)).mean() - p) < limit
    assert abs(np.unpackbits(merge(ones, zeros, first, second, draws)).mean() - (1 - p)) < limit


def test_what_both_agree_on_stays() -> None:
    bits = Draws(3, 0).bits((1000,))
    assert np.array_equal(merge(bits, bits, 3, 5, Draws(3, 1)), bits)


@pytest.mark.parametrize("weights", [(0, 1), (1, 0), (-1, 2)])
def test_nobodys_signs_cannot_be_merged(weights: tuple[int, int]) -> None:
    bits = np.zeros(4, np.uint8)
    with pytest.raises(ValueError, match="weights"):
        merge(bits, bits, *weights, Draws(1, 0))


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match="shapes"):
        merge(np.zeros(1, np.uint8), np.zeros(4, np.uint8), 1, 1, Draws(1, 0))


def test_streams_repeat_and_differ_by_seed_worker_and_call() -> None:
    def first_bits(seed: int, worker: int) -> bytes:
        return Draws(seed, worker).bits((64,)).tobytes()

    keys = list(itertools.product(range(3), range(3)))
    assert len({first_bits(*key) for key in keys}) == len(keys)
    assert first_bits(1, 2) == first_bits(1, 2)
    draws = Draws(1, 2)
    assert draws.bits((64,)).tobytes() != draws.bits((64,)).tobytes()


LENGTHS = (0, 1, 2, 7, 8, 33, 1000)
SHAPES = [
    (ranks, rows) for ranks in range(1, 17) for rows in (None, *range(1, 17)) if rows is None or ranks % rows == 0
]


def random_bits(*shape: int) -> Bits:
    return np.random.default_rng([*shape]).integers(0, 256, shape, np.uint8)


@pytest.mark.parametrize(("ranks", "rows"), SHAPES)
@pytest.mark.few(22)
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


def cascade(values: NDArray[np.float64], *, stochastic: bool, seed: int = 1) -> NDArray[np.float32]:
    """Estimate of the sum over the rows, equal on all ranks."""
    ranks, length = values.shape
    padded = np.zeros((ranks, -(-length // 8) * 8), np.float32)
    padded[:, :length] = values
    hoppers = [CascadeHopper(row, Draws(seed, k), stochastic=stochastic, length=length) for k, row in enumerate(padded)]
    lockstep(hoppers, [ring(ranks, rank, padded.shape[1] // 8) for rank in range(ranks)])
    for hopper in hoppers:
        assert np.array_equal(hopper.values, hoppers[0].values)
    return hoppers[0].values[:length]


def test_two_ranks_by_hand() -> None:
    """Segments of 8 values: rank 1's values of the first reach rank 0 as +-2.5, and the sum goes back as +-its mean."""
    first = np.array([[1, -1, 1, -1, 1, -1, 1, -1] * 2, [4, 1, 4, 1, 4, 1, 4, 1] * 2], float)
    # Segment 1 ends at rank 0: rank 1 sends +-2.5 (all plus) there; sums 3.5 and 1.5, their mean 2.5, all plus.
    # Segment 0 ends at rank 1: rank 0 sends its own +-1 unharmed; sums 5 and 0, mean 2.5, and a 0 counts as plus.
    assert cascade(first, stochastic=False).tolist() == [2.5] * 16


def test_one_rank_keeps_its_values() -> None:
    values = np.random.default_rng(1).normal(size=(1, 13))
    assert np.array_equal(cascade(values, stochastic=True), values[0].astype(np.float32))


@pytest.mark.parametrize("length", [0, 1, 7, 9, 40])
def test_degenerate_lengths(length: int) -> None:
    for stochastic in (False, True):
        result = cascade(np.ones((4, length)), stochastic=stochastic)
        assert result.shape == (length,)
        assert np.all(np.isfinite(result))


def test_padding_does_not_count_in_the_scale() -> None:
    """Nine equal values: seven zeros of padding would pull their mean down."""
    assert cascade(np.full((2, 9), 3.0), stochastic=False).tolist() == [6.0] * 9


def test_zero_stays_zero() -> None:
    assert not cascade(np.zeros((3, 24)), stochastic=True).any()


def test_stochastic_form_is_unbiased_and_its_error_grows_with_every_hop() -> None:
    """Why Marsit does not compress anew: the error of a value is of the order of the norm, and the norm grows."""
    spread = []
    for ranks in (2, 4):
        values = np.tile([1.0, -1.0, 0.5, 0.0], (ranks, 8))
        runs = np.stack([cascade(values, stochastic=True, seed=seed) for seed in range(600)]) / ranks
        limit = 6 * runs.std(axis=0) / np.sqrt(len(runs))
        assert np.all(np.abs(runs.mean(axis=0) - values[0]) <= limit)
        spread.append(float(runs.std(axis=0).mean()))
    assert spread[1] > 2 * spread[0]
    # One unbiased sign of +-1 from the same four workers has a standard deviation of 1 at most.
    bits = np.packbits(np.tile([True, False, True, True], (4, 8)), axis=1)
    signs = 2.0 * np.unpackbits(SimulatedSigns(4, seed=1).sign_merge(np.repeat(bits[:, None], 600, axis=1)), axis=1) - 1
    assert signs.std(axis=0).max() <= 1.0
    assert spread[1] > 4.0
