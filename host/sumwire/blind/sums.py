# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Checks that the sums a worker received are the sums of what all workers sent, without trusting whoever summed.

A *check* is a weighted sum of elements modulo the prime 2**61 - 1. The weights are secrets of the run's workers. Every
worker sends the check of its own elements to the others, in chunks behind the elements
(:class:`sumwire.blind.masks.Places`). The checks of all workers must add up to the check of the sums. Someone who
changes sums without knowing the weights passes with probability 2**-60 (Carter and Wegman, 1981): element j of chunk k
has the weight f_j g_k, where the f are drawn for the run and the g for the chunk.

Example, modulo 101: two workers send (5, 7) and (1, 2), with the weights (10, 20). Their checks are 190 = 89 and 50.
The right sum (6, 9) has the check 240 = 38 = 89 + 50 - 101. A wrong sum (6, 8) has 18.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.blind.masks import NATIVE, Masks, Places
from sumwire.codec.errors import CodecError

PRIME: Final = 2**61 - 1
_HALF_BITS: Final = 16
_WEIGHT_HALF_BITS: Final = 31
# Of a result of which nothing is known for certain.
_DEGRADED: Final = p4.FLAG_MISSING | p4.FLAG_INCOMPLETE | p4.FLAG_TRIMMED


class SumCheck:
    """The check of one exchange's elements, in the ``chunks`` chunks from ``sequence`` on.

    ``room``: how many chunks follow them for the workers' checks. ``signed``: elements are int32 and no sum overflows
    it; otherwise both are so for uint32.
    """

    def __init__(self, masks: Masks, sequence: int, chunks: int, *, worker: int, workers: int, signed: bool) -> None:
        self._places = Places(masks, sequence + chunks, 2, worker=worker, workers=workers)
        self.room = self._places.chunks
        self._factors, self._weights = masks.weights(sequence, chunks)
        self._chunks = chunks
        self._workers = workers
        self._signed = signed
        self._sent = 0
        self._got = 0

    def send(self, first: int, payload: NDArray[np.uint8]) -> None:
        """Add this worker's elements from chunk ``first`` on to its check, before they are masked: uint8 (chunks, 8,
        128)."""
        self._sent = (self._sent + self._of(first, payload)) % PRIME

    def told(self) -> NDArray[np.uint8]:
        """Return the chunks that carry this worker's check, uint8 (room, 8, 128). Call it after all elements were
        sent."""
        return self._places.pack(np.array([self._sent >> 32, self._sent & 0xFFFFFFFF], np.uint32))

    def take(self, first: int, words: NDArray[np.uint8]) -> None:
        """Take in the sums from chunk ``first`` on: uint8 (chunks, 8, 128)."""
        self._got = (self._got + self._of(first, words)) % PRIME

    def finish(
        self, words: NDArray[np.uint8], counts: NDArray[np.uint8], flags: NDArray[np.uint8], cuts: NDArray[np.uint8]
    ) -> None:
        """Check the sums, all of which must have been taken. ``words``: the chunks with the workers' checks. The others
        describe all results.

        Raises CodecError for sums that are not those of all workers.
        """
        if (counts != self._workers).any() or (flags & _DEGRADED).any() or cuts.any():
            raise CodecError("a sum is said not to be of all workers")
        checks = self._places.unpack(words)
        if sum(int(high) << 32 | int(low) for high, low in checks) % PRIME != self._got:
            raise CodecError("the sums are not those of what the workers sent")

    def _of(self, first: int, elements: NDArray[np.uint8]) -> int:
        weights = self._weights[first : first + len(elements)]
        native = NATIVE.kernels()
        if native is not None:
            return int(
                native.blind_check(
                    elements.ctypes.data, elements.strides[0], len(elements), self._factors.ctypes.data,
                    weights.ctypes.data, int(self._signed),
                )
            )  # fmt: skip
        numbers = np.ascontiguousarray(elements).reshape(len(elements), -1).view(">i4" if self._signed else ">u4")
        return _by_numpy(numbers.astype(np.int64), self._factors, weights)


def _by_numpy(numbers: NDArray[np.int64], factors: NDArray[np.uint64], weights: NDArray[np.uint64]) -> int:
    """Products of halves, so that no sum of 256 leaves int64."""
    total = 0
    inner = np.zeros(len(numbers), object)
    for shift, half in ((0, numbers & 0xFFFF), (_HALF_BITS, numbers >> _HALF_BITS)):
        for above, part in ((0, factors & 0x7FFFFFFF), (_WEIGHT_HALF_BITS, factors >> np.uint64(_WEIGHT_HALF_BITS))):
            inner += (half @ part.astype(np.int64)).astype(object) * (1 << (shift + above))
    for of_chunk, weight in zip(inner.tolist(), weights.tolist(), strict=True):
        total += of_chunk * weight
    return int(total % PRIME)
