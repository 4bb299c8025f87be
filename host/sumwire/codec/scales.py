# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Scales that one operation passes to the next, so that a small tensor needs one round trip instead of two.

A scale is what workers agree on for a block before they encode it: THC's norm, SUM32's exponent. The scales of the last
operation, with some room above them, are the *carried* ones. A tensor is encoded with them, and one more chunk of its
op, the *scales' chunk*, travels beside it: every worker puts its own scales in places of its own and zeros elsewhere.
So the sum shows the scales of all workers, and every worker sees whether the carried ones fit. If they do, the tensor's
sums are used. If not, the workers now agree on scales, and encode the tensor once more.

Example: two workers, THC, one block each, carried norm 4.5. Worker 0 has the norm 4.0 and worker 1 the norm 3.5. The
scales' chunk shows (4.0, 3.5); the largest, 4.0, fits 4.5, and the next tensor is encoded with 1.125 x 4.0 = 4.5.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import SUM32

from sumwire.codec.errors import CodecError

# Index planes that the bytes of a norm take: a table of fewer levels has no room for them.
NORM_PLANES: Final = p4.THC_INDEX_PLANES
_NO_INDEX: Final = 255


class Scales(ABC):
    """How a codec reuses scales from one tensor to the next. The methods give the same bits on all workers."""

    @abstractmethod
    def room(self, workers: int) -> int:
        """Return how many scales of each worker a scales' chunk holds."""

    @abstractmethod
    def pack(self, own: NDArray[np.uint32], worker: int, workers: int) -> NDArray[np.uint8]:
        """Return this worker's scales' chunk, shape (words up, 128)."""

    @abstractmethod
    def unpack(self, words: NDArray[np.uint8], count: int, workers: int) -> NDArray[np.uint32]:
        """Return the largest of all workers' scales, shape (count,), from the sum of their chunks.

        words has shape (words down, 128). Raises CodecError for a sum that no workers can have sent.
        """

    @abstractmethod
    def carried(self, agreed: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Return what the next tensor is encoded with."""

    def fit(self, carried: NDArray[np.uint32], agreed: NDArray[np.uint32]) -> bool:
        """Return whether the carried scales are good enough for a tensor with these agreed scales."""
        return not self.exceeded(carried, agreed) and not self.too_wide(carried, agreed)

    @abstractmethod
    def exceeded(self, carried: NDArray[np.uint32], scales: NDArray[np.uint32]) -> bool:
        """Return whether some block's carried scale is too small for its scale, or the block is not finite."""

    @abstractmethod
    def too_wide(self, carried: NDArray[np.uint32], agreed: NDArray[np.uint32]) -> bool:
        """Return whether some block's carried scale is so large that the block would lose precision."""


class NormScales(Scales):
    """THC's norms, as bits of float32: byte j of a worker's norm is a byte of index plane j.

    A carried norm is 9/8 of the last one, and fits a norm of 2/3 to 11/10 of it. With the published table a block's
    expected squared error is then at most 1.4 times that with its own norm, and 0.96 times where the norm stays.
    """

    ROOM: Final = np.float32(1.125)
    LEAST: Final = 2 / 3
    MOST: Final = 1.1

    def __init__(self, values: tuple[int, ...], norm_max: float, *, clips: bool = True) -> None:
        """``values``: of a table with 2**NORM_PLANES entries. ``clips``: larger values than a norm foresees are."""
        self._most = self.MOST if clips else 1.0
        self._norm_max = np.float32(norm_max)
        # Index by table value.
        self._indices = np.full(256, _NO_INDEX, np.uint8)
        self._indices[list(values)] = np.arange(len(values))

    def room(self, workers: int) -> int:
        return p4.WORD_BYTES // workers

    def pack(self, own: NDArray[np.uint32], worker: int, workers: int) -> NDArray[np.uint8]:
        words = np.zeros((NORM_PLANES, p4.WORD_BYTES), np.uint8)
        words[:, worker * len(own) : (worker + 1) * len(own)] = own.astype(">u4").view(np.uint8).reshape(-1, 4).T
        return words

    def unpack(self, words: NDArray[np.uint8], count: int, workers: int) -> NDArray[np.uint32]:
        filled = workers * count
        sums = np.packbits(np.unpackbits(words[:, :filled], axis=1), axis=0)
        indices = self._indices[sums]
        if bool((indices == _NO_INDEX).any()) or bool(words[:, filled:].any()):
            raise CodecError("scales' chunk: sums that are no table values of one worker each")
        octets = np.packbits(np.unpackbits(indices, axis=0)[-NORM_PLANES:], axis=1)
        norms = octets.T.copy().view(">u4").astype(np.uint32)
        largest: NDArray[np.uint32] = norms.reshape(workers, count).max(axis=0)
        return largest

    def carried(self, agreed: NDArray[np.uint32]) -> NDArray[np.uint32]:
        norms: NDArray[np.float32] = np.minimum(agreed.view(np.float32) * self.ROOM, self._norm_max)
        return norms.view(np.uint32)

    def exceeded(self, carried: NDArray[np.uint32], scales: NDArray[np.uint32]) -> bool:
        # NaN is not at most anything.
        return not bool((_norms(scales) <= _norms(carried) * self._most).all())

    def too_wide(self, carried: NDArray[np.uint32], agreed: NDArray[np.uint32]) -> bool:
        return bool((_norms(agreed) < _norms(carried) * self.LEAST).any())


class ExponentScales(Scales):
    """SUM32's biased exponents, one element each.

    A carried exponent is one above the last one. It fits an exponent that is up to ``SPARE`` below it; the error bound
    is then at most 2**SPARE times that with the block's own exponent. A block of zeros always fits.
    """

    SPARE: Final = 3

    def __init__(self, exponent_max: int) -> None:
        self._exponent_max = np.uint32(exponent_max)

    def room(self, workers: int) -> int:
        return SUM32.values // workers

    def pack(self, own: NDArray[np.uint32], worker: int, workers: int) -> NDArray[np.uint8]:
        elements = np.zeros(SUM32.values, ">u4")
        elements[worker * len(own) : (worker + 1) * len(own)] = own
        return elements.view(np.uint8).reshape(SUM32.up.words, p4.WORD_BYTES)

    def unpack(self, words: NDArray[np.uint8], count: int, workers: int) -> NDArray[np.uint32]:
        elements = np.ascontiguousarray(words).reshape(-1).view(">u4").astype(np.uint32)
        filled = workers * count
        if bool(elements[filled:].any()):
            raise CodecError("scales' chunk: an element that belongs to no worker is not 0")
        largest: NDArray[np.uint32] = elements[:filled].reshape(workers, count).max(axis=0)
        return largest

    def carried(self, agreed: NDArray[np.uint32]) -> NDArray[np.uint32]:
        return np.where(agreed > 0, np.minimum(agreed + np.uint32(1), self._exponent_max), np.uint32(0))

    def exceeded(self, carried: NDArray[np.uint32], scales: NDArray[np.uint32]) -> bool:
        return bool((scales > carried).any())

    def too_wide(self, carried: NDArray[np.uint32], agreed: NDArray[np.uint32]) -> bool:
        return bool(((agreed + np.uint32(self.SPARE) < carried) & (agreed > 0)).any())


def _norms(bits: NDArray[np.uint32]) -> NDArray[np.float64]:
    return bits.view(np.float32).astype(np.float64)
