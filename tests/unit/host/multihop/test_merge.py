# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The merge as a truth table, and the exactness of its draws."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from sumwire.multihop.sign_hops import Bits, Draws, merge, paper_form, reservoir_form, transient_of

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
