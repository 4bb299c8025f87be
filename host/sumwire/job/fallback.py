# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Operations that use the process group by choice: :class:`GroupMean` and :class:`GroupTotal`.

They compare the workers' calls without a collective of their own for small tensors: the tag of the calls so far is
appended to the tensor. For some large tensors the tag goes in a separate collective first, so that the tensor need not
be copied. The comparison uses sums: those of a number and of its square are n times this worker's only if all workers
have the same number.
"""

from __future__ import annotations

from typing import ClassVar, Final, NoReturn

import torch
from torch import Tensor

from sumwire.codec.tensors import Recycler, check_kind
from sumwire.config import JobConfig
from sumwire.errors import (
    OrderError,
)
from sumwire.job.gloo import Fallback
from sumwire.job.operations import CachedResult, Operation
from sumwire.transport.stats import JobStats
from sumwire.transport.udp import Transport

# So many operations by choice begin by comparing the calls, and of the later ones on large tensors every so many: it
# takes as long as a small operation. Programs whose calls differ mostly do so in their first steps. In between, gloo
# itself finds tensors that are not equally long.
COMPARED: Final = 16


# Sums of 255 squares of a byte are exact in float32.
_BYTE: Final = 256
_MARKS: Final = 4
# From so many values on, a copy takes longer than a collective of a few values.
LARGE: Final = 1 << 18


class GroupMean(Operation):
    """The mean by the process group. ``codec``: the name of the codec that it replaces. Nothing is left out of the
    mean.

    ``into``: where the result of a large tensor is written; may be the tensor itself. ``total``: return the sum, which
    saves the division, a pass over the whole tensor.
    """

    by_group: ClassVar[bool] = True

    def __init__(
        self, codec: str, x: Tensor, bucket: int, memory: Recycler, *, into: Tensor | None = None, total: bool = False
    ) -> None:
        self.values = x.numel()
        self._what = f"{self.instead_of(codec)} of {self.values} values, bucket {bucket}"
        self._x = check_kind(x)
        self._memory = memory
        self._into = into
        self._total = total

    @staticmethod
    def instead_of(codec: str) -> str:
        """Return how descriptions of calls name the operation."""
        return f"mean by {codec}, by the process group"

    def residual(self) -> Tensor:
        """Return zeros: nothing is left out of the mean."""
        return torch.zeros_like(self._x, dtype=torch.float32)

    def ordinary(self, fallback: Fallback) -> Tensor:
        """See the module. Raises OrderError if the workers' calls differ."""
        return self._in_place(fallback) if self.values >= LARGE else self._in_one(fallback)

    def _marks(self) -> Tensor:
        """Return the two bytes of the tag and their squares, float32 (4,)."""
        high, low = divmod(self.tag, _BYTE)
        return torch.tensor([high, low, high * high, low * low], dtype=torch.float32, device="cpu")

    def _in_one(self, fallback: Fallback) -> Tensor:
        """By a single collective, of a copy with the marks behind it."""
        marks = self._marks()
        total = self._memory.empty(self.values + _MARKS, torch.float32)
        self._put(total[: self.values], fallback.ranks)
        total[self.values :] = marks
        fallback.add_(total)
        self._check(total[self.values :], marks * fallback.ranks)
        return total[: self.values].to(self._x.device)

    def _in_place(self, fallback: Fallback) -> Tensor:
        """By a collective of the tensor where the result is to be; before it one of the marks, unless the calls are
        compared otherwise."""
        if not self.compared:
            marks = self._marks()
            total = marks.clone()
            fallback.add_(total)
            self._check(total, marks * fallback.ranks)
        result = self._memory.empty(self.values, torch.float32) if self._into is None else self._into
        self._put(result, fallback.ranks)
        fallback.add_(result)
        return result if result is self._into else result.to(self._x.device)

    def _put(self, out: Tensor, ranks: int) -> None:
        """Write this worker's part of the result to ``out``: divided before it is added, as DDP does it."""
        if not self._total:
            _divided(self._x, ranks, out=out)
        elif out.data_ptr() != self._x.data_ptr():
            out.copy_(self._x)

    def _check(self, total: Tensor, expected: Tensor) -> None:
        if not torch.equal(total, expected):
            raise OrderError(
                f"the workers' calls differ: this one's is {self._what}; make the same calls in the same order on "
                "every worker"
            )

    def kept(self, result: Tensor) -> CachedResult:
        """See Operation. Returns an empty result if the caller may change its own: no other worker needs it, since all
        get the result of the same collective, or an error."""
        return CachedResult(0, _nothing) if result is self._into else super().kept(result)

    def through_switch(self, transport: Transport, config: JobConfig, stats: JobStats) -> NoReturn:
        raise NotImplementedError("a mean by the process group takes no other way")

    def like(self) -> Tensor:
        return torch.zeros(self.values, dtype=torch.float32, device="cpu")


def _nothing() -> Tensor:
    return torch.zeros(0, dtype=torch.float32, device="cpu")


def _divided(x: Tensor, ranks: int, *, out: Tensor) -> None:
    """``out`` (float32) = ``x`` / ``ranks``, rounded once.

    In one pass where ``x`` is float32 itself, on a processor. torch would divide half precision in half precision.
    """
    if x.dtype == torch.float32 and x.device == out.device:
        torch.div(x, ranks, out=out)
    else:
        out.copy_(x).div_(ranks)


# Types that gloo does not add, and ones in which a sum has all of their bits.
_WIDER: Final = {
    torch.int16: torch.int32,
    torch.uint16: torch.int32,
    torch.uint32: torch.int64,
    torch.uint64: torch.int64,
}


def added_as(dtype: torch.dtype) -> torch.dtype:
    """Return the type in which a process group adds tensors of ``dtype``."""
    return _WIDER.get(dtype, dtype)


class GroupTotal(Operation):
    """The result has the bits of the process group's own all-reduce."""

    ops = ("max32",)
    by_group: ClassVar[bool] = True

    def __init__(self, x: Tensor) -> None:
        self.values = x.numel()
        self._x = x.detach()

    def ordinary(self, fallback: Fallback) -> Tensor:
        x = self._x
        return fallback.total(x.cpu().to(added_as(x.dtype))).to(x.device, x.dtype)

    def through_switch(self, transport: Transport, config: JobConfig, stats: JobStats) -> NoReturn:
        raise NotImplementedError("a sum by the process group takes no other way")

    def like(self) -> Tensor:
        return torch.zeros(self.values, dtype=self._x.dtype, device="cpu")
