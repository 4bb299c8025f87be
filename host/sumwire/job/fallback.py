# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Operations of a job with a process group: through the switch, else by the group.

:class:`AgreedFallback` carries out every operation of such a job. The ranks agree on every change
(:mod:`sumwire.job.coordination`). If the switch did not finish an operation, the rank gets the result from another
rank, or all ranks repeat the operation by the process group.

:class:`GroupMean` and :class:`GroupTotal` go by the process group by choice. The tag of the calls so far travels behind
a small tensor, in one collective, and before some large ones, in a collective of its own: then those need no copy.
So workers that make different calls find out: the sums of a number and of its square are n times those of this worker
only if all workers have the same number.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Final, NoReturn

import torch
from torch import Tensor

from sumwire.codec.tensors import Recycler, check_kind
from sumwire.config import JobConfig
from sumwire.errors import (
    GroupError,
    OrderError,
    PeerLostError,
    RetryError,
    StaleRunError,
    SumwireError,
    SwitchLostError,
    TransportError,
)
from sumwire.job.control import Control, HaltedError
from sumwire.job.gloo import Fallback, first_clause
from sumwire.job.operations import CachedResult, Operation
from sumwire.transport.stats import JobStats
from sumwire.transport.udp import Transport

# So many operations by choice begin by comparing the calls, and of the later ones on large tensors every so many: it
# takes as long as a small operation. Programs whose calls differ mostly do so in their first steps. In between, gloo
# itself finds tensors that are not equally long.
COMPARED: Final = 16


@dataclass
class _History:
    """The operations by choice so far: how many, and 16 bits for all their calls."""

    count: int = 0
    tag: int = 0

    def add(self, call: str) -> int:
        """The bits with one more call."""
        self.count += 1
        self.tag = binascii.crc_hqx(call.encode(), self.tag)
        return self.tag


@dataclass(frozen=True)
class AgreedFallback:
    """``always``: a switch that cannot be reached at the start is no error either."""

    control: Control
    stats: JobStats
    always: bool
    never: bool
    _history: _History = field(default_factory=_History, init=False)

    def carry_out(self, operation: Operation, call: str, through_switch: Callable[[], Tensor]) -> Tensor:
        """The result of the job's next operation. ``call`` describes it, equally on all workers.

        Raises RetryError if the operation was not made, and the error that has ended the job on all ranks.
        """
        by_network = self.control.begin(call)
        try:
            if by_network:
                result = self._through_switch(through_switch)
                if result is not None:
                    self.control.finish(operation.kept(result), by_network=True)
                    return result
            result = self._without_switch(operation, call, begun=by_network)
        except RetryError:
            self.control.cancel(by_network=by_network)
            raise
        except SumwireError as error:
            raise self.control.fail(error) from error
        self.control.finish(operation.kept(result), by_network=False)
        return result

    def by_choice(self, operation: Operation, call: str) -> Tensor:
        """The result of an operation that goes by the process group in every phase, and in the same way: some ranks may
        have learned of a fall-back when they begin it, and others not."""
        self.control.begin(call, by_choice=True)
        first = self._history.count < COMPARED
        operation.compared = first or self._history.count % COMPARED != 0
        operation.tag = self._history.add(call)
        try:
            result = self._by_group(operation, call if first else None)
        except SumwireError as error:
            raise self.control.fail(error) from error
        self.control.finish_by_choice(operation.kept(result))
        self.stats.group_operations += 1
        self.stats.group_values += operation.values
        return result

    def _through_switch(self, through_switch: Callable[[], Tensor]) -> Tensor | None:
        """None if the ranks have agreed on the fall-back meanwhile."""
        try:
            return through_switch()
        except HaltedError:
            self.control.await_fallback()
        except (SwitchLostError, TransportError) as error:
            if self.never or not (self.always or self.control.greeted):
                raise
            self.control.await_fallback(str(error))
        except StaleRunError as error:
            # The group's ranks have the job's addresses and ports, so nobody else can be in a newer run: it is the next
            # greeting of one of them, or what processes before them have sent.
            if self.never or not self.control.greeted:
                raise
            self.control.await_fallback(str(error))
        return None

    def _without_switch(self, operation: Operation, call: str, *, begun: bool) -> Tensor:
        """``begun``: this worker has sent contributions to the switch."""
        handed_out = self.control.handed_out()
        if handed_out is not None:
            return operation.take(handed_out, begun=begun)
        self.stats.fallback_operations += 1
        return self._by_group(operation, call)

    def _by_group(self, operation: Operation, call: str | None = None) -> Tensor:
        """``call``: to be compared before."""
        try:
            if call is not None:
                self.control.fallback.compare(call)
            return operation.ordinary(self.control.fallback)
        except GroupError as error:
            why = first_clause(str(error))
            raise PeerLostError(f"a collective of the process group failed: {why}; start all workers again") from error


# Sums of 255 squares of a byte are exact in float32.
_BYTE: Final = 256
_MARKS: Final = 4
# From so many values on, a copy takes longer than a collective of a few values.
LARGE: Final = 1 << 18


class GroupMean(Operation):
    """``codec``: the name of the one that it takes the place of. Nothing is left out of the mean.

    ``into``: where the result of a large tensor is written; may be the tensor itself. ``total``: the sum is made,
    which saves the division: a pass over the whole tensor.
    """

    by_group: ClassVar[bool] = True

    def __init__(
        self, codec: str, x: Tensor, bucket: int, memory: Recycler, *, into: Tensor | None = None, total: bool = False
    ) -> None:
        self.what = f"mean by {codec}, by the process group"
        self.values = x.numel()
        self.bucket = bucket
        self._x = check_kind(x)
        self._memory = memory
        self._into = into
        self._total = total

    def residual(self) -> Tensor:
        """Zeros."""
        return torch.zeros_like(self._x, dtype=torch.float32)

    def ordinary(self, fallback: Fallback) -> Tensor:
        """See the module. Raises OrderError if the workers' calls differ."""
        return self._in_place(fallback) if self.values >= LARGE else self._in_one(fallback)

    def _marks(self) -> Tensor:
        """The tag's bytes and their squares."""
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
                f"the workers' calls differ: this one's is {self.what} of {self.values} values, bucket {self.bucket}; "
                "make the same calls in the same order on every worker"
            )

    def kept(self, result: Tensor) -> CachedResult:
        """See Operation. No worker needs it: all have their own of the same collective, or get an error. So an empty
        one takes the place of what the caller may change."""
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
    """The type in which a process group adds tensors of this one."""
    return _WIDER.get(dtype, dtype)


class GroupTotal(Operation):
    """The result has the bits of the process group's own all-reduce."""

    ops = ("max32",)
    by_group: ClassVar[bool] = True

    def __init__(self, x: Tensor, bucket: int) -> None:
        self.what = f"sum of {x.dtype} by the process group"
        self.values = x.numel()
        self.bucket = bucket
        self._x = x.detach()

    def ordinary(self, fallback: Fallback) -> Tensor:
        x = self._x
        return fallback.total(x.cpu().to(added_as(x.dtype))).to(x.device, x.dtype)

    def through_switch(self, transport: Transport, config: JobConfig, stats: JobStats) -> NoReturn:
        raise NotImplementedError("a sum by the process group takes no other way")

    def like(self) -> Tensor:
        return torch.zeros(self.values, dtype=self._x.dtype, device="cpu")
