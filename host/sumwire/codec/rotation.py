# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Randomized Hadamard transform RHT(x) = H D x / sqrt(d), H in natural (Sylvester) order, D a diagonal of signs.

It uses only additions, subtractions and exact scalings, in a fixed order. So the result has equal bits on every CPU,
GPU and number of threads, which a matrix product would not guarantee. (For d an odd power of two the last factor
sqrt(1/2) is one rounded multiplication, equal everywhere too.)
"""

from __future__ import annotations

import math
from typing import Final

import torch
from torch import Tensor

from sumwire.codec.errors import CodecError

# Values processed at a time: enough to hide the fixed cost of an operation, few enough for a core's caches. Of
# 2**15..2**20, 2**18 was the fastest with 1 MB of second-level cache.
TILE_VALUES: Final = 1 << 18
# Longest transform done in one pass over transposed tiles; longer ones are split in two factors.
PASS_VALUES: Final = 1 << 12
# Fewest neighbouring columns copied together in the second factor of a long transform.
COLUMNS_MIN: Final = 32


def half_scale(d: int) -> float:
    """Return the smallest power of two that is not below 1 / sqrt(d); multiplying by it is exact."""
    return math.ldexp(1.0, -(_log2(d) // 2))


def rest_scale(d: int) -> float:
    """Return 1 / sqrt(d) / half_scale(d): 1 for an even power of two, sqrt(1/2) for an odd one."""
    return math.sqrt(0.5) if _log2(d) % 2 else 1.0


def _log2(d: int) -> int:
    if d < 1 or d & (d - 1):
        raise CodecError(f"transform length {d}: must be a power of two")
    return d.bit_length() - 1


def tile_rows(d: int) -> int:
    """Rows of length d that make up one tile, at least one."""
    return max(1, TILE_VALUES // d)


class Hadamard:
    """H along the rows of contiguous (rows, d) tensors, unnormalised, d a power of two.

    One object serves tensors of one dtype and device, in one thread. It keeps two buffers and their views for each
    shape of tile that it has met.
    """

    def __init__(self) -> None:
        self._tiles: dict[tuple[int, int], _Tile] = {}

    def __call__(self, source: Tensor, target: Tensor, *, upwards: bool = False) -> None:
        """Write H x to `target` for every row x of `source`; both may be the same tensor.

        The widest butterflies come first, or `upwards` the narrowest: rounding differs.
        """
        rows, d = source.shape
        _log2(d)
        if d > PASS_VALUES:
            self._split_(target.copy_(source), PASS_VALUES // 4, upwards)
            return
        step = tile_rows(d)
        for first in range(0, rows, step):
            # Blocks become columns: every butterfly then adds long contiguous runs.
            self._tile(source[first : first + step].t(), target[first : first + step].t(), upwards)

    def _tile(self, source: Tensor, target: Tensor, upwards: bool) -> None:
        """H along the first axis of (d, columns) views."""
        d, columns = source.shape
        tile = self._tiles.get((d, columns))
        if tile is None:
            tile = self._tiles[d, columns] = _Tile(source.new_empty((2, d, columns)))
        target.copy_(tile.transformed(source, upwards))

    def _split_(self, x: Tensor, low: int, upwards: bool) -> None:
        """H of length high * low as H_low on the rows and H_high on the columns of each (high, low) matrix."""
        rows, d = x.shape
        high = d // low
        short = x.view(rows * high, low)
        self(short, short, upwards=upwards)
        step = min(low, max(COLUMNS_MIN, TILE_VALUES // high))
        for matrix in x.view(rows, high, low):
            for first in range(0, low, step):
                columns = matrix[:, first : first + step]
                self._tile(columns, columns, upwards)


class _Tile:
    """Two buffers of (d, columns): each step of H along the first axis reads one and writes the other."""

    def __init__(self, buffers: Tensor) -> None:
        self._buffers = buffers
        self._halves = [_halves(buffer) for buffer in buffers]

    def transformed(self, source: Tensor, upwards: bool) -> Tensor:
        """Return H of `source` in one of the buffers."""
        self._buffers[0].copy_(source)
        here, there = self._halves
        steps = len(here)
        for step in range(steps - 1, -1, -1) if upwards else range(steps):
            a, b = here[step]
            torch.add(a, b, out=there[step][0])
            torch.sub(a, b, out=there[step][1])
            here, there = there, here
        return self._buffers[steps % 2]


def _halves(x: Tensor) -> list[tuple[Tensor, Tensor]]:
    """The halves that each step of H along the first axis of contiguous (d, columns) combines, the widest first."""
    d, columns = x.shape
    halves = [d >> step for step in range(1, d.bit_length())]
    views = [x.view(d // (2 * half), 2, half * columns) for half in halves]
    return [(view[:, 0], view[:, 1]) for view in views]


def hadamard_(x: Tensor) -> Tensor:
    """Apply H to the rows of a contiguous (rows, d) tensor, unnormalised, in place. d is a power of two."""
    Hadamard()(x, x)
    return x


def rotate(x: Tensor, signs: Tensor) -> Tensor:
    """Return RHT of every row of (blocks, d), a new tensor of x's dtype; signs (+-1) has shape (blocks, d) or (d,).

    Raises CodecError unless x is two-dimensional floating point with d a power of two.
    """
    d = _checked_width(x)
    result = hadamard_((x * signs.to(x.dtype)).mul_(half_scale(d)).contiguous())
    return result if rest_scale(d) == 1.0 else result.mul_(rest_scale(d))


def unrotate(y: Tensor, signs: Tensor) -> Tensor:
    """Return the inverse of `rotate`: D H y / sqrt(d), a new tensor."""
    d = _checked_width(y)
    result = hadamard_(y.contiguous().mul(half_scale(d)))
    if rest_scale(d) != 1.0:
        result.mul_(rest_scale(d))
    return result.mul_(signs.to(y.dtype))


def _checked_width(x: Tensor) -> int:
    if x.dim() != 2 or not x.is_floating_point():
        raise CodecError(f"rotation of a {x.dtype} tensor of shape {tuple(x.shape)}: needs floating point (blocks, d)")
    _log2(x.shape[1])
    return x.shape[1]
