# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Fixed point in the native kernels, with the bits of :mod:`sumwire.codec.sum32`'s numpy form."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sumwire.codec.kernels import float32, threads


@dataclass(frozen=True, slots=True)
class NativeForm:
    """``most``: the largest magnitude in units of fixed point. Units are powers of two by chunk: their exponents,
    int64 of shape (chunks, 1)."""

    kernels: ctypes.CDLL
    most: float

    def exponents(self, x: Tensor, chunks: int, bias: int) -> NDArray[np.uint32]:
        """Return the biased exponent of every chunk's largest magnitude."""
        values, found = float32(x), np.empty(chunks, np.uint32)
        self.kernels.codec_sum32_exponents(values.data_ptr(), len(values), bias, found.ctypes.data)
        return found

    def encode(self, x: Tensor, unit: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
        """Write x, the values of a part, in fixed point to ``out``."""
        values, to_units = float32(x), _factors(-unit)
        self.kernels.codec_sum32_encode(
            values.data_ptr(), len(values), to_units.ctypes.data, self.most,
            out.ctypes.data, out.strides[0], threads(),
        )  # fmt: skip

    def decode(
        self, words: NDArray[np.uint8], divisors: NDArray[np.int64], unit: NDArray[np.int64], target: Tensor
    ) -> None:
        """Write sums divided by their divisors to ``target``, a part of the result."""
        from_units = _factors(unit)
        self.kernels.codec_sum32_decode(
            words.ctypes.data, words.strides[0], divisors.ctypes.data, from_units.ctypes.data,
            target.data_ptr(), len(target), threads(),
        )  # fmt: skip

    def residual(self, x: Tensor, unit: NDArray[np.int64], included: NDArray[np.bool_] | None, target: Tensor) -> None:
        """Write what fixed point leaves out of x to ``target``; all of a chunk that is not included."""
        values, to_units, from_units = float32(x), _factors(-unit), _factors(unit)
        mask = None if included is None else np.ascontiguousarray(included)
        self.kernels.codec_sum32_residual(
            values.data_ptr(), len(values), to_units.ctypes.data, from_units.ctypes.data, self.most,
            None if mask is None else mask.ctypes.data, target.data_ptr(), threads(),
        )  # fmt: skip


def _factors(exponents: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return two factors for each power of two, shape (chunks, 2)."""
    half = exponents // 2
    factors: NDArray[np.float64] = np.ldexp(1.0, np.concatenate([half, exponents - half], axis=1))
    return factors
