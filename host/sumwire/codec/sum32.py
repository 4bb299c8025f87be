# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Full precision through integer sums: fixed point with an exponent that the workers agree on.

Blocks of 256 values, a SUM32 chunk each. Worker w's exponent of a block is the smallest e with |x| < 2**e for all its
values; the largest of all workers, E, comes back from a MAX32 exchange. q = round(x 2**(s - E)), to even, with
s the largest such that n 2**s <= 2**31 - 1: |q| <= 2**s, so a sum of n workers never leaves int32. The result is
(sum q) / k 2**(E - s) for k contributors, computed in float64, with the same bits on all workers.

Error bound: 2**(E - s - 1) a value, that is at most 2**-s times the block's largest magnitude on any worker
(s = 28 for 4 workers, 27 for 8, 26 for 16); and the rounding of the result to float32. With carried exponents
(:mod:`sumwire.codec.scales`) E may be up to 3 above the largest, and the bound up to 8 times as large. Wire: 32 bits a
value up and down, and 1/8 bit for the exponents.

A block in which a worker has NaN or infinity has NOT_FINITE for its exponent, and becomes NaN on all workers.

:class:`Fields` are small counts, several to an element of a SUM32 chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Final

import numpy as np
import torch
from nativelib.declarations import Native
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import MAX32, SUM32
from torch import Tensor

from sumwire.codec.base import CodecInfo, CodecRound, GradientCodec
from sumwire.codec.errors import CodecError
from sumwire.codec.kernels import float32, kernels, threads
from sumwire.codec.scales import ExponentScales
from sumwire.codec.tensors import NOT_FINITE, check_kind, not_finite, runs
from sumwire.numeric import is_whole


@dataclass(frozen=True, slots=True)
class NativeFixedPoint:
    """Fixed-point arithmetic in the native kernels. Values are float32 and contiguous.

    ``most``: the largest magnitude in units of fixed point. ``threads``: how many share the work. A unit is a power of
    two for each chunk, given as its exponent, int64 of shape (chunks, 1).
    """

    kernels: Native
    most: float
    threads: int

    def exponents(self, x: Tensor, chunks: int, bias: int) -> NDArray[np.uint32]:
        """Return the biased exponent of every chunk's largest magnitude."""
        found = np.empty(chunks, np.uint32)
        self.kernels.codec_sum32_exponents(x.data_ptr(), len(x), bias, found.ctypes.data)
        return found

    def encode(self, x: Tensor, unit: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
        """Write x, the values of a part, in fixed point to ``out``."""
        to_units = _factors(-unit)
        self.kernels.codec_sum32_encode(
            x.data_ptr(), len(x), to_units.ctypes.data, self.most, out.ctypes.data, out.strides[0], self.threads,
        )  # fmt: skip

    def decode(
        self, words: NDArray[np.uint8], divisors: NDArray[np.int64], unit: NDArray[np.int64], target: Tensor
    ) -> None:
        """Write sums divided by their divisors to ``target``, a part of the result."""
        from_units = _factors(unit)
        self.kernels.codec_sum32_decode(
            words.ctypes.data, words.strides[0], divisors.ctypes.data, from_units.ctypes.data,
            target.data_ptr(), len(target), self.threads,
        )  # fmt: skip

    def residual(self, x: Tensor, unit: NDArray[np.int64], included: NDArray[np.bool_] | None, target: Tensor) -> None:
        """Write what fixed point leaves out of x to ``target``. For a chunk that is not included that is all of x."""
        to_units, from_units = _factors(-unit), _factors(unit)
        mask = None if included is None else np.ascontiguousarray(included)
        self.kernels.codec_sum32_residual(
            x.data_ptr(), len(x), to_units.ctypes.data, from_units.ctypes.data, self.most,
            None if mask is None else mask.ctypes.data, target.data_ptr(), self.threads,
        )  # fmt: skip


def _factors(exponents: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return two factors for each power of two, shape (chunks, 2)."""
    half = exponents // 2
    factors: NDArray[np.float64] = np.ldexp(1.0, np.concatenate([half, exponents - half], axis=1))
    return factors


CHUNK_VALUES: Final = SUM32.values
WORKERS_MAX: Final = 255
SUM_MAX: Final = (1 << (p4.ELEMENT_BITS - 1)) - 1
# Exponents travel above 0, which stands for a block of zeros. Those of float64:
EXPONENT_BIAS: Final = 2048
EXPONENT_MIN: Final = -1073
EXPONENT_MAX: Final = 1024
_ELEMENT: Final = np.dtype(">i4")
# Chunks worked on at a time in float64, so that they stay in cache.
STEP_CHUNKS: Final = 64


@cache
def scale_bits(workers: int) -> int:
    """Return s, the largest integer with workers x 2**s <= 2**31 - 1."""
    return (SUM_MAX // workers).bit_length() - 1


def pack_elements(elements: NDArray[np.int32]) -> NDArray[np.uint8]:
    """Pack int32 values of shape (length,) into chunks of shape (chunks, 8, 128), padded with 0.

    Raises CodecError for another shape or dtype.
    """
    if elements.dtype != np.int32 or elements.ndim != 1:
        raise CodecError(f"{elements.dtype} elements of shape {elements.shape}: needs int32 (length,)")
    chunks = -(-len(elements) // CHUNK_VALUES)
    padded = np.zeros(chunks * CHUNK_VALUES, _ELEMENT)
    padded[: len(elements)] = elements
    return padded.view(np.uint8).reshape(chunks, SUM32.up.words, p4.WORD_BYTES)


def unpack_elements(words: NDArray[np.uint8], length: int) -> NDArray[np.int32]:
    """Return the first `length` values of chunks, the inverse of `pack_elements`."""
    return np.ascontiguousarray(words).reshape(-1).view(_ELEMENT)[:length].astype(np.int32)


class Sum32Codec(GradientCodec):
    """The mean of up to 255 workers in full precision. float64 tensors keep their dtype, but not all of their
    precision.

    Raises CodecError for another number of workers.

    ``clamp`` is for jobs where the exponents may be agreed on without this worker. Values beyond these exponents are
    then sent as the largest possible ones, and the rest goes to the residual. Without ``clamp`` such values are an
    error.
    """

    info: ClassVar[CodecInfo] = CodecInfo.of("sum32", SUM32, MAX32)
    staged: ClassVar[bool] = True

    def __init__(self, *, workers: int, clamp: bool = False) -> None:
        if not is_whole(workers, 1, WORKERS_MAX):
            rule = f"must be a whole number in 1..{WORKERS_MAX}, as many as packets count"
            raise CodecError(f"workers = {workers!r}: {rule}")
        super().__init__()
        self.workers = workers
        self.clamp = clamp
        self.scales = ExponentScales(EXPONENT_MAX + EXPONENT_BIAS)

    def begin(self, x: Tensor, sequence: int, bucket: int) -> _Sum32Round:
        return _Sum32Round(self, check_kind(x))


class _Sum32Round(CodecRound):
    def __init__(self, codec: Sum32Codec, x: Tensor) -> None:
        super().__init__(codec, x, codec.chunks(len(x)), 1)
        self._scale_bits = scale_bits(codec.workers)
        self._clamp = codec.clamp
        native = kernels(x)
        self._native: NativeFixedPoint | None = None
        if native is not None:
            self._x = float32(x)
            self._native = NativeFixedPoint(native, float(1 << self._scale_bits), threads())
        self._own = self._found_exponents()
        self._clear(self._own == NOT_FINITE)
        self._exponents = np.zeros((self.chunks, 1), np.int64)

    def preliminary(self) -> NDArray[np.uint32]:
        """The biased exponent of every block, shape (chunks,); 0 for a block of zeros, NOT_FINITE for one that is not
        finite."""
        return self._own

    def residual(self, included: NDArray[np.bool_] | None = None) -> Tensor:
        """What rounding to fixed point left out; all values of chunks where this worker is not included."""
        self._check_residual(included)
        left = self._new_result()
        if self._native is not None:
            self._native.residual(self._x, self._exponents - self._scale_bits, included, left)
            return left
        for first, last in self._steps():
            values = self._part(first, last)
            sent = _times_power(self._rounded(first, last), self._exponents[first:last] - self._scale_bits)
            if included is not None:
                sent[~included[first:last]] = 0.0
            self._put(left, first, values - sent)
        return left

    def _encode_part(self, agreed: NDArray[np.uint32], first: int, last: int, out: NDArray[np.uint8]) -> None:
        """Write fixed-point values, by the agreed exponents.

        Raises CodecError for exponents of another shape, or below this worker's own.
        """
        own = self._own
        here = agreed[first:last]
        below = bool((here < own[first:last]).any()) and not self._clamp
        if agreed.dtype != np.uint32 or agreed.shape != own.shape or below:
            raise CodecError(f"{agreed.dtype} exponents of shape {agreed.shape}: need uint32 {own.shape}, no smaller")
        spoiled = not_finite(here)
        here = np.where(spoiled, np.uint32(EXPONENT_MAX + EXPONENT_BIAS), here)
        if bool((here > EXPONENT_MAX + EXPONENT_BIAS).any()):
            raise CodecError(f"exponent {here.max()}: must be at most {EXPONENT_MAX + EXPONENT_BIAS}")
        self._spoiled[first:last] = spoiled
        self._exponents[first:last] = np.maximum(here.astype(np.int64) - EXPONENT_BIAS, EXPONENT_MIN)[:, None]
        if self._native is None:
            out[:] = pack_elements(self._rounded(first, last).astype(np.int32).reshape(-1))
        else:
            unit = self._exponents[first:last] - self._scale_bits
            self._native.encode(self._values(self._x, first, last), unit, out)

    def _decode_part(
        self, first: int, last: int, words: NDArray[np.uint8], counts: NDArray[np.int64], target: Tensor
    ) -> None:
        """Write the sums divided by their divisors; zeros for a chunk without contributors."""
        divisors = np.maximum(self._divisors(counts), 1)
        if self._native is not None:
            unit = self._exponents[first:last] - self._scale_bits
            self._native.decode(words, divisors, unit, self._values(target, first, last))
            return
        sums = unpack_elements(words, (last - first) * CHUNK_VALUES).reshape(-1, CHUNK_VALUES).astype(np.float64)
        sums /= divisors[:, None]
        self._put(target, first, _times_power(sums, self._exponents[first:last] - self._scale_bits))

    def _found_exponents(self) -> NDArray[np.uint32]:
        if self._native is not None:
            return self._native.exponents(self._x, self.chunks, EXPONENT_BIAS)
        parts = [_exponents(self._part(first, last)) for first, last in self._steps()]
        return np.concatenate(parts) if parts else np.zeros(0, np.uint32)

    def _values(self, of: Tensor, first: int, last: int) -> Tensor:
        """The values of chunks first..last-1."""
        return of[first * CHUNK_VALUES : last * CHUNK_VALUES]

    def _clear(self, spoiled: NDArray[np.bool_]) -> None:
        """Put zeros in the place of blocks that are not finite."""
        if spoiled.any():
            self._x = self._x.clone()
            for first, last in runs(spoiled):
                self._x[first * CHUNK_VALUES : last * CHUNK_VALUES] = 0.0

    def _steps(self) -> Iterator[tuple[int, int]]:
        """Runs of chunks that stay in cache."""
        return ((first, min(first + STEP_CHUNKS, self.chunks)) for first in range(0, self.chunks, STEP_CHUNKS))

    def _part(self, first: int, last: int) -> NDArray[np.float64]:
        """x in chunks first..last-1, filled up with 0: shape (last - first, 256)."""
        values = np.zeros((last - first, CHUNK_VALUES))
        here = self._values(self._x, first, last)
        values.reshape(-1)[: len(here)] = here.to("cpu", torch.float64).numpy()
        return values

    def _rounded(self, first: int, last: int) -> NDArray[np.float64]:
        """x in units of fixed point, rounded to whole numbers."""
        with np.errstate(over="ignore"):
            fractions = _times_power(self._part(first, last), self._scale_bits - self._exponents[first:last])
        if self._clamp:
            most = float(1 << self._scale_bits)
            np.clip(fractions, -most, most, out=fractions)
        np.rint(fractions, out=fractions)
        # Zeros without sign, as integers have none.
        fractions += 0.0
        return fractions

    def _put(self, target: Tensor, first: int, values: NDArray[np.float64]) -> None:
        here = target[first * CHUNK_VALUES : (first + len(values)) * CHUNK_VALUES]
        here.copy_(torch.from_numpy(values.reshape(-1)[: len(here)]))


def _times_power(values: NDArray[np.float64], exponents: NDArray[np.int64]) -> NDArray[np.float64]:
    """Multiply values by 2**exponents, in place: by two factors within float64's range, of which the first is exact."""
    half = exponents // 2
    values *= np.ldexp(1.0, half)
    values *= np.ldexp(1.0, exponents - half)
    return values


def _exponents(values: NDArray[np.float64]) -> NDArray[np.uint32]:
    """Return the biased exponent of the largest magnitude in every row, NOT_FINITE for a row with NaN or infinity."""
    largest = np.abs(values).max(axis=1, initial=0.0)
    exponents = np.where(largest > 0, np.frexp(largest)[1] + EXPONENT_BIAS, 0)
    return np.where(np.isfinite(largest), exponents, NOT_FINITE).astype(np.uint32)


_ELEMENTS: Final = SUM32.values


@dataclass(frozen=True, slots=True)
class Fields:
    """Small counts, several to an element of a SUM32 chunk, so that integer sums add them all without a carry.

    Value i of a chunk is field i // 256 of element i % 256; field 0 has the lowest bits. The highest bit of an element
    stays 0. Example: fields of 6 bits are 5 to an element, 1280 values to a chunk. Three workers that send 2, 2 and 1
    in field 1 add up to 5 << 6.

    ``bits``: the width of a field.
    """

    bits: int

    @property
    def number(self) -> int:
        """Number of fields in an element."""
        return (p4.ELEMENT_BITS - 1) // self.bits

    @property
    def most(self) -> int:
        """The largest sum of a field."""
        return (1 << self.bits) - 1

    @property
    def chunk_values(self) -> int:
        """Values of a chunk."""
        return self.number * _ELEMENTS

    def info(self, name: str, preliminary_op: int | None = None) -> CodecInfo:
        """Return the info of the codec whose payload consists of these fields."""
        return CodecInfo(name, SUM32.code, SUM32.up.words, SUM32.down.words, self.chunk_values, preliminary_op)

    def pack(self, values: NDArray[np.int32]) -> NDArray[np.uint8]:
        """Return values of whole chunks, flat, as words of shape (chunks, 8, 128)."""
        shaped = values.reshape(-1, self.number, _ELEMENTS)
        return pack_elements((shaped << self._shifts()).sum(axis=1, dtype=np.int32).reshape(-1))

    def check_counts(self, counts: NDArray[np.int64], each: int) -> None:
        """Raise CodecError if a chunk has more contributors, each sending at most ``each``, than a field has room
        for."""
        if counts.max(initial=0) * each > self.most:
            raise CodecError(f"count {counts.max()}: a field holds at most {self.most // each} contributions")

    def unpack(self, words: NDArray[np.uint8]) -> NDArray[np.int32]:
        """Return the sums of chunks, shape (chunks, values)."""
        elements = unpack_elements(words, len(words) * _ELEMENTS).reshape(-1, 1, _ELEMENTS)
        return ((elements >> self._shifts()) & self.most).reshape(len(words), -1)

    def _shifts(self) -> NDArray[np.int32]:
        return (self.bits * np.arange(self.number, dtype=np.int32))[:, None]
