# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""32 bits in the order of floats and integers, and back."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sumwire.training.integers import _ordered, _values

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
