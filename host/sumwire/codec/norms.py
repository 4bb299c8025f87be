# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sums over chunks in a fixed order of additions, so that kernels, torch and all devices give equal bits.

A chunk's 1024 terms, padded with zeros, are added by halves: term i of the second half is added to term i of the first,
until one term is left. The chunks of a block are added in that way too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sumwire.codec.kernels import address, float32, kernels, threads
from sumwire.codec.layout import CHUNK_VALUES

# Chunks whose terms stay in cache.
_STEP_CHUNKS: Final = 128
# A tensor's attribute: its version when its sums of squares were found, and the sums.
_KNOWN: Final = "_sumwire_square_sums"
_Float = TypeVar("_Float", np.float32, np.float64)


def square_sums(x: Tensor) -> NDArray[np.float32]:
    """Return sums of squares by chunk, in float32; infinite where they exceed its range."""
    version, known = getattr(x, _KNOWN, (None, None))
    if known is not None and version == x._version:
        sums: NDArray[np.float32] = known
        return sums
    x = x.detach()
    native = kernels(x)
    if native is None:
        return _in_torch(x, lambda values: values.to(torch.float32).square()).astype(np.float32)
    shared = threads()
    return _in_c(x, lambda *values: native.codec_square_sums(*values, shared), np.float32)


def add(x: Tensor, y: Tensor, total: Tensor) -> Tensor:
    """Write x + y to ``total``, flat and float32, and return it. On the way its `square_sums` are found: they are kept
    with it until an operation changes it.

    ``total`` must not be changed in other ways, such as through `Tensor.numpy`, before `square_sums` is called.
    """
    native = kernels(total)
    if native is None or not (_is_plain(x) and _is_plain(y)):
        return torch.add(x.detach(), y.detach(), out=total)
    length = x.numel()
    sums = np.empty(-(-length // CHUNK_VALUES), np.float32)
    native.codec_add_square_sums(x.data_ptr(), y.data_ptr(), length, total.data_ptr(), address(sums), threads())
    # A tensor of inference mode does not count its versions.
    if not total.is_inference():
        setattr(total, _KNOWN, (total._version, sums))
    return total


def _is_plain(x: Tensor) -> bool:
    return x.dtype == torch.float32 and x.is_contiguous()


def wide_square_sums(x: Tensor) -> NDArray[np.float64]:
    """Return sums of squares by chunk, in float64."""
    native = kernels(x)
    if native is None:
        return _in_torch(x, lambda values: values.to(torch.float64).square())
    return _in_c(x, native.codec_wide_square_sums, np.float64)


def magnitude_sums(x: Tensor) -> NDArray[np.float64]:
    """Return sums of magnitudes by chunk, in float64."""
    native = kernels(x)
    if native is None:
        return _in_torch(x, lambda values: values.to(torch.float64).abs())
    return _in_c(x, native.codec_magnitude_sums, np.float64)


def add_halves(terms: NDArray[_Float]) -> NDArray[_Float]:
    """Return the sum of every row; rows have a power of two of terms."""
    while terms.shape[1] > 1:
        half = terms.shape[1] // 2
        terms = terms[:, :half] + terms[:, half:]
    return terms[:, 0]


def total(sums: NDArray[np.float64]) -> float:
    """Return the sum over all chunks; infinite where it exceeds float64."""
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
    """Return sums of ``terms_of(values)``, a new tensor, in its precision; float32 sums are given as float64."""
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
