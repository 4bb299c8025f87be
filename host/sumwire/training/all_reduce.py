# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The simplest entry point: reduces one tensor over all workers, at a chosen precision.

| precision | a worker sends, and gets, for each value | what is lost |
|---|---|---|
| "exact" | by the process group: its own all-reduce | nothing beyond its rounding; sums must be within float32 |
| "8bit" | 8 bits, 16 bits: THC, then THC of what that left out | some 0.04 % of the squared norm |
| "4bit" | 4 bits, 8 bits: THC | some 2 % of the squared norm |
| "1bit" | 1 bit, 1 bit: the sign, and one scale for all | all but the sign: for error feedback |

Integers are summed exactly at every precision: by SUM32, and 32-bit maxima and minima by MAX32.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.graph import increment_version

from sumwire.codec.kernels import magnitude_sums, total
from sumwire.codec.tensors import all_finite
from sumwire.errors import SumOverflowError, UsageError
from sumwire.job.job import Job, Residual
from sumwire.training.hierarchical import AnyJob, NodeJob

_SIGN_BIT: Final = np.uint32(1 << 31)
_ALL_BITS: Final = np.uint32((1 << 32) - 1)
# Types whose order is that of 32 bits.
ORDERED: Final = (torch.float32, torch.int32)


def sum_integers(job: Job, x: Tensor, bucket: int = 0) -> Tensor:
    """Return the sum of the workers' flat integer tensors, in their own dtype.

    int32 goes by SUM32 if the job has the op. Sums that overflow int32, and all other dtypes, go by the process group,
    and wrap around as usual there. Without a process group, an overflow raises SumOverflowError, and another dtype
    ConfigError.
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
    """Return the largest or smallest of the workers' values in each place, by MAX32. Flat tensors, float32 or int32.

    NaN with a positive sign counts as larger than everything else, and with a negative sign as smaller.
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


Precision = Literal["exact", "8bit", "4bit", "1bit"]
PRECISIONS: Final[tuple[Precision, ...]] = get_args(Precision)
DEFAULT: Final[Precision] = "4bit"
EXACT: Final[Precision] = "exact"
# The second round of "8bit" has a bucket of its own: its norms are others.
_SECOND_ROUND: Final = 1 << 15


def check_precision(precision: str) -> None:
    """Raise UsageError for a precision that does not exist."""
    if precision not in PRECISIONS:
        raise UsageError(f"precision = {precision!r}: must be one of {', '.join(map(repr, PRECISIONS))}")


def mean_at(
    precision: Precision, job: Job, x: Tensor, bucket: int = 0, *, given: str = "", into: Tensor | None = None
) -> tuple[Tensor, Residual]:
    """Return the mean of the workers' flat tensors, float32 of x's length, and a function that returns this worker's
    residual.

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
    all workers. ``precision`` determines what is lost (:mod:`sumwire.training.all_reduce`): with "4bit", the default, a
    tensor of ones comes back as about 0.97 to 1.03 a value. With a ``feedback`` key, what compression left out is kept
    in ``job.feedback`` and added to the next tensor with that key. "sign" needs the op sign, and takes neither
    precision nor feedback; see :meth:`Job.merged_signs`.

    Integers have sums only, exact at every precision, by SUM32 where the job has the op and all sums fit int32, and
    else by the process group.

    Where some worker has NaN or infinity, all workers get NaN (for a whole block of values, see docs/host.md), and the
    key's residual stays as it was. With ``nonfinite="raise"`` the job raises NonFiniteError on all workers instead, and
    ``tensor`` stays as it was. Raises UsageError for other dtypes, layouts, ops or precisions, ConfigError for "exact"
    floats without a process group, and OrderError where workers give different ones. After KeyboardInterrupt, or a
    RecreateError about results that cannot be sums, ``tensor`` may hold a part of the result.
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
    """Return the tensor's values as a flat tensor: a view if they lie in memory one by one, else a copy."""
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
    """Return the sum in the tensor's own type, with the bits of the group's all-reduce."""
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
