# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""How a tensor's values are cut into rotation blocks and wire chunks, and how indices lie in bit planes. Needs no
torch.

A plane is 128 bytes; value i is bit i counted from the most significant bit of byte 0. The most significant plane
travels first (docs/wire-format.md).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.codec.errors import CodecError
from sumwire.numeric import is_whole

# Values of one THC chunk: one per bit of a plane.
CHUNK_VALUES: Final = p4.WORD_BITS
# Values that share a scale in naive quantization.
GROUP_VALUES: Final = 256


@dataclass(frozen=True, slots=True)
class BlockGroup:
    """Consecutive blocks of one size, with the numbers of the first value and block."""

    first_value: int
    first_block: int
    blocks: int
    block_values: int

    @property
    def values(self) -> int:
        """Values of the group, padding included."""
        return self.blocks * self.block_values

    @property
    def first_chunk(self) -> int:
        """Chunk that holds the group's first value."""
        return self.first_value // CHUNK_VALUES

    @property
    def chunks(self) -> int:
        """Chunks of the group; a block is a whole number of them."""
        return self.values // CHUNK_VALUES

    @property
    def last_chunk(self) -> int:
        """The first chunk after the group."""
        return self.first_chunk + self.chunks

    @property
    def block_chunks(self) -> int:
        """Chunks of one block."""
        return self.block_values // CHUNK_VALUES


@dataclass(frozen=True)
class Layout:
    """The cut of `length` values: every chunk lies in one block, every block has one norm."""

    length: int
    groups: tuple[BlockGroup, ...]

    @functools.cached_property
    def blocks(self) -> int:
        """Number of blocks, and so of norms."""
        return sum(group.blocks for group in self.groups)

    @functools.cached_property
    def chunks(self) -> int:
        """Number of wire chunks."""
        return sum(group.chunks for group in self.groups)

    @property
    def padded_length(self) -> int:
        """Values with padding, the length of all blocks together."""
        return self.chunks * CHUNK_VALUES

    @functools.cached_property
    def grain(self) -> int:
        """The number of chunks in the largest block, at least 1. Parts that end at multiples of it cut no block."""
        return max((group.block_chunks for group in self.groups), default=1)

    def part(self, first: int, last: int) -> tuple[BlockGroup, ...]:
        """Return the blocks of chunks first..last-1, which must not cut a block."""
        if (first, last) == (0, self.chunks):
            return self.groups
        return tuple(_clip(g, first, last) for g in self.groups if g.first_chunk < last and g.last_chunk > first)

    @functools.cached_property
    def block_chunks(self) -> NDArray[np.intp]:
        """Chunks of every block, shape (blocks,), read-only."""
        chunks = np.array([g.block_chunks for g in self.groups], np.intp)
        return _read_only(np.repeat(chunks, [g.blocks for g in self.groups]))

    @functools.cached_property
    def chunk_blocks(self) -> NDArray[np.intp]:
        """The block of every chunk, shape (chunks,), read-only."""
        return _read_only(np.repeat(np.arange(self.blocks), self.block_chunks))


def _read_only(array: NDArray[np.intp]) -> NDArray[np.intp]:
    array.flags.writeable = False
    return array


def _clip(group: BlockGroup, first: int, last: int) -> BlockGroup:
    """The group's blocks within chunks first..last-1."""
    skipped = (max(first, group.first_chunk) - group.first_chunk) // group.block_chunks
    blocks = (min(last, group.last_chunk) - group.first_chunk) // group.block_chunks - skipped
    first_value = group.first_value + skipped * group.block_values
    return BlockGroup(first_value, group.first_block + skipped, blocks, group.block_values)


def check_block(block: int | None) -> None:
    """Raise CodecError unless `block` is None (one block of full length) or a power of two >= CHUNK_VALUES."""
    if block is not None and not (is_whole(block, CHUNK_VALUES) and block.bit_count() == 1):
        raise CodecError(f"block={block!r}: must be a power of two of at least {CHUNK_VALUES} values, or None")


@functools.lru_cache(maxsize=256)
def layout(length: int, block: int | None) -> Layout:
    """Cut `length` values into blocks.

    With a block size, whole blocks come first. The rest is cut into ever smaller powers of two, down to one chunk, so
    that padding is less than a chunk. With None there is one block, of the next power of two.

    Raises CodecError for an impossible block size.
    """
    check_block(block)
    if length == 0:
        return Layout(0, ())
    if block is None:
        return Layout(length, (BlockGroup(0, 0, 1, max(CHUNK_VALUES, 1 << (length - 1).bit_length())),))
    groups: list[BlockGroup] = []
    left = -(-length // CHUNK_VALUES) * CHUNK_VALUES
    first_value = first_block = 0
    size = block
    while left:
        count = left // size
        if count:
            groups.append(BlockGroup(first_value, first_block, count, size))
            first_value += count * size
            first_block += count
            left -= count * size
        size //= 2
    return Layout(length, tuple(groups))


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
