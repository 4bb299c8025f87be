# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Eight signs to a byte, and shares of values."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
import torch
from sumwire.errors import UsageError
from sumwire.systems.baselines.sign import ef_sign, pack, unpack
from sumwire.systems.baselines.topk import TopK
from torch import Tensor


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 1000])
def test_signs_are_packed_as_numpy_does(length: int) -> None:
    plus = torch.rand(length, generator=torch.Generator().manual_seed(length)) < 0.4
    octets = pack(plus)
    np.testing.assert_array_equal(octets.numpy(), np.packbits(plus.numpy()))
    assert torch.equal(unpack(octets, length), plus.to(torch.uint8))


@pytest.mark.parametrize(
    ("k", "length", "count"), [(0.01, 1000, 10), (0.01, 50, 1), (1, 50, 50), (1.0, 1, 1), (0.999, 10, 9), (1e-9, 0, 0)]
)
def test_share_of_values_is_rounded_down_and_one_at_least(k: float, length: int, count: int) -> None:
    assert TopK(cast(Any, None), k).count(length) == count


@pytest.mark.parametrize("k", [0, -0.1, 1.01, float("nan"), True, "0.1"])
def test_share_out_of_range_is_refused(k: Any) -> None:
    with pytest.raises(UsageError, match="above 0 and at most 1"):
        TopK(cast(Any, None), k)


def test_ef_sign_of_values_whose_sum_is_beyond_float32() -> None:
    """Each mean of magnitudes is within it, and so is the mean of the workers'."""

    class Two:
        workers = 2

        def gather(self, message: Tensor) -> list[Tensor]:
            return [message, message]

    x = torch.full((9,), 3e38)
    mean, residual = ef_sign(cast(Any, Two()), x, 0)
    torch.testing.assert_close(mean, x)
    torch.testing.assert_close(residual(), torch.zeros(9), rtol=0, atol=1e33)
