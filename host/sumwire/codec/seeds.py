# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Counter-based random bits, equal on CPU and GPU.

Pure 64-bit integer arithmetic, wrapping: word i of a stream with key K is mix64(K + (i + 1) * GOLDEN), the SplitMix64
generator (Steele, Lea, Flood, OOPSLA 2014) at a random position. A key is folded from its parts: fold(parts) starts at
0 and takes state = mix64((state ^ part) + GOLDEN) for each part.

Sign streams: key = fold(SIGN_TAG, job, sequence, bucket, block). Value i of the block has bit i % 64 (from the least
significant) of word i // 64; a set bit means -1. All workers compute the same.

Rounding streams: key = fold(ROUNDING_TAG, job, worker, sequence, bucket). 32 values of the padded bucket share eight
words, that is sixteen 32-bit parts, the low half of a word first: value p of the first 16 has the low half of part p,
value 16 + p the high half. That is a number 0..65535. Each worker has a stream of its own, and a run can be repeated.

Correlated rounding streams (Suresh et al., ICML 2022, arXiv 2203.04925): key = fold(ROUNDING_TAG, job, sequence,
bucket), the same for all workers, and worker w has every number XOR `spread`(w). So a worker's numbers stay uniform,
but those of n workers for one value are spread evenly. If n is a power of two, there is one in each n-th of the range.
The numbers of workers 2 i and 2 i + 1 add up to 65535. Where one worker rounds up, another rounds down.

> Example: the shared number is 0x2A10. Workers 0 to 3 have 0x2A10, 0xD5EF, 0x6A10 and 0x95EF.
"""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

GOLDEN: Final = 0x9E3779B97F4A7C15
MIX_1: Final = 0xBF58476D1CE4E5B9
MIX_2: Final = 0x94D049BB133111EB
SIGN_TAG: Final = 0x5349474E  # "SIGN"
ROUNDING_TAG: Final = 0x524F554E  # "ROUN"

WORD_BITS: Final = 64
# Values whose rounding numbers are drawn together, the words that they take, and the values that a number can take.
DRAWN_TOGETHER: Final = 32
DRAWN_WORDS: Final = 8
DRAW_STEPS: Final = 1 << 16
_MASK: Final = (1 << 64) - 1


def mix64(word: int) -> int:
    """SplitMix64's finalizer on one unsigned 64-bit word."""
    word &= _MASK
    word = ((word ^ (word >> 30)) * MIX_1) & _MASK
    word = ((word ^ (word >> 27)) * MIX_2) & _MASK
    return word ^ (word >> 31)


def fold(*parts: int) -> int:
    """Return one 64-bit key from several integers; their order matters."""
    state = 0
    for part in parts:
        state = mix64((state ^ (part & _MASK)) + GOLDEN)
    return state


def _signed(word: int) -> int:
    """Return the int64 with the bits of an unsigned 64-bit word: torch has no uint64 arithmetic."""
    word &= _MASK
    return word - (1 << 64) if word >> 63 else word


def _xor_shift_(words: Tensor, shift: int, scratch: Tensor) -> None:
    """words ^= words >>> shift, in place. torch shifts int64 arithmetically, so the copied sign bits are masked."""
    torch.bitwise_right_shift(words, shift, out=scratch)
    scratch.bitwise_and_((1 << (64 - shift)) - 1)
    words.bitwise_xor_(scratch)


def mix64_(words: Tensor) -> Tensor:
    """`mix64` on an int64 tensor, in place."""
    scratch = torch.empty_like(words)
    _xor_shift_(words, 30, scratch)
    words.mul_(_signed(MIX_1))
    _xor_shift_(words, 27, scratch)
    words.mul_(_signed(MIX_2))
    _xor_shift_(words, 31, scratch)
    return words


def stream_words(key: int, start: int, count: int, device: torch.device) -> Tensor:
    """Return words start..start+count-1 of the stream with this key, int64, shape (count,)."""
    counter = torch.arange(start + 1, start + count + 1, dtype=torch.int64, device=device)
    return mix64_(counter.mul_(_signed(GOLDEN)).add_(_signed(key)))


def _little_endian() -> None:
    if sys.byteorder != "little":
        raise OSError(f"{sys.byteorder}-endian host: sign and rounding streams are laid out for little-endian ones")


@functools.cache
def _sign_rows(device: torch.device) -> Tensor:
    """The eight signs of every byte, shape (256, 8)."""
    byte = torch.arange(256, device=device)[:, None]
    bits = (byte >> torch.arange(8, device=device)) & 1
    return (1 - 2 * bits).to(torch.float32)


@dataclass(frozen=True, slots=True)
class SignStream:
    """The signs on the diagonal D of one bucket's rotations, on one device. `base` is the key without the block."""

    base: int
    device: torch.device
    _rows: Tensor

    @classmethod
    def of(cls, job: int, sequence: int, bucket: int, device: torch.device) -> SignStream:
        """Return the stream of this bucket in this round. It is equal on all workers."""
        _little_endian()
        return cls(fold(SIGN_TAG, job, sequence, bucket), device, _sign_rows(device))

    def words(self, first_block: int, blocks: int, block_values: int) -> Tensor:
        """Return raw words of consecutive blocks, int64, shape (blocks, block_values // 64)."""
        keys = torch.arange(first_block, first_block + blocks, dtype=torch.int64, device=self.device)
        keys = mix64_(keys.bitwise_xor_(_signed(self.base)).add_(_signed(GOLDEN)))
        steps = torch.arange(1, block_values // WORD_BITS + 1, dtype=torch.int64, device=self.device)
        return mix64_(keys[:, None] + steps.mul_(_signed(GOLDEN)))

    def signs(self, first_block: int, blocks: int, block_values: int) -> Tensor:
        """Return +-1 as float32, shape (blocks, block_values); block_values is a multiple of 64."""
        octets = self.words(first_block, blocks, block_values).view(torch.uint8).reshape(-1)
        return self._rows.index_select(0, octets.to(torch.int32)).view(blocks, block_values)


def spread(worker: int) -> int:
    """Return the mask with which a worker's correlated numbers are XORed: bit 14 is bit 1 of `worker`, bit 13 is bit 2,
    and so on. For an odd worker all bits are inverted."""
    half = int(f"{worker >> 1 & DRAW_STEPS // 2 - 1:015b}"[::-1], 2)
    return half ^ (DRAW_STEPS - 1 if worker & 1 else 0)


@dataclass(frozen=True, slots=True)
class RoundingStream:
    """One worker's uniform numbers for one bucket, on one device. `flipped`: the mask of inverted bits."""

    key: int
    device: torch.device
    flipped: int = 0

    @classmethod
    def of(cls, job: int, worker: int, sequence: int, bucket: int, device: torch.device) -> RoundingStream:
        """Return the private stream of this worker for this bucket in this round."""
        _little_endian()
        return cls(fold(ROUNDING_TAG, job, worker, sequence, bucket), device)

    @classmethod
    def correlated(cls, job: int, worker: int, sequence: int, bucket: int, device: torch.device) -> RoundingStream:
        """Return this worker's share of the stream that all workers share."""
        _little_endian()
        return cls(fold(ROUNDING_TAG, job, sequence, bucket), device, spread(worker))

    def numbers(self, first_value: int, count: int) -> Tensor:
        """Return numbers 0..65535, int32, shape (count,). first_value and count are multiples of 32."""
        first, words = (of // DRAWN_TOGETHER * DRAWN_WORDS for of in (first_value, count))
        parts = stream_words(self.key, first, words, self.device).view(torch.int32).view(-1, 1, DRAWN_TOGETHER // 2)
        numbers = torch.cat([parts & (DRAW_STEPS - 1), parts >> 16 & (DRAW_STEPS - 1)], dim=1).view(-1)
        return numbers.bitwise_xor_(self.flipped) if self.flipped else numbers

    def uniform(self, first_value: int, count: int) -> Tensor:
        """Return midpoints (k + 1/2) / 65536 of 65536 equal cells of (0, 1), float32, shape (count,).

        first_value and count are multiples of 32. The midpoints are never 0 or 1. An event drawn by comparing with them
        has its probability within 2**-17.
        """
        return self.numbers(first_value, count).to(torch.float32).add_(0.5).mul_(1 / DRAW_STEPS)
