# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What every gradient codec offers to the layers above, and the registry of codecs."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import torch
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import Op
from torch import Tensor

from sumwire.codec.errors import CodecError, CountError, StageError
from sumwire.codec.kernels import kernels
from sumwire.codec.memory import Recycler
from sumwire.codec.values import result_dtype

# Values whose squares are held at a time.
_NORM_VALUES: Final = 1 << 17


@dataclass(frozen=True, slots=True)
class CodecInfo:
    """A codec's wire footprint. Words are 128 bytes, counted per chunk."""

    name: str
    op: int
    words_up: int
    words_down: int
    chunk_values: int
    # Op of a preliminary exchange whose outcome `encode` needs (`preliminary`, uint32 values), or None.
    preliminary_op: int | None = None

    @classmethod
    def of(cls, name: str, op: Op, preliminary: Op | None = None) -> CodecInfo:
        """Of a codec that fills whole packets of ``op``."""
        first = None if preliminary is None else preliminary.code
        return cls(name, op.code, op.up.words, op.down.words, op.values, preliminary_op=first)


class CodecRound(ABC):
    """One tensor in one round of aggregation, whole (`encode`, `decode`) or in parts (`encode_into`, `decode_into`).

    A part is a run of chunks whose borders are multiples of `grain`; the tensor's end is a border too. Every part is
    encoded once, then decoded once, in any order of parts; different parts may be worked on by different threads.
    The tensor must not change before the last part is encoded and, where `residual` is wanted, before that.
    """

    def __init__(self, codec: GradientCodec, x: Tensor, chunks: int, grain: int) -> None:
        self._info = codec.info
        self._memory = codec.memory
        self._x = x
        self.length = len(x)
        self.chunks = chunks
        self.grain = grain
        self._encoded = np.zeros(chunks, np.bool_)
        self._decoded = np.zeros(chunks, np.bool_)
        self._target: Tensor | None = None
        # What sums are divided by; None: by their own counts.
        self._workers_divided_by: int | None = None

    def magnitudes(self) -> NDArray[np.float32]:
        """The L2 norm of what each chunk carries of the tensor, shape (chunks,): what its loss would leave out.

        Infinite where float32 is too narrow. May be called before anything is encoded.
        """
        return _chunk_norms(self._x, self._info.chunk_values, self.chunks)

    def divide_by(self, workers: int) -> None:
        """Have every sum divided by `workers`, whoever contributed: a missing contribution then counts as zeros
        (in what travels, so for THC in the rotated values), where else it does not count.

        Raises CodecError unless positive, StageError after the first part is decoded. A count above it is a
        CountError in `decode`.
        """
        if workers < 1:
            raise CodecError(f"workers={workers}: sums are divided by 1 or more")
        if self._decoded.any():
            raise StageError("divide_by: comes before decode")
        self._workers_divided_by = workers

    def preliminary(self) -> NDArray[np.uint32]:
        """What goes into the preliminary exchange; empty where the codec has none."""
        return np.zeros(0, np.uint32)

    def encode_into(self, agreed: NDArray[np.uint32], first: int, last: int, out: NDArray[np.uint8]) -> None:
        """Write the payload words of chunks first..last-1 to `out`.

        out has shape (last - first, words_up, 128), with any stride between chunks, so that it may lie inside packet
        buffers. `agreed` is the preliminary exchange's outcome, of `preliminary`'s shape: the largest of all workers
        in every place. Only the places that belong to the part are read, where a place belongs to a part.

        Raises StageError for a part that is none or already encoded, CodecError for another shape or dtype, and what
        the codec has against the values.
        """
        self._check_part("encode", first, last)
        _check_words("payload", out, (last - first, self._info.words_up, p4.WORD_BYTES))
        if not (out.flags.writeable and _in_pieces(out)):
            raise CodecError(f"payload chunks: strides {out.strides}: need to be writeable, each chunk in one piece")
        if self._encoded[first:last].any():
            raise StageError(f"encode: chunks {first}..{last - 1} are already encoded")
        self._encode_part(agreed, first, last, out)
        self._encoded[first:last] = True

    def decode_into(self, first: int, last: int, words: NDArray[np.uint8], counts: NDArray[np.integer]) -> None:
        """Decode chunks first..last-1 to their place in `result`.

        words, shape (last - first, words_down, 128), are the switch's, and may lie inside packet buffers; counts,
        shape (last - first,), says how many workers are in each chunk; a chunk of none decodes to zeros.

        Raises StageError for a part that is none, not encoded or already decoded, CountError for counts of another
        shape or dtype or below 0, CodecError for other words, and what the codec has against the values.
        """
        self._check_part("decode", first, last)
        counts = _checked_counts(counts, last - first)
        _check_words("result", words, (last - first, self._info.words_down, p4.WORD_BYTES))
        if not self._encoded[first:last].all():
            raise StageError(f"decode: comes after encode, which chunks {first}..{last - 1} have not been through")
        if self._decoded[first:last].any():
            raise StageError(f"decode: chunks {first}..{last - 1} are already decoded")
        if self._target is None:
            self._target = self._new_result()
        pieces = words if _in_pieces(words) else np.ascontiguousarray(words)
        self._decode_part(first, last, pieces, counts, self._target)
        self._decoded[first:last] = True

    @property
    def result(self) -> Tensor:
        """What the contributors' tensors are aggregated to (their mean, or what the codec makes of it): shape
        (length,), float32 unless the codec keeps float64. Raises StageError before all parts are decoded.

        Equal input gives equal bits on every worker, however it is cut into parts.
        """
        if not self._decoded.all():
            raise StageError(f"result: {np.count_nonzero(~self._decoded)} of {self.chunks} chunks are not decoded yet")
        if self._target is None:
            self._target = self._new_result()
        return self._target

    def encode(self, agreed: NDArray[np.uint32]) -> NDArray[np.uint8]:
        """All payload words, shape (chunks, words_up, 128). Raises what `encode_into` does."""
        words = np.empty((self.chunks, self._info.words_up, p4.WORD_BYTES), np.uint8)
        if self.chunks:
            self.encode_into(agreed, 0, self.chunks, words)
        return words

    def decode(self, words: NDArray[np.uint8], counts: NDArray[np.integer]) -> Tensor:
        """The result of all words and counts at once; a new tensor each time. Raises what `decode_into` does."""
        self._target = None
        self._decoded[:] = False
        if self.chunks:
            self.decode_into(0, self.chunks, words, counts)
        return self.result

    @abstractmethod
    def residual(self, included: NDArray[np.bool_] | None = None) -> Tensor:
        """What this worker's payload left out of its tensor: shape (length,), of `result`'s dtype, a new tensor.

        Where `included`, shape (chunks,), is False, the chunk did not get into the sum and is left out whole.
        Raises StageError before all parts are encoded, CodecError for a mask of another shape or dtype.
        """

    def _divisors(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """What the sums of so many contributors are divided by to give their result; 0 where there are none."""
        if self._workers_divided_by is None:
            return counts
        if bool((counts > self._workers_divided_by).any()):
            raise CountError(f"count {counts.max()}: must be at most {self._workers_divided_by}, the job's workers")
        return np.where(counts > 0, self._workers_divided_by, 0)

    @abstractmethod
    def _encode_part(self, agreed: NDArray[np.uint32], first: int, last: int, out: NDArray[np.uint8]) -> None:
        """`encode_into` for a part that is one."""

    @abstractmethod
    def _decode_part(
        self, first: int, last: int, words: NDArray[np.uint8], counts: NDArray[np.int64], target: Tensor
    ) -> None:
        """`decode_into` for a part that is one, to its place in `target`, which is the whole result."""

    def _new_result(self) -> Tensor:
        """Room for the result, or for a residual."""
        dtype = result_dtype(self._x)
        if self._x.device.type == "cpu":
            return self._memory.empty(self.length, dtype)
        return torch.empty(self.length, dtype=dtype, device=self._x.device)

    def _check_residual(self, included: NDArray[np.bool_] | None) -> None:
        if not self._encoded.all():
            raise StageError("residual: comes after encode")
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
    return norms


def _in_pieces(words: NDArray[np.uint8]) -> bool:
    """Whether the words of every chunk lie side by side."""
    return words.strides[1:] == (p4.WORD_BYTES, 1)


def _checked_counts(counts: NDArray[np.integer], chunks: int) -> NDArray[np.int64]:
    counts = np.asarray(counts)
    if counts.shape != (chunks,) or counts.dtype.kind not in "iu":
        raise CountError(f"{counts.dtype} counts of shape {counts.shape}: needs integers ({chunks},)")
    signed = counts.astype(np.int64)
    if bool((signed < 0).any()):
        raise CountError(f"count {signed.min()}: must not be negative")
    return signed


class GradientCodec(ABC):
    """Makes rounds. Keeps nothing of them but memory to use again, and so is free to be used by several threads."""

    info: ClassVar[CodecInfo]

    def __init__(self) -> None:
        self.memory = Recycler()
        # Compiled or found now, not when others wait for this worker's first round.
        kernels(torch.zeros(0))

    def chunks(self, length: int) -> int:
        """Packets of a tensor of `length` values."""
        return -(-length // self.info.chunk_values)

    @abstractmethod
    def begin(self, x: Tensor, sequence: int, bucket: int) -> CodecRound:
        """Start a round with a flat tensor; `sequence` counts the uses of `bucket`, alike on all workers.

        Raises NonFiniteError for NaN or Inf, CodecError for another shape or dtype.
        """

    def ordinary(self, x: Tensor, mean: Callable[[Tensor], Tensor]) -> Tensor:
        """The same aggregate by an ordinary all-reduce: `mean` gives that of float32 CPU tensors over all workers.

        As good as the codec's own or better: nothing is left out of it.
        """
        return mean(x)


class CodecRegistry:
    """Codec classes by name. Refuses at registration what would only fail on the wire."""

    def __init__(self) -> None:
        self._codecs: dict[str, type[GradientCodec]] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._codecs)

    def __getitem__(self, name: str) -> type[GradientCodec]:
        if name not in self._codecs:
            raise CodecError(f"codec {name!r}: known are {sorted(self._codecs)}")
        return self._codecs[name]

    def register(self, codec: type[GradientCodec]) -> None:
        """Add a class under its info's name. Raises CodecError if it is abstract, known, or does not fit a slot."""
        info = getattr(codec, "info", None)
        if not isinstance(info, CodecInfo):
            raise CodecError(f"{codec.__name__}: has no CodecInfo as `info`")
        if inspect.isabstract(codec):
            raise CodecError(f"{codec.__name__}: lacks {sorted(codec.__abstractmethods__)}")
        if info.name in self._codecs:
            raise CodecError(f"codec {info.name!r}: is already {self._codecs[info.name].__name__}")
        for field, words in (("words_up", info.words_up), ("words_down", info.words_down)):
            if not 1 <= words <= p4.SLOT_WORDS:
                raise CodecError(f"codec {info.name!r}: {field}={words} must be 1..{p4.SLOT_WORDS}, a slot's words")
        if info.chunk_values < 1:
            raise CodecError(f"codec {info.name!r}: chunk_values={info.chunk_values} must be positive")
        self._codecs[info.name] = codec


def default_registry() -> CodecRegistry:
    """A registry of the codecs that come with Sumwire."""
    from sumwire.codec.sign import EfSignCodec, SignCodec, SsdmCodec, VoteCodec
    from sumwire.codec.sum32 import Sum32Codec
    from sumwire.codec.thc import ThcCodec

    registry = CodecRegistry()
    for codec in (ThcCodec, Sum32Codec, SignCodec, VoteCodec, EfSignCodec, SsdmCodec):
        registry.register(codec)
    return registry
