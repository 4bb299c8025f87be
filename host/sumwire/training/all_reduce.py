# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The simplest entry point: one tensor, all workers."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Literal

import torch
from torch import Tensor

from sumwire.codec.values import all_finite
from sumwire.errors import UsageError
from sumwire.job.job import Job

DTYPES: Final = (torch.float32, torch.float16, torch.bfloat16)


def all_reduce(
    tensor: Tensor,
    job: Job,
    *,
    op: Literal["mean", "sum", "sign"] = "mean",
    feedback: Hashable | None = None,
    bucket: int = 0,
) -> Tensor:
    """Replace ``tensor`` by the mean, sum or merged signs of the workers' tensors, and return it.

    It may have any shape and length, and keeps its dtype: float32, float16 or bfloat16. The result has equal bits on
    all workers. THC is lossy: with a ``feedback`` key, what compression left out is kept in ``job.feedback`` and added
    to the next tensor with that key. "sign" needs the op sign instead of thc, and takes no feedback; see
    :meth:`Job.merged_signs`.

    Where some worker has NaN or infinity, all workers get NaN (for a whole block of values, see docs/host.md), and the
    key's residual stays as it was. With ``nonfinite="raise"`` the job raises NonFiniteError on all workers instead, and
    ``tensor`` stays as it was. Raises UsageError for other dtypes or ops, and OrderError where workers give different
    ones.
    """
    if tensor.dtype not in DTYPES:
        raise UsageError(f"tensor of {tensor.dtype}: must be one of {', '.join(map(str, DTYPES))}")
    if op not in ("mean", "sum", "sign"):
        raise UsageError(f"op = {op!r}: must be 'mean', 'sum' or 'sign'")
    flat = tensor.detach().reshape(-1)
    given = _given(op, tensor.dtype)
    result = _signs(flat, job, feedback, bucket, given) if op == "sign" else _mean(flat, job, feedback, bucket, given)
    total = result * job.config.workers if op == "sum" else result
    with torch.no_grad():
        tensor.copy_(total.view(tensor.shape))
    return tensor


def _given(op: str, dtype: torch.dtype) -> str:
    """What all workers must give equally, beyond what every reduction compares."""
    operation = "as their sum" if op == "sum" else ""
    type_ = f"as {dtype}" if dtype != torch.float32 else ""
    return " ".join(filter(None, (operation, type_)))


def _mean(flat: Tensor, job: Job, feedback: Hashable | None, bucket: int, given: str) -> Tensor:
    x = flat if feedback is None else job.feedback.compensate(feedback, flat)
    mean, residual = job.reduce(x, bucket, given=given)
    if feedback is not None and all_finite(mean):
        job.feedback.store(feedback, residual())
    return mean


def _signs(flat: Tensor, job: Job, feedback: Hashable | None, bucket: int, given: str) -> Tensor:
    if feedback is not None:
        raise UsageError(
            f"feedback = {feedback!r}: merged signs leave nothing that could be added to the next: leave it out"
        )
    return job.merged_signs(flat, bucket, given=given)
