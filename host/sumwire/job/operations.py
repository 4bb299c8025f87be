# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The operations of a job, each in two ways: through the switch, or by the process group's collectives.

An operation object belongs to one call. :class:`sumwire.job.job.Job` adds the lock, the order and the fall-back.
:mod:`sumwire.job.codec_operation` is the operation on a tensor through a codec.

A :class:`Signature` is a text about a call that the workers compare, and its tag is in every packet of the operation.
A slot of the switch takes packets of one tag only, so different calls are never summed. Example: operation 12 is
"mean by thc of 2000 values, bucket 3" on all workers, and tagged with the CRC-16 of that.

:class:`ResultCache` is the cache of the latest results, for ranks that lack them when the switch is lost.
"""

from __future__ import annotations

import binascii
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final

import numpy as np
import torch
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import MAX32, MIN32, SIGN, VOTE, Op
from torch import Tensor

from sumwire.codec.seeds import fold, stream_words
from sumwire.codec.sign import pack_signs, unpack_signs
from sumwire.codec.sum32 import pack_elements, unpack_elements
from sumwire.config import JobConfig
from sumwire.errors import ConfigError, UsageError
from sumwire.job.gloo import Fallback
from sumwire.job.packing import carry, from_words, packing_of, part_chunks, to_words, told_by_all
from sumwire.transport.buffers import Results
from sumwire.transport.options import ExchangeOptions
from sumwire.transport.stats import JobStats
from sumwire.transport.udp import Transport

# Higher ones are the greeting's.
_TAGS: Final = p4.BUCKET_OPENS_RUN

# Numbers of buckets in a packet's header.
BUCKETS: Final = 1 << 16


@dataclass(frozen=True)
class Signature:
    """``number``: of the operation in the job, from 0. ``given``: what else must be equal, as a text."""

    number: int
    what: str
    values: int
    bucket: int
    given: str = ""

    def __str__(self) -> str:
        given = f", {self.given}" if self.given else ""
        return f"{self.what} of {self.values} values, bucket {self.bucket}{given}"

    @property
    def tag(self) -> int:
        """16 bits for the packets' field ``bucket``."""
        return binascii.crc_hqx(f"{self.number}: {self}".encode(), 0) % _TAGS


def tag_in_one_trip(tag: int, carried: bytes) -> int:
    """The tag of the same call where it is encoded with carried scales: workers that carry others, or none, are refused
    instead of summed."""
    return binascii.crc_hqx(b"one trip" + carried, tag) % _TAGS


# A chunk's result as float32 values.
BYTES_PER_CHUNK: Final = 4096


# Contributors of a result that has all.
ALL: Final = torch.zeros(0, dtype=torch.int64, device="cpu")


@dataclass(frozen=True)
class CachedResult:
    """A result: its own tensor, or what makes it once more. ``nbytes``: of the memory that is held for it.

    ``contributors``: int64 (chunks,), bitmaps of the seats at this rank's switch; :data:`ALL` if no chunk lacks any.
    """

    nbytes: int
    tensor: Callable[[], Tensor]
    contributors: Tensor = ALL


@dataclass(frozen=True)
class HandedOut:
    """A result that another rank hands out. ``worker``: that rank's. ``contributors``: see :class:`CachedResult`."""

    worker: int
    tensor: Tensor
    contributors: Tensor = ALL


class ResultCache:
    """``most``: with a quorum of all workers 1, since ranks are at most one operation apart; else None. ``most_bytes``:
    the oldest results beyond it are dropped, but never the latest."""

    def __init__(self, *, most: int | None, most_bytes: int) -> None:
        # Results of the operations first..first + n - 1.
        self.first = 0
        self._results: deque[CachedResult] = deque()
        self._bytes = 0
        self._most = most
        self._most_bytes = most_bytes

    def __len__(self) -> int:
        return len(self._results)

    def add(self, operation: int, result: CachedResult) -> None:
        """Keep the result of the operation after the latest one, or of a later one if nothing is kept."""
        if not self._results:
            self.first = operation
        assert operation == self.first + len(self._results), "results are kept without a gap"
        self._results.append(result)
        self._bytes += result.nbytes
        while len(self._results) > 1 and (
            self._bytes > self._most_bytes or (self._most is not None and len(self._results) > self._most)
        ):
            self._drop()

    def trim(self, operation: int) -> None:
        """All ranks have the results of operations below this one."""
        while self._results and self.first < operation:
            self._drop()

    def result(self, operation: int) -> CachedResult:
        """A kept result."""
        return self._results[operation - self.first]

    def _drop(self) -> None:
        self._bytes -= self._results.popleft().nbytes
        self.first += 1


# Key of the draws that replace the switch's: fold(DRAW_TAG, job, sequence, bucket), equal on all workers.
DRAW_TAG: Final = 0x44524157  # "DRAW"
_INT32: Final = np.iinfo(np.int32)
_HALF_BITS: Final = 16
_HALF: Final = (1 << _HALF_BITS) - 1


class Operation(ABC):
    """One collective call. ``values``: its length. ``what``, ``bucket``: for its description, which workers compare.
    ``tag``: in every packet. ``by_group``: it goes by the process group by choice, whether there is a switch or not.
    ``compared``: the workers have just found its description equal, or find out with a later operation."""

    ops: ClassVar[tuple[str, ...]]
    by_group: ClassVar[bool] = False
    what: str
    values: int
    bucket: int
    tag: int = 0
    compared: bool = False

    @abstractmethod
    def through_switch(self, transport: Transport, config: JobConfig, stats: JobStats) -> Tensor:
        """The result, with equal bits on all workers."""

    @abstractmethod
    def ordinary(self, fallback: Fallback) -> Tensor:
        """The result by the process group's collectives, with equal bits on all workers."""

    @abstractmethod
    def like(self) -> Tensor:
        """A CPU tensor of the result's shape and dtype, to receive a result that another worker hands out."""

    def take(self, handed_out: HandedOut, *, begun: bool) -> Tensor:
        """Accept a result that another worker handed out. Its sum contains this worker's contribution only if this
        worker had ``begun`` to send it."""
        return handed_out.tensor

    def kept(self, result: Tensor) -> CachedResult:
        """The result that :meth:`through_switch` or :meth:`ordinary` has returned, for workers that lack it."""
        return CachedResult(result.nbytes, lambda: result)


def require(config: JobConfig, ops: tuple[str, ...], what: str) -> None:
    """Raises ConfigError unless the job has all the ops. ``what`` ends the message: "must have thc to ..."."""
    for op in ops:
        if op not in config.ops:
            raise ConfigError("ops", config.ops, f"must have {op} {what}", where=f"job {config.name}")


class _Extreme(Operation):
    """One of the workers' uint32 values for each element, shape (length,). The result is int64."""

    _op: ClassVar[Op]

    def __init__(self, values: NDArray[np.uint32], bucket: int) -> None:
        if values.dtype != np.uint32 or values.ndim != 1:
            raise UsageError(f"{values.dtype} values of shape {values.shape}: need uint32 (length,)")
        self._values = values
        self.values = len(values)
        self.bucket = bucket

    def through_switch(self, transport: Transport, config: JobConfig, stats: JobStats) -> Tensor:
        if config.blind:
            told = told_by_all(transport, config, self._values, self.tag).astype(np.int64)
            return torch.from_numpy(self._extreme(told))
        results = transport.exchange(self._op.code, to_words(self._values), self.tag)
        return torch.from_numpy(from_words(results.words, self.values).astype(np.int64))

    @staticmethod
    @abstractmethod
    def _extreme(values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Of the values of all workers, shape (workers, length)."""

    def like(self) -> Tensor:
        return torch.zeros(self.values, dtype=torch.int64, device="cpu")


class Max32(_Extreme):
    """Elementwise maximum."""

    ops = ("max32",)
    what = "max32"
    _op = MAX32

    @staticmethod
    def _extreme(values: NDArray[np.int64]) -> NDArray[np.int64]:
        largest: NDArray[np.int64] = values.max(axis=0)
        return largest

    def ordinary(self, fallback: Fallback) -> Tensor:
        return fallback.largest(torch.from_numpy(self._values.astype(np.int64)))


class Min32(_Extreme):
    """Elementwise minimum."""

    ops = ("min32",)
    what = "min32"
    _op = MIN32

    @staticmethod
    def _extreme(values: NDArray[np.int64]) -> NDArray[np.int64]:
        smallest: NDArray[np.int64] = values.min(axis=0)
        return smallest

    def ordinary(self, fallback: Fallback) -> Tensor:
        return -fallback.largest(-torch.from_numpy(self._values.astype(np.int64)))


class Sum32(Operation):
    """Exact sum of the workers' int32 values, shape (length,).

    The result is int32 (length + 1,): its last value counts the chunks with an overflow.
    """

    ops = ("sum32",)
    what = "sum32"

    def __init__(self, values: NDArray[np.int32], bucket: int) -> None:
        if values.dtype != np.int32 or values.ndim != 1:
            raise UsageError(f"{values.dtype} values of shape {values.shape}: need int32 (length,)")
        self._values = values
        self.values = len(values)
        self.bucket = bucket

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

    def __init__(self, plus: Tensor, bucket: int) -> None:
        if plus.dtype != torch.bool or plus.dim() != 1:
            raise UsageError(f"{plus.dtype} signs of shape {tuple(plus.shape)}: need bool (length,)")
        self._plus = plus.detach().cpu()
        self.values = len(plus)
        self.bucket = bucket

    def through_switch(self, transport: Transport, config: JobConfig, stats: JobStats) -> Tensor:
        plus, result = self._plus.numpy(), np.empty(self.values, np.bool_)
        words, per_chunk = self._op.up.words, self._op.values
        packing = packing_of(self._op.code, config)
        options = ExchangeOptions(checked=packing.checked)
        with transport.open(packing.op, -(-self.values // per_chunk), self.tag, options) as exchange:

            def encode(first: int, last: int) -> None:
                packed = pack_signs(plus[first * per_chunk : last * per_chunk], words)
                packing.put(partial(np.copyto, src=packed), exchange.payload[first:last])

            def decode(first: int, last: int) -> None:
                part = result[first * per_chunk : last * per_chunk]
                part[:] = unpack_signs(packing.take(exchange.results.words[first:last]), len(part))

            carry(exchange, encode, decode, step=part_chunks(exchange.chunks, per_chunk, 1), stats=stats)
        return torch.from_numpy(result.view(np.uint8))

    def like(self) -> Tensor:
        return torch.zeros(self.values, dtype=torch.uint8, device="cpu")


class SignMerge(_Signs):
    """Marsit's merge: for every value the sign of one worker, drawn with equal probabilities."""

    ops = ("sign",)
    what = "merged signs"
    _op = SIGN

    def __init__(self, plus: Tensor, bucket: int, *, job: int, sequence: int) -> None:
        super().__init__(plus, bucket)
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
    what = "vote"
    _op = VOTE

    def ordinary(self, fallback: Fallback) -> Tensor:
        return fallback.total(self._plus.to(torch.int32).mul_(2).sub_(1)).ge(0).to(torch.uint8)


class Nothing(Operation):
    """A call of length 0, whose result is ``empty``. Workers only compare their calls, by one chunk of MAX32.

    ``contribute=False``: this worker follows the others.
    """

    ops = ("max32",)
    values = 0

    def __init__(self, what: str, bucket: int, empty: Tensor, *, contribute: bool = True) -> None:
        self.what = what
        self.bucket = bucket
        self._empty = empty
        self._contribute = contribute

    def through_switch(self, transport: Transport, config: JobConfig, stats: JobStats) -> Tensor:
        options = ExchangeOptions(waits_for_workers=True, contribute=self._contribute)
        if config.blind:
            told_by_all(transport, config, np.zeros(0, np.uint32), self.tag, options)
        else:
            transport.exchange(MAX32.code, to_words(np.zeros(1, np.uint32)), self.tag, options)
        return self._empty

    def ordinary(self, fallback: Fallback) -> Tensor:
        return self._empty

    def like(self) -> Tensor:
        return self._empty

    def take(self, handed_out: HandedOut, *, begun: bool) -> Tensor:
        return self._empty


def overflows(results: Results) -> int:
    """How many chunks have a sum that left int32. Equal on all workers."""
    return int(np.count_nonzero(results.flags & p4.FLAG_OVERFLOW))


@dataclass(frozen=True)
class Asked:
    """What a caller of a job wants: ``what``, for descriptions, of how many values. ``given``: see
    :meth:`sumwire.job.job.Job.reduce_with`."""

    ops: tuple[str, ...]
    what: str
    length: int
    bucket: int
    given: str = ""
    contribute: bool = True
    by_group: bool = False

    def nothing(self, empty: Tensor) -> Operation:
        return Nothing(self.what, self.bucket % BUCKETS, empty, contribute=self.contribute)
