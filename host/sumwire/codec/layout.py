# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""How a tensor's values are cut into rotation blocks and wire chunks. Needs no torch."""

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
        """Chunks of the largest block, at least 1. Runs of chunks with borders at multiples of it cut no block."""
        return max((group.block_chunks for group in self.groups), default=1)

    def part(self, first: int, last: int) -> tuple[BlockGroup, ...]:
        """Return the blocks of chunks first..last-1, a run that cuts no block."""
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

    With a block size: whole blocks first, then the rest in ever smaller powers of two down to one chunk, so that
    padding is less than a chunk. With None: one block, the next power of two.

    Raises CodecError for a negative length or an impossible block size.
    """
    check_block(block)
    if length < 0:
        raise CodecError(f"length={length}: must not be negative")
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
