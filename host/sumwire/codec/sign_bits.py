# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""From values to sign bits and back. The native kernels and torch give equal bits.

A set bit is plus, and zero of either sign is plus. Value i is bit i from the left.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sumwire.codec.kernels import address, float32, kernels
from sumwire.codec.seeds import DRAWN_TOGETHER, RoundingStream
from sumwire.codec.values import result_dtype


def read_signs(x: Tensor, octets: NDArray[np.uint8]) -> bool:
    """Write x's signs to the first bytes of octets; the rest of the last byte becomes 0.

    Returns whether all values are finite.
    """
    native = kernels(x)
    if native is None:
        _put(x >= 0, octets)
        return bool(torch.isfinite(x).all())
    values = float32(x)
    return bool(native.codec_pack_signs(values.data_ptr(), len(values), octets.ctypes.data))


def read_sign_chunks(x: Tensor, words: NDArray[np.uint8]) -> NDArray[np.bool_] | None:
    """Write x's signs to words of shape (chunks, words, 128), with any stride between chunks. Padding becomes 0.

    Returns which chunks have values that are not finite, bool (chunks,); None for none.
    """
    native = kernels(x)
    chunk_bytes = words.shape[1] * words.shape[2]
    if native is None:
        octets = np.zeros(len(words) * chunk_bytes, np.uint8)
        finite = read_signs(x, octets)
        words[:] = octets.reshape(words.shape)
        return None if finite else _not_finite(x, len(words), chunk_bytes * 8)
    values, outside = float32(x), np.empty(len(words), np.bool_)
    finite = native.codec_pack_sign_chunks(
        values.data_ptr(), len(values), chunk_bytes, address(words), words.strides[0], address(outside)
    )
    return None if finite else outside


def _not_finite(x: Tensor, chunks: int, chunk_values: int) -> NDArray[np.bool_]:
    outside = np.zeros(chunks, np.bool_)
    outside[torch.isfinite(x).logical_not_().nonzero().cpu().numpy() // chunk_values] = True
    return outside


def draw_signs(x: Tensor, inverse: float, stream: RoundingStream, first_value: int, octets: NDArray[np.uint8]) -> None:
    """Write random signs of x, plus with probability 1/2 + x inverse / 2, to the first bytes of octets.

    They are drawn by the stream's numbers from first_value on, a multiple of 32.
    """
    native = kernels(x)
    if native is None:
        uniform = stream.uniform(first_value, -(-len(x) // DRAWN_TOGETHER) * DRAWN_TOGETHER)[: len(x)]
        direction = x.to(torch.float64).mul_(inverse).to(result_dtype(x))
        _put(uniform < 0.5 + 0.5 * direction, octets)
        return
    values = float32(x)
    native.codec_draw_signs(values.data_ptr(), len(values), inverse, stream.key, first_value, octets.ctypes.data)


def write_signs(words: NDArray[np.uint8], factor: float, target: Tensor, tensor_values: int) -> None:
    """Fill target with +-factor, by the first signs of words, shape (chunks, words, 128). It is part of a tensor of so
    many values."""
    native = kernels(target)
    if native is None:
        plus = np.unpackbits(words.reshape(-1), count=len(target))
        target.copy_(torch.from_numpy(plus)).mul_(2).sub_(1).mul_(factor)
        return
    chunk_bytes = words.shape[1] * words.shape[2]
    native.codec_unpack_signs(
        words.ctypes.data, words.strides[0], chunk_bytes, factor, target.data_ptr(), len(target), tensor_values
    )


def _put(plus: Tensor, octets: NDArray[np.uint8]) -> None:
    bits = np.packbits(plus.cpu().numpy())
    octets[: len(bits)] = bits
