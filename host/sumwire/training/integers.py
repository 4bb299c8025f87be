# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Exact sums, maxima and minima of the workers' tensors: integers by SUM32, 32-bit values in order by MAX32."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sumwire.errors import SumOverflowError
from sumwire.job.job import Job

_SIGN_BIT: Final = np.uint32(1 << 31)
_ALL_BITS: Final = np.uint32((1 << 32) - 1)
# Types whose order is that of 32 bits.
ORDERED: Final = (torch.float32, torch.int32)


def sum_integers(job: Job, x: Tensor, bucket: int = 0) -> Tensor:
    """Sum of the workers' flat integer tensors, in their own dtype.

    int32 goes by SUM32 where the job has the op. Sums that leave int32, and all other types, go by the process group,
    and wrap around as they do there. Raises SumOverflowError for the former, and ConfigError for the latter, without a
    process group.
    """
    if x.dtype != torch.int32 or "sum32" not in job.config.ops:
        return job.total(x, bucket)
    try:
        return torch.from_numpy(job.sum32(x.cpu().numpy(), bucket)).to(x.device)
    except SumOverflowError:
        # Raised on all workers alike.
        if not job.grouped:
            raise
        return job.total(x, bucket)


def extreme(job: Job, x: Tensor, bucket: int = 0, *, largest: bool) -> Tensor:
    """The largest or smallest of the workers' values in each place, by MAX32: flat tensors, float32 or int32.

    NaN with a positive sign counts as larger than all else, and with a negative sign as smaller.
    """
    ordered = _ordered(x.cpu().numpy())
    found = job.max32(ordered if largest else ordered ^ _ALL_BITS, bucket)
    return torch.from_numpy(_values(found if largest else found ^ _ALL_BITS, x.dtype)).to(x.device)


def _ordered(values: NDArray[np.generic]) -> NDArray[np.uint32]:
    """Integers from 0 on in the order of the values. Bits of negative floats order backwards."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    if values.dtype == np.int32:
        return bits ^ _SIGN_BIT
    return np.where(bits & _SIGN_BIT, bits ^ _ALL_BITS, bits | _SIGN_BIT)


def _values(ordered: NDArray[np.uint32], dtype: torch.dtype) -> NDArray[np.generic]:
    """The inverse of `_ordered`."""
    if dtype == torch.int32:
        return (ordered ^ _SIGN_BIT).view(np.int32)
    bits = np.where(ordered & _SIGN_BIT, ordered ^ _SIGN_BIT, ordered ^ _ALL_BITS)
    return bits.astype(np.uint32).view(np.float32)
