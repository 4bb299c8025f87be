# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a job can be asked to do with all its workers, each in two ways: through the switch, or without it.

An operation belongs to one call. :class:`sumwire.job.Job` gives it the lock, the order and the way out.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Final, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import SIGN, VOTE, Op
from torch import Tensor

from sumwire.codec.base import CodecRound, GradientCodec
from sumwire.codec.errors import CodecError
from sumwire.codec.errors import NonFiniteError as CodecNonFiniteError
from sumwire.codec.errors import NormRangeError as CodecNormRangeError
from sumwire.codec.seeds import fold, stream_words
from sumwire.codec.sign import pack_signs, unpack_signs
from sumwire.codec.sum32 import pack_lanes, unpack_lanes
from sumwire.config import JobConfig
from sumwire.errors import ConfigError, NonFiniteError, RecreateError, UsageError
from sumwire.job.fallback import Fallback
from sumwire.job.greeting import LANES
from sumwire.job.parts import Step, carry, part_chunks
from sumwire.transport.buffers import Results, protected
from sumwire.transport.exchange import Exchange
from sumwire.transport.options import ExchangeOptions
from sumwire.transport.stats import JobStats
from sumwire.transport.udp import Transport
from sumwire.wire.header import WORD_BYTES

_LANE: Final = np.dtype(">u4")
# Key of the draws that take the switch's place: fold(DRAW_TAG, job, sequence, bucket), the same on all workers.
DRAW_TAG: Final = 0x44524157  # "DRAW"
_INT32: Final = np.iinfo(np.int32)
# Ops of which a loss bound holds: sums that are divided by their contributors, of which error feedback keeps the rest.
_BOUNDED_OPS: Final = frozenset({p4.OP_THC})

# Maps magnitudes of chunks, float32 (chunks,), to TOS bytes, uint8 (chunks,).
Tagging = Callable[[NDArray[np.float32]], NDArray[np.uint8]]


class Operation(ABC):
    """One collective call. ``values`` for the statistics; ``bucket`` travels with the packets."""

    ops: ClassVar[tuple[str, ...]]
    values: int
    bucket: int

    @abstractmethod
    def through_switch(self, transport: Transport, config: JobConfig, stats: JobStats) -> Tensor:
        """The result, with equal bits on all workers."""

    @abstractmethod
    def ordinary(self, fallback: Fallback) -> Tensor:
        """The same by the process group's collectives."""

    @abstractmethod
    def like(self) -> Tensor:
        """A CPU tensor of the result's shape and dtype, for a result that another worker hands out."""

    def take(self, result: Tensor) -> Tensor:
        """The result, handed out by another worker: the sum was made with this worker in it."""
        return result


def require(config: JobConfig, ops: tuple[str, ...], what: str) -> None:
    """Raises ConfigError unless the job has all the ops."""
    for op in ops:
        if op not in config.ops:
            raise ConfigError("ops", config.ops, f"must have {op} {what}", where=f"job {config.name}")


def to_words(values: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """uint32 values as MAX32 words, shape (chunks, 1, 128), the last filled up with 0."""
    chunks = -(-len(values) // LANES)
    lanes = np.zeros(chunks * LANES, _LANE)
    lanes[: len(values)] = values
    return lanes.view(np.uint8).reshape(chunks, 1, WORD_BYTES)


def from_words(words: NDArray[np.uint8], count: int) -> NDArray[np.uint32]:
    """The inverse of `to_words`."""
    return words.reshape(-1).view(_LANE)[:count].astype(np.uint32)


class Max32(Operation):
    """Largest of the workers' uint32 values, in every place. The result is int64, which holds them all."""

    ops = ("max32",)

    def __init__(self, values: NDArray[np.uint32], bucket: int) -> None:
        if values.dtype != np.uint32 or values.ndim != 1:
            raise UsageError(f"{values.dtype} values of shape {values.shape}: need uint32 (length,)")
        self._values = values
        self.values = len(values)
        self.bucket = bucket

    def through_switch(self, transport: Transport, config: JobConfig, stats: JobStats) -> Tensor:
        results = transport.exchange(p4.OP_MAX32, to_words(self._values), self.bucket)
        return torch.from_numpy(from_words(results.words, self.values).astype(np.int64))

    def ordinary(self, fallback: Fallback) -> Tensor:
        return fallback.largest(torch.from_numpy(self._values.astype(np.int64)))

    def like(self) -> Tensor:
        return torch.zeros(self.values, dtype=torch.int64)


class Sum32(Operation):
    """Exact sum of the workers' int32 values, int32, and one value more: how many chunks have an overflow."""

    ops = ("sum32",)

    def __init__(self, lanes: NDArray[np.int32], bucket: int) -> None:
        if lanes.dtype != np.int32 or lanes.ndim != 1:
            raise UsageError(f"{lanes.dtype} lanes of shape {lanes.shape}: need int32 (length,)")
        self._lanes = lanes
        self.values = len(lanes)
        self.bucket = bucket

    def through_switch(self, transport: Transport, config: JobConfig, stats: JobStats) -> Tensor:
        results = transport.exchange(p4.OP_SUM32, pack_lanes(self._lanes), self.bucket)
        sums = torch.from_numpy(unpack_lanes(results.words, self.values))
        return torch.cat([sums, torch.tensor([overflows(results)], dtype=torch.int32)])

    def ordinary(self, fallback: Fallback) -> Tensor:
        total = fallback.total(torch.from_numpy(self._lanes.astype(np.int64)))
        outside = (total < int(_INT32.min)) | (total > int(_INT32.max))
        return torch.cat([total, outside.sum()[None]]).to(torch.int32)

    def like(self) -> Tensor:
        return torch.zeros(self.values + 1, dtype=torch.int32)


class _Signs(Operation):
    """One bit a value, up and down. The result is uint8, 1 for plus."""

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
        with transport.open(self._op.code, -(-self.values // per_chunk), self.bucket) as exchange:

            def encode(first: int, last: int) -> None:
                exchange.payload[first:last] = pack_signs(plus[first * per_chunk : last * per_chunk], words)

            def decode(first: int, last: int) -> None:
                part = result[first * per_chunk : last * per_chunk]
                part[:] = unpack_signs(exchange.results.words[first:last], len(part))

            carry(exchange, encode, decode, step=part_chunks(per_chunk, 1), stats=stats)
        return torch.from_numpy(result.view(np.uint8))

    def like(self) -> Tensor:
        return torch.zeros(self.values, dtype=torch.uint8)


class SignMerge(_Signs):
    """In every place the sign of one of the workers, each with the same probability: Marsit's merge."""

    ops = ("sign",)
    _op = SIGN

    def __init__(self, plus: Tensor, bucket: int, *, job: int, sequence: int) -> None:
        super().__init__(plus, bucket)
        self._key = fold(DRAW_TAG, job, sequence, bucket)

    def ordinary(self, fallback: Fallback) -> Tensor:
        """All workers learn all signs and make the same draws."""
        everyone = torch.stack(fallback.gather(torch.from_numpy(np.packbits(self._plus.numpy()))))
        signs = torch.from_numpy(np.unpackbits(everyone.numpy(), axis=1, count=self.values))
        # 32 random bits: the bias of the remainder is below workers x 2**-32.
        draws = stream_words(self._key, 0, self.values, torch.device("cpu")).bitwise_and_(0xFFFFFFFF)
        return signs.gather(0, (draws % len(signs))[None])[0]


class Vote(_Signs):
    """The majority of the workers' signs; a tie is plus."""

    ops = ("vote",)
    _op = VOTE

    def ordinary(self, fallback: Fallback) -> Tensor:
        return fallback.total(self._plus.to(torch.int32).mul_(2).sub_(1)).ge(0).to(torch.uint8)


class CodecOperation(Operation):
    """A tensor through a codec.

    Raises NonFiniteError, before anything is sent, for values that the codec refuses.
    """

    def __init__(self, codec: GradientCodec, x: Tensor, *, sequence: int, bucket: int, stats: JobStats) -> None:
        began = time.monotonic()
        try:
            self._round: CodecRound = codec.begin(x, sequence, bucket)
        except (CodecNonFiniteError, CodecNormRangeError) as error:
            raise NonFiniteError(str(error)) from error
        stats.encode_s += time.monotonic() - began
        self._codec = codec
        self._x = x
        self.values = x.numel()
        self.bucket = bucket
        # Chunks whose sum has this worker in it; None: all. All too, where another worker handed out the result.
        self._included: NDArray[np.bool_] | None = None
        self._left_nothing = False
        self._tag: Tagging | None = None
        self._contribute = True

    def with_options(self, tag: Tagging | None, divide_by: int | None, *, contribute: bool = True) -> Self:
        """``tag``: the packets' TOS by their magnitudes; ``divide_by``: workers that every sum is divided by;
        ``contribute=False``: nothing is sent, the tensor only tells the length."""
        self._tag = tag
        self._contribute = contribute
        if divide_by is not None:
            self._round.divide_by(divide_by)
        return self

    def residual(self) -> Tensor:
        """What this worker's share of the result left out, shape (length,). Comes after the result."""
        if self._left_nothing:
            return torch.zeros_like(self._x, dtype=self.like().dtype)
        return self._round.residual(self._included)

    def through_switch(self, transport: Transport, config: JobConfig, stats: JobStats) -> Tensor:
        """The preliminary exchange, then payload up and results down, part by part."""
        round_, info = self._round, self._codec.info
        own = round_.preliminary()
        tos = None if self._tag is None else _checked_tos(self._tag(round_.magnitudes()), round_.chunks)
        if info.preliminary_op is None:
            agreed = own
        else:
            words = to_words(own)
            # The norms of the whole tensor: as urgent as the most urgent of it, and never to be dropped.
            first_tos = None if tos is None else np.full(len(words), protected(tos).max(), np.uint8)
            first = ExchangeOptions(waits_for_workers=True, tos=first_tos, contribute=self._contribute)
            agreed = from_words(transport.exchange(info.preliminary_op, words, self.bucket, first).words, len(own))
        options = ExchangeOptions(bounded=info.op in _BOUNDED_OPS, tos=tos, contribute=self._contribute)
        with transport.open(info.op, round_.chunks, self.bucket, options) as exchange:
            step = part_chunks(info.chunk_values, round_.grain)
            encode, decode = self._steps(exchange, agreed, config)
            carry(exchange, encode, decode, step=step, stats=stats)
            self._included = _included(exchange.results, config)
        return round_.result

    def _steps(self, exchange: Exchange, agreed: NDArray[np.uint32], config: JobConfig) -> tuple[Step, Step]:
        """What encodes and decodes a part."""
        round_, name = self._round, self._codec.info.name

        def encode(first: int, last: int) -> None:
            try:
                round_.encode_into(agreed, first, last, exchange.payload[first:last])
            except CodecError as error:
                raise RecreateError(f"job {config.job}: agreed on what no worker can mean: {error}") from error

        def decode(first: int, last: int) -> None:
            results = exchange.results
            if np.any(results.flags[first:last] & p4.FLAG_OVERFLOW):
                raise RecreateError(f"job {config.job}: a sum left int32, which {name} rules out")
            try:
                round_.decode_into(first, last, results.words[first:last], results.counts[first:last])
            except CodecError as error:
                raise RecreateError(f"job {config.job}: result that no sum can be: {error}") from error

        return encode, decode

    def ordinary(self, fallback: Fallback) -> Tensor:
        self._left_nothing = True
        return self._codec.ordinary(self._x.detach().to("cpu", torch.float32), fallback.mean).to(self._x.device)

    def like(self) -> Tensor:
        return self._x.detach().to("cpu", torch.float64 if self._x.dtype == torch.float64 else torch.float32)

    def take(self, result: Tensor) -> Tensor:
        return result.to(self._x.device)


def _checked_tos(tos: NDArray[np.uint8], chunks: int) -> NDArray[np.uint8]:
    if tos.dtype != np.uint8 or tos.shape != (chunks,):
        raise UsageError(f"tags: {tos.dtype} of shape {tos.shape}: need TOS bytes, uint8 ({chunks},)")
    return tos


def _included(results: Results, config: JobConfig) -> NDArray[np.bool_] | None:
    """Chunks with this worker in the sum, or None for all."""
    included = (results.contributors >> np.uint32(config.seat) & np.uint32(1)).astype(np.bool_)
    return None if included.all() else included


def overflows(results: Results) -> int:
    """How many chunks have a sum that left int32. All workers are told the same."""
    return int(np.count_nonzero(results.flags & p4.FLAG_OVERFLOW))
