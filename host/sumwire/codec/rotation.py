# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Randomized Hadamard transform RHT(x) = H D x / sqrt(d), H in natural (Sylvester) order, D a diagonal of signs.

Only additions, subtractions and exact scalings are used, always in the same order: the result has the same bits
on every CPU, thread count and GPU, which a matrix product would not promise. (For d an odd power of two the last
factor sqrt(1/2) is one rounded multiplication, also the same everywhere.)
"""

from __future__ import annotations

import math
from typing import Final

import torch
from torch import Tensor

from sumwire.codec.errors import CodecError

# Values handled at a time: two float32 buffers of this size stay in a core's second-level cache.
TILE_VALUES: Final = 1 << 17
# Longest transform done in one pass over transposed tiles; longer ones are split in two factors.
PASS_VALUES: Final = 1 << 12
# Fewest neighbouring columns copied together in the second factor of a long transform.
COLUMNS_MIN: Final = 32


def half_scale(d: int) -> float:
    """The power of two nearest 1 / sqrt(d) from above; exact to multiply with."""
    return math.ldexp(1.0, -(_log2(d) // 2))


def rest_scale(d: int) -> float:
    """What half_scale leaves of 1 / sqrt(d): 1 for an even power of two, sqrt(1/2) for an odd one."""
    return math.sqrt(0.5) if _log2(d) % 2 else 1.0


def _log2(d: int) -> int:
    if d < 1 or d & (d - 1):
        raise CodecError(f"transform length {d}: must be a power of two")
    return d.bit_length() - 1


def tile_rows(d: int) -> int:
    """Rows of length d that make up one tile, at least one."""
    return max(1, TILE_VALUES // d)


def _butterflies(a: Tensor, b: Tensor, d: int, columns: int) -> Tensor:
    """H along the first axis of (d, columns), unnormalised. `a` is the flat input, `b` scratch; returns the one
    that holds the result."""
    half = d // 2
    while half:
        source = a.view(d // (2 * half), 2, half * columns)
        target = b.view(d // (2 * half), 2, half * columns)
        torch.add(source[:, 0], source[:, 1], out=target[:, 0])
        torch.sub(source[:, 0], source[:, 1], out=target[:, 1])
        a, b = b, a
        half //= 2
    return a


def hadamard_(x: Tensor) -> Tensor:
    """H x along the rows of a contiguous (rows, d) tensor, unnormalised, in place. d is a power of two."""
    rows, d = x.shape
    _log2(d)
    if d == 1 or rows == 0:
        return x
    if d > PASS_VALUES:
        return _split_hadamard_(x, PASS_VALUES // 4)
    step = tile_rows(d)
    buffers = x.new_empty((2, min(rows, step) * d))
    for first in range(0, rows, step):
        tile = x[first : first + step]
        # Blocks become columns: every butterfly then adds long contiguous runs.
        a, b = buffers[:, : tile.numel()]
        a.view(d, len(tile)).copy_(tile.t())
        tile.copy_(_butterflies(a, b, d, len(tile)).view(d, len(tile)).t())
    return x


def _split_hadamard_(x: Tensor, low: int) -> Tensor:
    """H of length high * low as H_low on the rows and H_high on the columns of each (high, low) matrix."""
    rows, d = x.shape
    high = d // low
    hadamard_(x.view(rows * high, low))
    step = min(low, max(COLUMNS_MIN, TILE_VALUES // high))
    a, b = x.new_empty((2, high * step))
    for matrix in x.view(rows, high, low):
        for first in range(0, low, step):
            columns = matrix[:, first : first + step]
            a.view(high, step).copy_(columns)
            columns.copy_(_butterflies(a, b, high, step).view(high, step))
    return x


def rotate(x: Tensor, signs: Tensor) -> Tensor:
    """RHT of every row of (blocks, d), a new tensor of x's dtype; signs (+-1) has shape (blocks, d) or (d,).

    Raises CodecError unless x is two-dimensional floating point with d a power of two.
    """
    d = _checked_width(x)
    result = hadamard_((x * signs.to(x.dtype)).mul_(half_scale(d)).contiguous())
    return result if rest_scale(d) == 1.0 else result.mul_(rest_scale(d))


def unrotate(y: Tensor, signs: Tensor) -> Tensor:
    """The inverse of `rotate`: D H y / sqrt(d), a new tensor."""
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
