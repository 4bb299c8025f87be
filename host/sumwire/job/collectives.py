# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The collective calls of a job that need no codec: maxima, minima and sums of integers, and signs.

:class:`Collectives` has the calls, which :class:`sumwire.job.job.Job` inherits, and an operation for each of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import ClassVar, Final

import numpy as np
import torch
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import ELEMENTWISE, SIGN, VOTE, Op
from torch import Tensor

from sumwire.codec.seeds import fold, stream_words
from sumwire.codec.sign import pack_signs, unpack_signs
from sumwire.codec.sum32 import pack_elements, unpack_elements
from sumwire.config import JobConfig
from sumwire.errors import SumOverflowError, UsageError
from sumwire.job.fallback import GroupTotal
from sumwire.job.gloo import Fallback
from sumwire.job.operations import (
    BUCKETS,
    Asked,
    Operation,
    carry,
    from_words,
    part_chunks,
    payload_of,
    to_words,
    told_by_all,
)
from sumwire.job.rules import refuse_unless
from sumwire.job.session import check_through
from sumwire.transport.buffers import Results
from sumwire.transport.options import ExchangeOptions
from sumwire.transport.stats import JobStats
from sumwire.transport.udp import Transport

# Key of the draws that replace the switch's: fold(DRAW_TAG, job, sequence, bucket), equal on all workers.
DRAW_TAG: Final = 0x44524157  # "DRAW"
_INT32: Final = np.iinfo(np.int32)
_HALF_BITS: Final = 16
_HALF: Final = (1 << _HALF_BITS) - 1


class Elementwise(Operation):
    """An element-wise op of the workers' uint32 values, shape (length,). The result is int64."""

    def __init__(self, op: str, values: NDArray[np.uint32]) -> None:
        if op not in ELEMENTWISE:
            raise UsageError(f"op {op!r}: need one of {', '.join(ELEMENTWISE)}")
        if values.dtype != np.uint32 or values.ndim != 1:
            raise UsageError(f"{values.dtype} values of shape {values.shape}: need uint32 (length,)")
        self.ops = (op,)
        self._op = ELEMENTWISE[op]
        self._ufunc = str(self._op.ufunc)
        self._values = values
        self.values = len(values)

    def through_switch(self, transport: Transport, config: JobConfig, stats: JobStats) -> Tensor:
        if config.blind:
            told = told_by_all(transport, config, self._values, self.tag)
            results = getattr(np, self._ufunc).reduce(told, axis=0)
        else:
            words = transport.exchange(self._op.code, to_words(self._values), self.tag).words
            results = from_words(words, self.values)
        return torch.from_numpy(results.astype(np.int64))

    def ordinary(self, fallback: Fallback) -> Tensor:
        return fallback.elementwise(self._ufunc, torch.from_numpy(self._values.astype(np.int64)))

    def like(self) -> Tensor:
        return torch.zeros(self.values, dtype=torch.int64, device="cpu")


class Sum32(Operation):
    """Exact sum of the workers' int32 values, shape (length,).

    The result is int32 (length + 1,): its last value counts the chunks with an overflow.
    """

    ops = ("sum32",)

    def __init__(self, values: NDArray[np.int32]) -> None:
        if values.dtype != np.int32 or values.ndim != 1:
            raise UsageError(f"{values.dtype} values of shape {values.shape}: need int32 (length,)")
        self._values = values
        self.values = len(values)

    def through_switch(self, transport: Transport, config: JobConfig, stats: JobStats) -> Tensor:
        if config.blind:
            return self._in_halves(transport)
        results = transport.exchange(p4.OP_SUM32, pack_elements(self._values), self.tag)
        sums = torch.from_numpy(unpack_elements(results.words, self.values))
        return torch.cat([sums, torch.tensor([overflows(results)], dtype=torch.int32, device="cpu")])

    def _in_halves(self, transport: Transport) -> Tensor:
        """Masked sums leave int32 at random. So the upper and the lower 16 bits are summed, which never do."""
        halves = np.concatenate([self._values >> _HALF_BITS, self._values & _HALF])
        results = transport.exchange(p4.OP_SUM32, pack_elements(halves), self.tag, ExchangeOptions(checked="signed"))
        upper, lower = np.split(unpack_elements(results.words, len(halves)).astype(np.int64), 2)
        return self._checked(torch.from_numpy((upper << _HALF_BITS) + lower))

    def ordinary(self, fallback: Fallback) -> Tensor:
        return self._checked(fallback.total(torch.from_numpy(self._values.astype(np.int64))))

    @staticmethod
    def _checked(total: Tensor) -> Tensor:
        """The result from exact sums, int64 (length,)."""
        outside = (total < int(_INT32.min)) | (total > int(_INT32.max))
        return torch.cat([total, outside.sum()[None]]).to(torch.int32)

    def like(self) -> Tensor:
        return torch.zeros(self.values + 1, dtype=torch.int32, device="cpu")


class _Signs(Operation):
    """Signs, bool (length,), True for plus: one bit per value in both directions. The result is uint8, 1 for plus."""

    _op: ClassVar[Op]

    def __init__(self, plus: Tensor) -> None:
        if plus.dtype != torch.bool or plus.dim() != 1:
            raise UsageError(f"{plus.dtype} signs of shape {tuple(plus.shape)}: need bool (length,)")
        self._plus = plus.detach().cpu()
        self.values = len(plus)

    def through_switch(self, transport: Transport, config: JobConfig, stats: JobStats) -> Tensor:
        plus, result = self._plus.numpy(), np.empty(self.values, np.bool_)
        words, per_chunk = self._op.up.words, self._op.values
        chunks = -(-self.values // per_chunk)
        form = payload_of(self._op.code, chunks, config)
        options = ExchangeOptions(checked=form.checked)
        with transport.open(form.op, chunks, self.tag, options) as exchange:

            def encode(first: int, last: int) -> None:
                packed = pack_signs(plus[first * per_chunk : last * per_chunk], words)
                form.put(partial(np.copyto, src=packed), exchange.payload[first:last], last - first)

            def decode(first: int, last: int) -> None:
                part = result[first * per_chunk : last * per_chunk]
                part[:] = unpack_signs(form.take(exchange.results.words[first:last]), len(part))

            carry(exchange, encode, decode, step=part_chunks(exchange.chunks, per_chunk, 1), stats=stats)
        return torch.from_numpy(result.view(np.uint8))

    def like(self) -> Tensor:
        return torch.zeros(self.values, dtype=torch.uint8, device="cpu")


class SignMerge(_Signs):
    """Marsit's merge: for every value the sign of one worker, drawn with equal probabilities."""

    ops = ("sign",)
    _op = SIGN

    def __init__(self, plus: Tensor, bucket: int, *, job: int, sequence: int) -> None:
        super().__init__(plus)
        self._key = fold(DRAW_TAG, job, sequence, bucket)

    def ordinary(self, fallback: Fallback) -> Tensor:
        """Gather the signs of all workers; every worker makes the same draws from the same key."""
        everyone = torch.stack(fallback.gather(torch.from_numpy(np.packbits(self._plus.numpy()))))
        signs = torch.from_numpy(np.unpackbits(everyone.numpy(), axis=1, count=self.values))
        # The remainder of 32 random bits has a bias below workers x 2**-32.
        draws = stream_words(self._key, 0, self.values, torch.device("cpu")).bitwise_and_(0xFFFFFFFF)
        return signs.gather(0, (draws % len(signs))[None])[0]


class Vote(_Signs):
    """Majority of the workers' signs. A tie is plus."""

    ops = ("vote",)
    _op = VOTE

    def ordinary(self, fallback: Fallback) -> Tensor:
        return fallback.total(self._plus.to(torch.int32).mul_(2).sub_(1)).ge(0).to(torch.uint8)


def overflows(results: Results) -> int:
    """Return how many chunks have a sum that overflowed int32. Equal on all workers."""
    return int(np.count_nonzero(results.flags & p4.FLAG_OVERFLOW))


class Collectives(ABC):
    """All workers make the same calls, with the same lengths, in the same order. Raises the errors of a job."""

    config: JobConfig
    _grouped: bool
    _raises: bool

    @abstractmethod
    def _run(self, make: Callable[[int], Operation], asked: Asked, empty: Tensor) -> Tensor:
        """Carry out one operation, which ``make(sequence)`` creates. ``empty``: the result for length 0."""

    def elementwise(self, op: str, values: NDArray[np.uint32], bucket: int = 0) -> NDArray[np.uint32]:
        """An element-wise op, such as "max32", of the workers' uint32 values of shape (length,).

        Raises UsageError for another op.
        """
        return self._collective(op, Elementwise(op, values), bucket).numpy().astype(np.uint32)

    def max32(self, values: NDArray[np.uint32], bucket: int = 0) -> NDArray[np.uint32]:
        """Elementwise maximum of the workers' uint32 values of shape (length,)."""
        return self.elementwise("max32", values, bucket)

    def min32(self, values: NDArray[np.uint32], bucket: int = 0) -> NDArray[np.uint32]:
        """Elementwise minimum of the workers' uint32 values of shape (length,)."""
        return self.elementwise("min32", values, bucket)

    def sum32(self, values: NDArray[np.int32], bucket: int = 0) -> NDArray[np.int32]:
        """Exact sum of the workers' int32 values of shape (length,).

        Raises SumOverflowError on all workers if a partial or whole sum leaves int32. The job stays usable.
        """
        sums = self._collective("sum32", Sum32(values), bucket).numpy()
        if len(values) and sums[-1]:
            raise SumOverflowError(
                f"job {self.config.name}: a sum of {self.config.workers} workers leaves int32; give smaller values"
            )
        return sums[: len(values)]

    def total(self, x: Tensor, bucket: int = 0) -> Tensor:
        """Return the sum of the workers' flat tensors in their own dtype, by the process group and with the bits of its
        all-reduce.

        Raises ConfigError without a process group, or with a quorum below the workers.
        """
        check_through(self.config, "group", grouped=self._grouped)
        return self._collective(f"sum of {x.dtype} by the process group", GroupTotal(x), bucket)

    def sign_merge(self, plus: Tensor, bucket: int = 0) -> Tensor:
        """For every value the sign of one worker, drawn with equal probabilities: bool (length,), True for plus.

        Equal on all workers. The expectation of a value is the share of plus among the workers. Any device.
        """
        merged = self._run(
            lambda sequence: SignMerge(plus, bucket % BUCKETS, job=self.config.job, sequence=sequence),
            Asked(SignMerge.ops, "merged signs", len(plus), bucket),
            plus,
        )
        return merged.to(plus.device).view(torch.bool)

    def all_finite(self, finite: bool) -> bool:
        """Return whether all workers called with True, found out by MAX32. With ``nonfinite="raise"`` raises
        NonFiniteError if not."""
        found = bool(self.max32(np.array([not finite], np.uint32))[0] == 0)
        if self._raises:
            refuse_unless(found)
        return found

    def vote(self, plus: Tensor, bucket: int = 0) -> Tensor:
        """Majority of the workers' signs, bool (length,), True for plus. A tie is plus."""
        return self._collective("vote", Vote(plus), bucket).to(plus.device).view(torch.bool)

    def _collective(self, what: str, operation: Operation, bucket: int) -> Tensor:
        asked = Asked(operation.ops, what, operation.values, bucket)
        return self._run(lambda _: operation, asked, operation.like())
