# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sums over chunks, with the same bits from every form and device: a fixed order of additions.

A chunk's 1024 terms, padded with zeros, are added by halves: term i of the first half takes up term i of the second,
until one is left. The chunks of a block are added in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sumwire.codec.kernels import float32, kernels
from sumwire.codec.layout import CHUNK_VALUES

# Chunks whose terms stay in cache.
_STEP_CHUNKS: Final = 128
_Float = TypeVar("_Float", np.float32, np.float64)


def square_sums(x: Tensor) -> NDArray[np.float32]:
    """Sums of squares by chunk, in float32; infinite where that is too narrow."""
    native = kernels(x)
    if native is None:
        return _in_torch(x, lambda values: values.to(torch.float32).square()).astype(np.float32)
    return _in_c(x, native.codec_square_sums, np.float32)


def wide_square_sums(x: Tensor) -> NDArray[np.float64]:
    """The same in float64."""
    native = kernels(x)
    if native is None:
        return _in_torch(x, lambda values: values.to(torch.float64).square())
    return _in_c(x, native.codec_wide_square_sums, np.float64)


def magnitude_sums(x: Tensor) -> NDArray[np.float64]:
    """Sums of magnitudes by chunk, in float64."""
    native = kernels(x)
    if native is None:
        return _in_torch(x, lambda values: values.to(torch.float64).abs())
    return _in_c(x, native.codec_magnitude_sums, np.float64)


def add_halves(terms: NDArray[_Float]) -> NDArray[_Float]:
    """The sum of every row of a power of two of terms."""
    while terms.shape[1] > 1:
        half = terms.shape[1] // 2
        terms = terms[:, :half] + terms[:, half:]
    return terms[:, 0]


def total(sums: NDArray[np.float64]) -> float:
    """The sum over all chunks, of any number; infinite where float64 is too narrow."""
    padded = np.zeros((1, 1 << max(len(sums) - 1, 0).bit_length()))
    padded[0, : len(sums)] = sums
    with np.errstate(over="ignore"):
        return float(add_halves(padded)[0])


def _in_c(x: Tensor, function: Callable[..., None], dtype: type[_Float]) -> NDArray[_Float]:
    sums = np.empty(-(-len(x) // CHUNK_VALUES), dtype)
    step = len(sums) if x.dtype == torch.float32 and x.is_contiguous() else _STEP_CHUNKS
    for first in range(0, len(sums), max(step, 1)):
        values = float32(x[first * CHUNK_VALUES : (first + step) * CHUNK_VALUES])
        function(values.data_ptr(), len(values), sums[first:].ctypes.data)
    return sums


def _in_torch(x: Tensor, terms_of: Callable[[Tensor], Tensor]) -> NDArray[np.float64]:
    """terms_of gives a new tensor, and decides the precision; float32 sums come back in float64 unchanged."""
    sums = [np.zeros(0)]
    for first in range(0, len(x), _STEP_CHUNKS * CHUNK_VALUES):
        terms = terms_of(x[first : first + _STEP_CHUNKS * CHUNK_VALUES])
        if len(terms) % CHUNK_VALUES:
            terms = torch.nn.functional.pad(terms, (0, -len(terms) % CHUNK_VALUES))
        halves = terms.view(-1, CHUNK_VALUES)
        while halves.shape[1] > 1:
            half = halves.shape[1] // 2
            halves = halves[:, :half].add_(halves[:, half:])
        sums.append(halves[:, 0].cpu().numpy().astype(np.float64))
    return np.concatenate(sums)
