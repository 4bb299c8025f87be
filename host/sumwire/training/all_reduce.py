# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The simplest entry point: one tensor, all workers."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Literal

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from sumwire.codec.values import all_finite
from sumwire.errors import UsageError
from sumwire.job.job import Job
from sumwire.training.integers import sum_integers
from sumwire.training.node import AnyJob, NodeJob
from sumwire.training.precision import DEFAULT, Precision, check_precision, mean_at

DTYPES: Final = (torch.float32, torch.float16, torch.bfloat16)
INTEGERS: Final = (
    torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64,
)  # fmt: skip


def all_reduce(
    tensor: Tensor,
    job: AnyJob,
    *,
    op: Literal["mean", "sum", "sign"] = "mean",
    precision: Precision = DEFAULT,
    feedback: Hashable | None = None,
    bucket: int = 0,
) -> Tensor:
    """Replace ``tensor`` by the mean, sum or merged signs of the workers' tensors, and return it.

    It may have any shape and length, and keeps its dtype: float32, float16 or bfloat16. The result has equal bits on
    all workers. ``precision`` says what is lost (:mod:`sumwire.training.precision`): with "4bit", the default, a
    tensor of ones comes back as about 0.97 to 1.03 a value. With a ``feedback`` key, what compression left out is kept
    in ``job.feedback`` and added to the next tensor with that key. "sign" needs the op sign, and takes neither
    precision nor feedback; see :meth:`Job.merged_signs`.

    Integers have sums only, exact at every precision, by SUM32 where the job has the op and all sums fit int32, and
    else by the process group.

    Where some worker has NaN or infinity, all workers get NaN (for a whole block of values, see docs/host.md), and the
    key's residual stays as it was. With ``nonfinite="raise"`` the job raises NonFiniteError on all workers instead, and
    ``tensor`` stays as it was. Raises UsageError for other dtypes, layouts, ops or precisions, ConfigError for "exact"
    floats without a process group, and OrderError where workers give different ones. After KeyboardInterrupt, and a
    RecreateError about results that no sum can be, ``tensor`` may hold a part of the result.
    """
    check_precision(precision)
    if op not in ("mean", "sum", "sign"):
        raise UsageError(f"op = {op!r}: must be 'mean', 'sum' or 'sign'")
    _check_memory(tensor)
    if tensor.dtype in INTEGERS:
        return _integers(tensor, job, op, feedback, bucket)
    if tensor.dtype not in DTYPES:
        raise UsageError(f"tensor of {tensor.dtype}: must be one of {', '.join(map(str, (*DTYPES, *INTEGERS)))}")
    if op == "sum" and precision == "exact":
        return _exact_sum(tensor, job, bucket)
    flat, factor = _flat(tensor), 1
    given = _given(op, tensor.dtype, precision)
    into = flat if _is_writable(tensor) else None
    if op == "sign":
        result = _signs(flat, job, feedback, bucket, given, into=into)
    else:
        # As the sum that it is, where that saves a division.
        total = op == "sum" and precision == DEFAULT and isinstance(job, Job)
        result = _mean(flat, job, precision, feedback, bucket=bucket, given=given, into=into, total=total)
        factor = job.summands if op == "sum" and not total else 1
    with torch.no_grad():
        if result is not into:
            tensor.copy_((result if factor == 1 else result * factor).view(tensor.shape))
        elif factor != 1:
            tensor.mul_(factor)
        else:
            # Autograd only notices what torch writes.
            increment_version(tensor)
    return tensor


def _check_memory(tensor: Tensor) -> None:
    """Raises UsageError for what is no tensor, and a tensor whose values do not lie in memory one by one."""
    if not isinstance(tensor, Tensor):
        raise UsageError(f"{type(tensor).__name__}: must be a tensor: torch.as_tensor(...) makes one")
    if tensor.is_nested:
        raise UsageError("nested tensor: must be dense: call to_padded_tensor() first, or reduce what unbind() gives")
    if tensor.layout != torch.strided:
        raise UsageError(f"tensor of {tensor.layout}: must be dense: call to_dense() first")
    if tensor.is_meta:
        raise UsageError("tensor on meta: must be one with values: call to_empty() and fill it")
    if any(step == 0 and size > 1 for step, size in zip(tensor.stride(), tensor.shape, strict=True)):
        raise UsageError("expanded tensor, with several values in one place: must have a place for each: call clone()")
    if tensor.is_inference() and not torch.is_inference_mode_enabled():
        raise UsageError("tensor of inference_mode, which nobody may write to outside it: call clone() first")


def _is_writable(tensor: Tensor) -> bool:
    """Whether the kernels can write a result to the tensor's own memory."""
    plain = tensor.dtype == torch.float32 and tensor.device.type == "cpu"
    return plain and tensor.is_contiguous() and not tensor.is_inference() and not tensor.is_neg()


def _flat(tensor: Tensor) -> Tensor:
    """Its values one by one: in its own memory, where that has them."""
    return tensor.detach().resolve_neg().reshape(-1)


def _given(op: str, dtype: torch.dtype, precision: Precision) -> str:
    """What all workers must give equally, beyond what every reduction compares."""
    operation = "as their sum" if op == "sum" else ""
    type_ = f"as {dtype}" if dtype != torch.float32 else ""
    chosen = f"at {precision}" if precision != DEFAULT and op != "sign" else ""
    return " ".join(filter(None, (operation, type_, chosen)))


def _integers(tensor: Tensor, job: AnyJob, op: str, feedback: Hashable | None, bucket: int) -> Tensor:
    if op != "sum" or feedback is not None:
        raise UsageError(f"op = {op!r} of {tensor.dtype}: must be op='sum' without feedback: give floats for others")
    with torch.no_grad():
        return tensor.copy_(_total(tensor, job, lambda own, x: sum_integers(own, x, bucket)).view(tensor.shape))


def _exact_sum(tensor: Tensor, job: AnyJob, bucket: int) -> Tensor:
    """In the tensor's own type: with the bits of the group's all-reduce."""
    with torch.no_grad():
        return tensor.copy_(_total(tensor, job, lambda own, x: own.total(x, bucket)).view(tensor.shape))


def _total(tensor: Tensor, job: AnyJob, make: Callable[[Job, Tensor], Tensor]) -> Tensor:
    """The sum over all ranks, flat: ``make`` gives that over the workers."""
    flat = _flat(tensor)
    return job.total(flat, make) if isinstance(job, NodeJob) else make(job, flat)


def _mean(
    flat: Tensor,
    job: AnyJob,
    precision: Precision,
    feedback: Hashable | None,
    *,
    bucket: int,
    given: str,
    into: Tensor | None,
    total: bool,
) -> Tensor:
    """``total``: the sum instead, of a plain job at the default precision."""
    x = flat if feedback is None else job.feedback.compensate(feedback, flat)
    if total and isinstance(job, Job):
        mean, residual = job.reduce(x, bucket, given=given, into=into, total=True)
    elif isinstance(job, NodeJob):
        mean, residual = job.mean(x, lambda own, node: mean_at(precision, own, node, bucket, given=given))
    else:
        mean, residual = mean_at(precision, job, x, bucket, given=given, into=into)
    if feedback is not None and all_finite(mean):
        job.feedback.store(feedback, residual())
    return mean


def _signs(
    flat: Tensor, job: AnyJob, feedback: Hashable | None, bucket: int, given: str, *, into: Tensor | None
) -> Tensor:
    if feedback is not None:
        raise UsageError(
            f"feedback = {feedback!r}: merged signs leave nothing that could be added to the next: leave it out"
        )
    return job.merged_signs(flat, bucket, given=given, into=into)
