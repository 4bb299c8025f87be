# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Full precision through integer lanes: fixed point with an exponent that the workers agree on.

Blocks of 256 values, a SUM32 chunk each. Worker w's exponent of a block is the smallest e with |x| < 2**e for all its
values; the largest of all workers, E, comes back from a MAX32 exchange. q = round(x 2**(s - E)), to even, with
s the largest such that n 2**s <= 2**31 - 1: |q| <= 2**s, so a sum of n workers never leaves int32. The result is
(sum q) / k 2**(E - s) for k contributors, computed in float64, with the same bits on all workers.

Error bound: 2**(E - s - 1) a value, that is at most 2**-s times the block's largest magnitude on any worker
(s = 28 for 4 workers, 27 for 8, 26 for 16); and the rounding of the result to float32. Wire: 32 bits a value up and
down, and 1/8 bit for the exponents.
"""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sumwire import _p4 as p4
from sumwire.codec.base import CodecInfo, CodecRound, GradientCodec
from sumwire.codec.errors import CodecError
from sumwire.codec.values import check_values, result_dtype

LANES: Final = p4.WORD_BITS // p4.LANE_BITS
CHUNK_VALUES: Final = p4.SUM32_WORDS * LANES
SUM_MAX: Final = (1 << (p4.LANE_BITS - 1)) - 1
# Exponents travel above 0, which stands for a block of zeros. float64's are -1073..1024.
EXPONENT_BIAS: Final = 2048
_LANE: Final = np.dtype(">i4")


def scale_bits(workers: int) -> int:
    """s: the largest with workers x 2**s <= 2**31 - 1."""
    return (SUM_MAX // workers).bit_length() - 1


def pack_lanes(lanes: NDArray[np.int32]) -> NDArray[np.uint8]:
    """int32 values of shape (length,) to chunks of shape (chunks, 8, 128), filled up with 0."""
    if lanes.dtype != np.int32 or lanes.ndim != 1:
        raise CodecError(f"{lanes.dtype} lanes of shape {lanes.shape}: needs int32 (length,)")
    chunks = -(-len(lanes) // CHUNK_VALUES)
    padded = np.zeros(chunks * CHUNK_VALUES, _LANE)
    padded[: len(lanes)] = lanes
    return padded.view(np.uint8).reshape(chunks, p4.SUM32_WORDS, p4.WORD_BYTES)


def unpack_lanes(words: NDArray[np.uint8], length: int) -> NDArray[np.int32]:
    """The inverse of `pack_lanes`: the first `length` values."""
    return np.ascontiguousarray(words).reshape(-1).view(_LANE)[:length].astype(np.int32)


class Sum32Codec(GradientCodec):
    """The mean of up to 255 workers in full precision. float64 tensors keep their dtype, not all of their precision."""

    info: ClassVar[CodecInfo] = CodecInfo(
        "sum32", p4.OP_SUM32, p4.SUM32_WORDS, p4.SUM32_WORDS, CHUNK_VALUES, p4.OP_MAX32
    )

    def __init__(self, *, workers: int) -> None:
        self.workers = workers

    def begin(self, x: Tensor, sequence: int, bucket: int) -> _Sum32Round:
        return _Sum32Round(check_values(x, f"bucket {bucket} of round {sequence}"), self.workers)


class _Sum32Round(CodecRound):
    def __init__(self, x: Tensor, workers: int) -> None:
        self._dtype = result_dtype(x)
        self._device = x.device
        self._length = len(x)
        self._scale_bits = scale_bits(workers)
        chunks = -(-len(x) // CHUNK_VALUES)
        values = np.zeros((chunks, CHUNK_VALUES))
        values.reshape(-1)[: len(x)] = x.to("cpu", torch.float64).numpy()
        self._values = values
        self._exponents = np.zeros((chunks, 1), np.int64)
        self._lanes: NDArray[np.int32] | None = None

    def preliminary(self) -> NDArray[np.uint32]:
        """Exponents by block, biased; 0 for a block of zeros."""
        largest = np.abs(self._values).max(axis=1, initial=0.0)
        exponents = np.frexp(largest)[1]
        return np.where(largest > 0, exponents + EXPONENT_BIAS, 0).astype(np.uint32)

    def encode(self, agreed: NDArray[np.uint32]) -> NDArray[np.uint8]:
        """Lanes, for the agreed exponents. Raises CodecError for another shape, or one below this worker's own."""
        own = self.preliminary()
        if agreed.dtype != np.uint32 or agreed.shape != own.shape or bool((agreed < own).any()):
            raise CodecError(f"{agreed.dtype} exponents of shape {agreed.shape}: need uint32 {own.shape}, no smaller")
        if bool((agreed > 2 * EXPONENT_BIAS).any()):
            raise CodecError(f"exponent {agreed.max()}: must be at most {2 * EXPONENT_BIAS}")
        self._exponents = agreed.astype(np.int64)[:, None] - EXPONENT_BIAS
        # In two steps, so that no factor leaves float64's range.
        fractions = np.ldexp(self._values, -self._exponents)
        lanes = np.rint(np.ldexp(fractions, self._scale_bits)).astype(np.int32).reshape(-1)
        self._lanes = lanes
        return pack_lanes(lanes)

    def decode(self, words: NDArray[np.uint8], counts: NDArray[np.integer]) -> Tensor:
        """The mean. A chunk without contributors gives zeros."""
        sums = unpack_lanes(words, self._values.size).reshape(self._values.shape).astype(np.float64)
        means = sums / np.maximum(np.asarray(counts).astype(np.int64), 1)[:, None]
        result = np.ldexp(np.ldexp(means, -self._scale_bits), self._exponents).reshape(-1)[: self._length]
        return torch.from_numpy(result).to(self._dtype).to(self._device)

    def residual(self, included: NDArray[np.bool_] | None = None) -> Tensor:
        """Rounding to fixed point; the values of chunks where this worker is not included."""
        if self._lanes is None:
            raise CodecError("residual: comes after encode")
        sent = np.ldexp(self._lanes.reshape(self._values.shape).astype(np.float64), self._exponents - self._scale_bits)
        if included is not None:
            sent[~included] = 0.0
        left = (self._values - sent).reshape(-1)[: self._length]
        return torch.from_numpy(left).to(self._dtype).to(self._device)
