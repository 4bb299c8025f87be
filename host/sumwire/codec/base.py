# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What every gradient codec offers to the layers above."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import ClassVar, Final, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import Op
from torch import Tensor

from sumwire.codec.errors import CodecError, CountError, StageError
from sumwire.codec.kernels import kernels
from sumwire.codec.scales import Scales
from sumwire.codec.tensors import Recycler, expect_residual, residual_expected, result_dtype, runs

# Values whose squares are held at a time.
_NORM_VALUES: Final = 1 << 17


@dataclass(frozen=True, slots=True)
class CodecInfo:
    """A codec's wire footprint. Words are 128 bytes, counted per chunk.

    Raises CodecError for words that a slot cannot hold, or chunks without values.
    """

    name: str
    op: int
    words_up: int
    words_down: int
    chunk_values: int
    # Op of a preliminary exchange whose outcome `encode` needs (`preliminary`, uint32 values), or None.
    preliminary_op: int | None = None

    def __post_init__(self) -> None:
        for field, words in (("words_up", self.words_up), ("words_down", self.words_down)):
            if not 1 <= words <= p4.SLOT_WORDS:
                raise CodecError(f"codec {self.name!r}: {field}={words} must be 1..{p4.SLOT_WORDS}, a slot's words")
        if self.chunk_values < 1:
            raise CodecError(f"codec {self.name!r}: chunk_values={self.chunk_values} must be positive")

    @classmethod
    def of(cls, name: str, op: Op, preliminary: Op | None = None) -> CodecInfo:
        """Return the info of a codec that fills whole packets of ``op``."""
        first = None if preliminary is None else preliminary.code
        return cls(name, op.code, op.up.words, op.down.words, op.values, preliminary_op=first)


class CodecRound(ABC):
    """One tensor in one round of aggregation, whole (`encode`, `decode`) or in parts (`encode_into`, `decode_into`).

    A part is a range of chunks whose ends are multiples of `grain`, or the tensor's end. Every part is encoded once,
    then decoded once, in any order of parts. Different threads may work on different parts. The tensor must not change
    before the last part is encoded, or before `residual` is called, if it is called.
    """

    def __init__(self, codec: GradientCodec, x: Tensor, chunks: int, grain: int) -> None:
        self._info = codec.info
        self._words_up = codec.info.words_up
        self._memory = codec.memory
        self._x = x
        # Of a tensor on a GPU, where the result goes too (sumwire.codec.base).
        self._pinned = x.is_pinned()
        self.length = len(x)
        self.chunks = chunks
        self.grain = grain
        # By chunk, 1 if it is. Bytes: looking for one takes numpy longer.
        self._encoded = bytearray(chunks)
        self._decoded = bytearray(chunks)
        self._target: Tensor | None = None
        # Whether the result is written over x.
        self._overwrites = False
        # Chunks in which some worker has NaN or infinity. Their result is NaN.
        self._spoiled_bytes = bytearray(chunks)
        self._spoiled = np.frombuffer(self._spoiled_bytes, np.bool_)
        # What sums are divided by; None: by their own counts.
        self._workers_divided_by: int | None = None
        # What the mean is multiplied by.
        self._times = 1

    @property
    def outside(self) -> NDArray[np.bool_] | None:
        """Return which chunks this worker sends with the flag OVERFLOW, bool (chunks,); None if there are none.

        A codec without a preliminary exchange flags chunks with NaN or infinity. A chunk's flag is known once it is
        encoded.
        """
        return None

    def magnitudes(self) -> NDArray[np.float32]:
        """Return the L2 norm of each chunk's share of the tensor, shape (chunks,). It measures what losing the chunk
        would cost.

        It is infinite where float32 is too narrow, or where a value is not finite. May be called before anything is
        encoded.
        """
        return _chunk_norms(self._x, self._info.chunk_values, self.chunks)

    def divide_by(self, workers: int) -> None:
        """Divide every sum by `workers` instead of its number of contributors.

        A missing contribution then counts as zeros, for THC as zeros after the rotation.

        Raises CodecError unless positive, StageError after the first part is decoded. `decode` then raises CountError
        for a count above `workers`.
        """
        if workers < 1:
            raise CodecError(f"workers={workers}: sums are divided by 1 or more")
        if 1 in self._decoded:
            raise StageError("divide_by: comes before decode")
        self._workers_divided_by = workers

    def multiply_by(self, factor: int) -> None:
        """Multiply the result, which is a mean, by `factor`. With the number of workers as the factor the result is a
        sum.

        Raises CodecError unless positive, StageError after the first part is decoded.
        """
        if factor < 1:
            raise CodecError(f"factor={factor}: results are multiplied by 1 or more")
        if 1 in self._decoded:
            raise StageError("multiply_by: comes before decode")
        self._times = factor

    def write_to(self, target: Tensor) -> None:
        """Write the result to `target`, a flat tensor of the result's length, dtype and device.

        `target` may share the memory of the round's tensor, which then has no residual. Raises CodecError for another
        tensor.
        """
        x = self._x
        if (target.shape, target.dtype, target.device) != (x.shape, result_dtype(x), x.device):
            raise CodecError(f"{target.dtype} target of shape {tuple(target.shape)}: needs {result_dtype(x)} {x.shape}")
        self._target = target
        self._overwrites = target.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()

    def preliminary(self) -> NDArray[np.uint32]:
        """Return this worker's values for the preliminary exchange, uint32; empty if the codec has none."""
        return np.zeros(0, np.uint32)

    @property
    def encoded(self) -> bool:
        """Whether all parts are encoded."""
        return 0 not in self._encoded

    @property
    def decoded(self) -> bool:
        """Whether all parts are decoded."""
        return 0 not in self._decoded

    def encode_again(self) -> None:
        """Forget what was encoded, because its sums are not used. Raises StageError after decode."""
        if 1 in self._decoded:
            raise StageError("encode_again: comes before decode")
        self._encoded[:] = bytes(self.chunks)

    def use_lanes(self) -> bool:
        """Encode from now on what indices stand for, and decode sums of that, as lanes: a byte for each value, in
        order. Returns False, and changes nothing, if the codec cannot."""
        return False

    def encode_into(self, agreed: NDArray[np.uint32], first: int, last: int, out: NDArray[np.uint8]) -> None:
        """Write the payload words of chunks first..last-1 to `out`.

        out has shape (last - first, words_up, 128), or (last - first, words_down, 128) of lanes (`use_lanes`), with any
        stride between chunks, so that it may lie inside packet buffers. `agreed` is the result of the preliminary
        exchange, of `preliminary`'s shape: elementwise the largest value of all workers. If a codec has one value per
        block, only those of the part are read.

        Raises StageError for a run of chunks that is no part or is already encoded, CodecError for another shape or
        dtype, and the codec's own errors for values that it refuses.
        """
        self._check_part("encode", first, last)
        _check_words("payload", out, (last - first, self._words_up, p4.WORD_BYTES))
        if not (out.flags.writeable and _in_pieces(out)):
            raise CodecError(f"payload chunks: strides {out.strides}: need to be writeable, each chunk in one piece")
        if self._encoded.find(1, first, last) >= 0:
            raise StageError(f"encode: chunks {first}..{last - 1} are already encoded")
        self._encode_part(agreed, first, last, out)
        self._encoded[first:last] = bytes((1,)) * (last - first)

    def decode_into(
        self,
        first: int,
        last: int,
        words: NDArray[np.uint8],
        counts: NDArray[np.integer],
        overflows: NDArray[np.bool_] | None = None,
    ) -> None:
        """Decode chunks first..last-1 to their place in `result`.

        words, shape (last - first, words_down, 128), come from the switch, and may lie inside packet buffers. counts,
        shape (last - first,), are the numbers of contributors; a chunk without contributors decodes to zeros.
        overflows, bool (last - first,), are chunks whose result has the flag OVERFLOW; None for none. A chunk in which
        some worker has NaN or infinity decodes to NaN.

        Raises StageError for a run of chunks that is no part, not encoded or already decoded, CountError for counts of
        another shape or dtype or below 0, CodecError for other words, and the codec's own errors.
        """
        self._check_part("decode", first, last)
        counts = _checked_counts(counts, last - first)
        _check_words("result", words, (last - first, self._info.words_down, p4.WORD_BYTES))
        if self._encoded.find(0, first, last) >= 0:
            raise StageError(f"decode: comes after encode, which chunks {first}..{last - 1} have not been through")
        if self._decoded.find(1, first, last) >= 0:
            raise StageError(f"decode: chunks {first}..{last - 1} are already decoded")
        if self._target is None:
            self._target = self._new_result()
        if overflows is not None and overflows.any():
            self._take_overflows(first, last, overflows)
        pieces = words if _in_pieces(words) else np.ascontiguousarray(words)
        self._decode_part(first, last, pieces, counts, self._target)
        if self._times != 1:
            self._multiply(self._target[first * self._info.chunk_values : last * self._info.chunk_values])
        if self._spoiled_bytes.find(1, first, last) >= 0:
            self._spoil(self._target, first, self._spoiled[first:last])
        self._decoded[first:last] = bytes((1,)) * (last - first)

    @property
    def result(self) -> Tensor:
        """The aggregate of the contributors' tensors: their mean, or the codec's estimate of it. Shape (length,),
        float32 unless the codec keeps float64.

        It has equal bits on every worker, whatever the parts were. Raises StageError before all parts are decoded.
        """
        if not self.decoded:
            raise StageError(f"result: {self._decoded.count(0)} of {self.chunks} chunks are not decoded yet")
        if self._target is None:
            self._target = self._new_result()
        return self._target

    def encode(self, agreed: NDArray[np.uint32]) -> NDArray[np.uint8]:
        """Return all payload words, shape (chunks, words_up, 128). Raises the errors of `encode_into`."""
        shape = self.chunks, self._words_up, p4.WORD_BYTES
        words = self._memory.empty(math.prod(shape), torch.uint8).numpy().reshape(shape)
        if self.chunks:
            self.encode_into(agreed, 0, self.chunks, words)
        return words

    def decode(self, words: NDArray[np.uint8], counts: NDArray[np.integer]) -> Tensor:
        """Return the result of all words and counts, a new tensor. Raises the errors of `decode_into`."""
        self._target = None
        self._decoded[:] = bytes(self.chunks)
        if self.chunks:
            self.decode_into(0, self.chunks, words, counts)
        return self.result

    def without_tensor(self) -> Self:
        """Return a round that can only `decode`: it keeps nothing of the tensor's memory alive."""
        other = copy(self)
        other._x = self._x.new_empty(0)
        other._target = None
        other._decoded = bytearray(self._decoded)
        return other

    @abstractmethod
    def residual(self, included: NDArray[np.bool_] | None = None) -> Tensor:
        """Return what this worker's payload left out of its tensor: shape (length,), of `result`'s dtype, a new tensor.

        It is finite, but meaningless for chunks whose result is NaN; callers drop all residuals of such a step.
        `included`, bool of shape (chunks,), is False for chunks that did not get into the sum; all of their values are
        residual. Raises StageError before all parts are encoded, CodecError for a mask of another shape or dtype.
        """

    def _multiply(self, part: Tensor) -> None:
        """Multiply a part of the result by the factor, while it is in the processor's cache."""
        part.mul_(self._times)

    def _spoil(self, target: Tensor, first: int, spoiled: NDArray[np.bool_]) -> None:
        per_chunk = self._info.chunk_values
        for start, stop in runs(spoiled):
            target[(first + start) * per_chunk : (first + stop) * per_chunk] = torch.nan

    def _take_overflows(self, first: int, last: int, overflows: NDArray[np.bool_]) -> None:
        """Take note of results with the flag OVERFLOW. Raises CodecError if the codec's sums cannot overflow."""
        chunk = first + int(np.argmax(overflows))
        raise CodecError(f"sum of chunk {chunk} left its range, which {self._info.name} rules out")

    def _divisors(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what sums of these many contributors are divided by; 0 for a chunk without contributors."""
        if self._workers_divided_by is None:
            return counts
        if bool((counts > self._workers_divided_by).any()):
            raise CountError(f"count {counts.max()}: must be at most {self._workers_divided_by}, the job's workers")
        return np.where(counts > 0, self._workers_divided_by, 0)

    @abstractmethod
    def _encode_part(self, agreed: NDArray[np.uint32], first: int, last: int, out: NDArray[np.uint8]) -> None:
        """`encode_into` after its checks."""

    @abstractmethod
    def _decode_part(
        self, first: int, last: int, words: NDArray[np.uint8], counts: NDArray[np.int64], target: Tensor
    ) -> None:
        """`decode_into` after its checks, to the part's place in `target`, which is the whole result."""

    def _new_result(self) -> Tensor:
        """Return a tensor for the result or for a residual, not filled."""
        dtype = result_dtype(self._x)
        if self._pinned:
            return torch.empty(self.length, dtype=dtype, pin_memory=True, device="cpu")
        if self._x.is_cpu:
            return self._memory.empty(self.length, dtype)
        return torch.empty(self.length, dtype=dtype, device=self._x.device)

    def _check_residual(self, included: NDArray[np.bool_] | None) -> None:
        if not self.encoded:
            raise StageError("residual: comes after encode")
        if self._overwrites:
            raise StageError("residual: the tensor holds the result: write that to another one")
        if included is not None and (included.dtype != np.bool_ or included.shape != (self.chunks,)):
            raise CodecError(f"{included.dtype} mask of shape {included.shape}: needs bool ({self.chunks},)")

    def _check_part(self, step: str, first: int, last: int) -> None:
        inside = 0 <= first < last <= self.chunks
        if not inside or first % self.grain or (last % self.grain and last != self.chunks):
            raise StageError(
                f"{step}: chunks {first}..{last - 1} are no part: borders are multiples of {self.grain}, "
                f"and the end, {self.chunks}"
            )


def _check_words(what: str, words: NDArray[np.uint8], shape: tuple[int, int, int]) -> None:
    if words.dtype != np.uint8 or words.shape != shape:
        raise CodecError(f"{what} chunks: {words.dtype} words of shape {words.shape}: need uint8 {shape}")


def _chunk_norms(x: Tensor, chunk_values: int, chunks: int) -> NDArray[np.float32]:
    norms = np.zeros(chunks, np.float32)
    step = max(1, _NORM_VALUES // chunk_values)
    for first in range(0, chunks, step):
        last = min(first + step, chunks)
        values = np.zeros((last - first) * chunk_values)
        here = x[first * chunk_values : last * chunk_values]
        values[: len(here)] = here.to("cpu", torch.float64).numpy()
        with np.errstate(over="ignore"):
            norms[first:last] = np.sqrt(np.square(values).reshape(last - first, chunk_values).sum(axis=1))
    norms[np.isnan(norms)] = np.inf
    return norms


def _in_pieces(words: NDArray[np.uint8]) -> bool:
    """Return whether the words of every chunk are contiguous."""
    return words.strides[1:] == (p4.WORD_BYTES, 1)


def _checked_counts(counts: NDArray[np.integer], chunks: int) -> NDArray[np.int64]:
    counts = np.asarray(counts)
    if counts.shape != (chunks,) or counts.dtype.kind not in "iu":
        raise CountError(f"{counts.dtype} counts of shape {counts.shape}: needs integers ({chunks},)")
    signed = counts.astype(np.int64, copy=False)
    if signed.min(initial=0) < 0:
        raise CountError(f"count {signed.min()}: must not be negative")
    return signed


class GradientCodec(ABC):
    """Makes rounds. It keeps no state between rounds except memory for reuse, so several threads may use it.

    `scales`: how it carries scales from one tensor to the next; None if it does not. `staged`: whether its kernels are
    so much faster than torch that GPU tensors are copied to the CPU for them (:mod:`sumwire.codec.base`).
    """

    info: ClassVar[CodecInfo]
    staged: ClassVar[bool] = False
    scales: Scales | None = None

    def __init__(self) -> None:
        self.memory = Recycler()
        # Compiled or found now, not when others wait for this worker's first round.
        kernels(torch.zeros(0, dtype=torch.float32, device="cpu"))

    def chunks(self, length: int) -> int:
        """Return the number of packets of a tensor of `length` values."""
        return -(-length // self.info.chunk_values)

    @abstractmethod
    def begin(self, x: Tensor, sequence: int, bucket: int) -> CodecRound:
        """Start a round with a flat tensor; `sequence` counts the uses of `bucket`, equally on all workers.

        NaN and infinity become NaN on all workers. Raises CodecError for another shape or dtype.
        """

    def ordinary(self, x: Tensor, mean: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the aggregate by an ordinary all-reduce, for a job that has fallen back.

        `mean` gives the mean of float32 CPU tensors over all workers. It has NaN or infinity where some worker has.
        """
        return mean(x)

    def left_by_ordinary(self, x: Tensor) -> Tensor:
        """Return the part of this worker's flat tensor that `ordinary` leaves for its next one: a new tensor of the
        result's dtype."""
        return torch.zeros_like(x, dtype=result_dtype(x))

    def left_unsent(self, x: Tensor) -> Tensor:
        """Return what remains of a flat tensor that is in no sum: its finite values, a new tensor of the result's
        dtype."""
        return torch.nan_to_num(x.detach().to(result_dtype(x)), nan=0.0, posinf=0.0, neginf=0.0)


def staged(codec: GradientCodec, x: Tensor) -> Tensor:
    """Return the tensor to give to the codec: x itself, or for a GPU tensor its copy in pinned memory, if that is
    faster.

    The results have the same bits either way.
    """
    if not x.is_cuda or not codec.staged or x.layout != torch.strided:
        return x
    if kernels(torch.empty(0, dtype=x.dtype, device="cpu")) is None:
        return x
    # Pinned memory belongs to a context: that of this GPU, whichever is the thread's current one.
    with torch.cuda.device(x.device):
        host = torch.empty(x.shape, dtype=x.dtype, pin_memory=True, device="cpu")
    host.copy_(x.detach())
    return expect_residual(host) if residual_expected(x) else host
