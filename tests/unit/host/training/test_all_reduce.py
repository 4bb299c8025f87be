# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Integers, and means at a chosen precision."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sumwire.training.all_reduce import _ordered, _values, mean_at
from torch import Tensor

FLOATS = [-np.inf, -3.4e38, -1.5, -1e-45, -0.0, 0.0, 1e-45, 1.0, 2.5, 3.4e38, np.inf]
INTEGERS = [-(2**31), -7, -1, 0, 1, 2**31 - 1]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [(np.array(FLOATS, np.float32), torch.float32), (np.array(INTEGERS, np.int32), torch.int32)],
    ids=["floats", "integers"],
)
def test_order_is_kept_and_values_come_back(values: np.ndarray, dtype: torch.dtype) -> None:  # type: ignore[type-arg]
    bits = _ordered(values)
    assert bits.dtype == np.uint32
    assert (np.diff(bits.astype(np.int64)) > 0).all()
    assert np.array_equal(_values(bits, dtype).view(np.uint32), values.view(np.uint32))


def test_nan_is_the_largest() -> None:
    assert _ordered(np.array([np.nan], np.float32))[0] > _ordered(np.array([np.inf], np.float32))[0]


LARGEST = torch.finfo(torch.float32).max


class Alone:
    """A job of one worker."""

    def max32(self, bits: NDArray[np.uint32], bucket: int) -> NDArray[np.uint32]:
        return bits

    def merged_signs(self, values: Tensor, bucket: int, *, given: str) -> Tensor:
        return torch.where(values >= 0, 1.0, -1.0)


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ([LARGEST, -LARGEST, LARGEST], LARGEST),
        ([1.5 * 2.0**127, -(2.0**127)], 1.25 * 2.0**127),
        ([1.0, -2.0, 6.0], 3.0),
        ([0.0], 0.0),
        ([], 0.0),
    ],
)
def test_the_scale_is_the_mean_magnitude_though_the_sum_is_beyond_float32(values: list[float], scale: float) -> None:
    x = torch.tensor(values)
    mean, residual = mean_at("1bit", cast(Any, Alone()), x)
    expected = torch.where(x >= 0, 1.0, -1.0) * scale
    assert torch.equal(mean, expected)
    assert torch.equal(residual(), x - expected)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_what_is_not_finite_is_told(bad: float) -> None:
    mean, _ = mean_at("1bit", cast(Any, Alone()), torch.tensor([1.0, bad]))
    assert not torch.isfinite(mean).any()
