# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The workers' mean at a chosen precision: how many bits of each value a worker sends.

| precision | a worker sends, and gets, for each value | what is lost |
|---|---|---|
| "exact" | by the process group: its own all-reduce | nothing beyond its rounding; sums must be within float32 |
| "8bit" | 8 bits, 16 bits: THC, then THC of what that left out | some 0.04 % of the squared norm |
| "4bit" | 4 bits, 8 bits: THC | some 2 % of the squared norm |
| "1bit" | 1 bit, 1 bit: the sign, and one scale for all | all but the sign: for error feedback |

Integers are summed exactly at every precision.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from sumwire.codec.scales import magnitude_sums, total
from sumwire.errors import UsageError
from sumwire.job.job import Job, Residual

Precision = Literal["exact", "8bit", "4bit", "1bit"]
PRECISIONS: Final[tuple[Precision, ...]] = get_args(Precision)
DEFAULT: Final[Precision] = "4bit"
# The second round of "8bit" has a bucket of its own: its norms are others.
_SECOND_ROUND: Final = 1 << 15


def check_precision(precision: str) -> None:
    """Raises UsageError for a precision that there is not."""
    if precision not in PRECISIONS:
        raise UsageError(f"precision = {precision!r}: must be one of {', '.join(map(repr, PRECISIONS))}")


def mean_at(
    precision: Precision, job: Job, x: Tensor, bucket: int = 0, *, given: str = "", into: Tensor | None = None
) -> tuple[Tensor, Residual]:
    """Mean of the workers' flat tensors, float32 of x's length, and a function that returns this worker's residual.

    See :meth:`sumwire.Job.reduce`, whose errors it raises. "1bit" needs the op sign, and "exact" a process group.
    """
    x = x.resolve_neg()
    if precision == "4bit":
        return job.reduce(x, bucket, given=given, into=into)
    if precision == "8bit":
        return _in_two_rounds(job, x, bucket, given)
    if precision == "1bit":
        return _by_signs(job, x, bucket, given)
    mean = job.total(x.detach().to(torch.float32), bucket).div_(job.workers)
    return mean, lambda: torch.zeros_like(mean)


def _in_two_rounds(job: Job, x: Tensor, bucket: int, given: str) -> tuple[Tensor, Residual]:
    first, left_by_first = job.reduce(x, bucket, given=given)
    # A copy: the memory of a result is used again by the next operation.
    coarse, left = first.clone(), left_by_first()
    fine, residual = job.reduce(left, bucket ^ _SECOND_ROUND, given=given)
    return coarse.add_(fine), residual


def _by_signs(job: Job, x: Tensor, bucket: int, given: str) -> tuple[Tensor, Residual]:
    """One worker's sign in each place, times the largest of the workers' mean magnitudes. A worker stands for that
    scale with the signs of its values, so the expectation of the result is the mean of what workers stand for."""
    values = x.detach().to(torch.float32)
    # In float64: a sum of finite values may be beyond float32, their mean is not.
    own = total(magnitude_sums(values)) / max(len(values), 1)
    # Bits of floats from 0 on order like the floats; NaN is above all.
    bits = np.array([own], np.float32).view(np.uint32)
    scale = float(job.max32(bits, bucket).view(np.float32)[0])
    signs = job.merged_signs(values, bucket, given=given)
    mean = signs * scale
    return mean, lambda: values - torch.where(values >= 0, scale, -scale)
