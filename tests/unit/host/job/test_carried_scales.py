# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sumwire.codec.scales import ExponentScales
from sumwire.codec.tensors import NOT_FINITE
from sumwire.job.one_trip import CarriedScales, ScalesKey

KEY = ScalesKey("sum32", 3, 500, 2)
FORM = ExponentScales(3072)


def exponents(*values: int) -> NDArray[np.uint32]:
    return np.array(values, np.uint32)


def after(*agreed: NDArray[np.uint32]) -> CarriedScales:
    scales = CarriedScales()
    for each in agreed:
        scales.learn(KEY, FORM, each)
    return scales


def carried(scales: CarriedScales, key: ScalesKey = KEY) -> list[int] | None:
    found = scales.of(key)
    return None if found is None else found.tolist()


def test_the_next_tensor_has_the_last_ones_scales_and_some_room() -> None:
    assert carried(CarriedScales()) is None
    assert carried(after(exponents(10, 20))) == [11, 21]
    assert carried(after(exponents(10, 20), exponents(9, 21))) == [10, 22]
    assert carried(after(exponents(10, 20)), ScalesKey("sum32", 4, 500, 2)) is None


def test_after_a_jump_they_are_asked_for_until_they_would_have_fitted() -> None:
    jumped = after(exponents(10, 20), exponents(10, 30))
    assert carried(jumped) is None
    jumped.learn(KEY, FORM, exponents(10, 40))
    assert carried(jumped) is None
    jumped.learn(KEY, FORM, exponents(10, 40))
    assert carried(jumped) == [11, 41]


def test_nothing_is_carried_over_from_a_tensor_that_is_not_finite() -> None:
    spoiled = after(exponents(10, 20), exponents(10, NOT_FINITE))
    assert len(spoiled) == 0
    spoiled.learn(KEY, FORM, exponents(10, 20))
    assert carried(spoiled) == [11, 21]


def test_a_checkpoint_has_them_with_what_was_learned_of_their_jumps() -> None:
    quiet = ScalesKey("thc", 0, 9, 1)
    scales = after(exponents(10, 20), exponents(10, 30))
    scales.learn(quiet, FORM, exponents(7))
    copy = CarriedScales()
    copy.restore(scales.kept())
    assert carried(copy) is None
    assert carried(copy, quiet) == [8]
    for one in (scales, copy):
        one.learn(KEY, FORM, exponents(10, 31))
    assert carried(scales) == carried(copy) == [11, 32]


def test_clear_forgets_all() -> None:
    scales = after(exponents(1, 2))
    scales.clear()
    assert carried(scales) is None


def test_the_tensors_that_were_not_heard_of_for_longest_are_forgotten() -> None:
    scales = CarriedScales()
    for bucket in range(1024):
        scales.learn(ScalesKey("sum32", bucket, 1, 1), FORM, exponents(1))
    scales.learn(ScalesKey("sum32", 0, 1, 1), FORM, exponents(1))
    scales.learn(ScalesKey("sum32", 5000, 1, 1), FORM, exponents(1))
    assert len(scales) == 1024
    assert scales.of(ScalesKey("sum32", 1, 1, 1)) is None
    assert scales.of(ScalesKey("sum32", 0, 1, 1)) is not None
