# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""From values to sign bits and back, by the native kernels or by torch, with equal bits.

A set bit is plus, and zero of either sign is plus. Value i is bit i from the left.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sumwire.codec.kernels import float32, kernels
from sumwire.codec.seeds import LANES, RoundingStream
from sumwire.codec.values import result_dtype


def read_signs(x: Tensor, octets: NDArray[np.uint8]) -> bool:
    """Write x's signs to the first bytes; whether all values are finite. What is left of the last byte is 0."""
    native = kernels(x)
    if native is None:
        _put(x >= 0, octets)
        return bool(torch.isfinite(x).all())
    values = float32(x)
    return bool(native.codec_pack_signs(values.data_ptr(), len(values), octets.ctypes.data))


def draw_signs(x: Tensor, inverse: float, stream: RoundingStream, first_value: int, octets: NDArray[np.uint8]) -> None:
    """The same with a sign that is plus with probability 1/2 + x inverse / 2. first_value is a multiple of 4."""
    native = kernels(x)
    if native is None:
        uniform = stream.uniform(first_value, -(-len(x) // LANES) * LANES)[: len(x)]
        direction = x.to(torch.float64).mul_(inverse).to(result_dtype(x))
        _put(uniform < 0.5 + 0.5 * direction, octets)
        return
    values = float32(x)
    native.codec_draw_signs(
        values.data_ptr(), len(values), inverse, stream.key, first_value // LANES, octets.ctypes.data
    )


def write_signs(words: NDArray[np.uint8], factor: float, target: Tensor) -> None:
    """+-factor for the first signs of words (chunks, words, 128), as many as target has values."""
    native = kernels(target)
    if native is None:
        plus = np.unpackbits(words.reshape(-1), count=len(target))
        target.copy_(torch.from_numpy(plus)).mul_(2).sub_(1).mul_(factor)
        return
    chunk_bytes = words.shape[1] * words.shape[2]
    native.codec_unpack_signs(words.ctypes.data, words.strides[0], chunk_bytes, factor, target.data_ptr(), len(target))


def _put(plus: Tensor, octets: NDArray[np.uint8]) -> None:
    bits = np.packbits(plus.cpu().numpy())
    octets[: len(bits)] = bits
