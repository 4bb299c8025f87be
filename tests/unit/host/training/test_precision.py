# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The scale of signs at "1bit", of a worker alone."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sumwire.training.precision import mean_at
from torch import Tensor

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
