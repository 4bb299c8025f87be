# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The random number generator of both engines."""

from __future__ import annotations

from collections import Counter

import pytest
from softswitch.runtime.impair import SplitMix

# What the authors' own C code prints for this seed.
SEED = 1234567
FIRST = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]


def test_the_sequence_is_the_published_one() -> None:
    generator = SplitMix(SEED)
    assert [generator.next() for _ in FIRST] == FIRST


def test_seeds_count_modulo_two_to_the_64() -> None:
    assert SplitMix(SEED + (1 << 64)).next() == SplitMix(SEED - (1 << 64)).next() == FIRST[0]


def test_without_a_seed_every_generator_is_another() -> None:
    assert len({SplitMix().next() for _ in range(20)}) == 20


def test_one_limb_scales_the_first_draw() -> None:
    """FIRST[0] / 2^64 is 0.35007..."""
    assert SplitMix(SEED).integer(0, 99, 1) == 35
    assert SplitMix(SEED).integer(-50, 49, 1) == -15
    assert SplitMix(SEED).integer(7, 7, 1) == 7


def test_more_limbs_are_drawn_from_the_lowest_on() -> None:
    generator = SplitMix(SEED)
    assert generator.integer(0, (1 << 128) - 1, 2) == FIRST[0] | FIRST[1] << 64
    assert generator.next() == FIRST[2]


@pytest.mark.parametrize("limbs", [1, 3])
def test_every_number_of_the_range_comes_about_as_often(limbs: int) -> None:
    generator = SplitMix(3)
    seen = Counter(generator.integer(10, 15, limbs) for _ in range(6000))
    assert sorted(seen) == [10, 11, 12, 13, 14, 15]
    assert all(850 < times < 1150 for times in seen.values())  # five standard deviations
