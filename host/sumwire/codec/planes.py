# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""From indices to bit planes, and from planes of sums to integers, in the wire's order.

A plane is 128 bytes; value i is bit i counted from the most significant bit of byte 0. The most significant plane
travels first (docs/wire-format.md).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.codec.errors import CodecError

VALUES: Final = p4.WORD_BITS
PLANE_BYTES: Final = p4.WORD_BYTES
INDEX_PLANES: Final = p4.THC_INDEX_PLANES
SUM_PLANES: Final = p4.SLOT_WORDS

# Reflection of an 8 x 8 bit matrix at its second diagonal, in three exchanges (bit distance, mask of the lower
# partner): a little-endian word holds the planes' bytes in rows 0..7 and the values in columns 7..0.
_EXCHANGES: Final = (
    (np.uint64(9), np.uint64(0x0055005500550055)),
    (np.uint64(18), np.uint64(0x0000333300003333)),
    (np.uint64(36), np.uint64(0x000000000F0F0F0F)),
)
# Words of the reflection handled at a time, so that its scratch stays in cache.
_REFLECT_WORDS: Final = 1 << 14
# That many words, in chunks.
REFLECT_CHUNKS: Final = _REFLECT_WORDS // PLANE_BYTES


def pack_index_planes(z: NDArray[np.uint8], bits: int = INDEX_PLANES) -> NDArray[np.uint8]:
    """Return indices of shape (chunks, 1024) as planes of shape (chunks, bits, 128), most significant plane first.

    Bits of z from `bits` upwards are ignored. Raises CodecError for another shape or dtype.
    """
    _check(z, (VALUES,))
    words = np.empty((len(z), bits, PLANE_BYTES), np.uint8)
    for word in range(bits):
        words[:, word] = np.packbits(z & np.uint8(1 << (bits - 1 - word)), axis=-1)
    return words


def unpack_index_planes(words: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return indices of shape (chunks, 1024) from at most 8 planes, shape (chunks, bits, 128)."""
    _check(words, (words.shape[1] if words.ndim > 1 else INDEX_PLANES, PLANE_BYTES))
    eight = np.zeros((len(words), SUM_PLANES, PLANE_BYTES), np.uint8)
    eight[:, SUM_PLANES - words.shape[1] :] = words
    return unpack_sum_planes(eight)


def unpack_sum_planes(words: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return sums of shape (chunks, 1024) from planes of shape (chunks, 8, 128). Raises CodecError for other input."""
    _check(words, (SUM_PLANES, PLANE_BYTES))
    # The 8 bytes that hold the same 8 values are put side by side: 8 values of 8 bits, transposed.
    # Always a copy, since it is changed in place, and input in another memory order may be contiguous already.
    columns = np.array(words.transpose(0, 2, 1), order="C", copy=True)
    matrices = columns.reshape(-1).view("<u8")
    scratch = np.empty((2, min(_REFLECT_WORDS, len(matrices))), np.uint64)
    for first in range(0, len(matrices), _REFLECT_WORDS):
        _reflect(matrices[first : first + _REFLECT_WORDS], scratch)
    return columns.reshape(len(words), VALUES)


def _reflect(matrices: NDArray[np.uint64], scratch: NDArray[np.uint64]) -> None:
    difference, moved = scratch[:, : len(matrices)]
    for distance, mask in _EXCHANGES:
        np.right_shift(matrices, distance, out=difference)
        difference ^= matrices
        difference &= mask
        np.left_shift(difference, distance, out=moved)
        matrices ^= difference
        matrices ^= moved


def _check(array: NDArray[np.uint8], row: tuple[int, ...]) -> None:
    if array.dtype != np.uint8 or array.shape[1:] != row:
        raise CodecError(f"{array.dtype} array of shape {array.shape}: needs uint8 of shape (chunks, {row})")
