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

# Values handled at a time: a float32 buffer of this size stays in a core's second-level cache.
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


def _butterflies_(x: Tensor, d: int, columns: int) -> None:
    """H along the first axis of a flat (d, columns) tensor, unnormalised, in place.

    a, b become a + b and (a + b) - 2 b. The second is a - b with one more rounding, for half the memory traffic of
    computing both from a and b, which have to be kept for that.
    """
    half = d // 2
    while half:
        a, b = x.view(d // (2 * half), 2, half * columns).unbind(1)
        a.add_(b)
        torch.add(a, b, alpha=-2, out=b)
        half //= 2


def hadamard_(x: Tensor) -> Tensor:
    """H x along the rows of a contiguous (rows, d) tensor, unnormalised, in place. d is a power of two."""
    return hadamard_into(x, x)


def hadamard_into(source: Tensor, target: Tensor) -> Tensor:
    """H along the rows of `source`, written to `target`: contiguous tensors (rows, d) of one dtype, or one tensor."""
    rows, d = source.shape
    _log2(d)
    if d > PASS_VALUES:
        return _split_hadamard_(target.copy_(source), PASS_VALUES // 4)
    step = tile_rows(d)
    buffer = source.new_empty(min(rows, step) * d)
    for first in range(0, rows, step):
        tile = source[first : first + step]
        # Blocks become columns: every butterfly then adds long contiguous runs.
        columns = buffer[: tile.numel()]
        columns.view(d, len(tile)).copy_(tile.t())
        _butterflies_(columns, d, len(tile))
        target[first : first + step].copy_(columns.view(d, len(tile)).t())
    return target


def _split_hadamard_(x: Tensor, low: int) -> Tensor:
    """H of length high * low as H_low on the rows and H_high on the columns of each (high, low) matrix."""
    rows, d = x.shape
    high = d // low
    hadamard_(x.view(rows * high, low))
    step = min(low, max(COLUMNS_MIN, TILE_VALUES // high))
    buffer = x.new_empty(high * step)
    for matrix in x.view(rows, high, low):
        for first in range(0, low, step):
            columns = matrix[:, first : first + step]
            buffer.view(high, step).copy_(columns)
            _butterflies_(buffer, high, step)
            columns.copy_(buffer.view(high, step))
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
