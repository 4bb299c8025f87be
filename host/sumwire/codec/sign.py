# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Signs on the wire, and the sign methods that replace a gradient's mean.

A set bit is plus. Value i of a chunk is bit i from the left of its words: 8192 to a SIGN chunk, 2048 to a VOTE chunk.
Zero, of either sign, is plus. Padding after the last value is sent as minus and never read.

* sign: the merged signs.
* vote: signSGD with majority vote (Bernstein et al., ICML 2018). The result is the majority's sign, a tie is plus.

Merged signs (the SIGN op) are one of the workers' signs, each with the same probability, drawn for every value.

A chunk with NaN or infinity is sent with the flag OVERFLOW, which the result keeps, and becomes NaN on all workers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import SIGN, VOTE
from torch import Tensor

from sumwire.codec.base import CodecInfo, CodecRound, GradientCodec
from sumwire.codec.errors import CodecError
from sumwire.codec.sign_bits import read_sign_chunks, write_signs
from sumwire.codec.values import check_kind


def signs(x: Tensor) -> Tensor:
    """Return whether each value is plus: bool, x's shape. Zero and minus zero are plus."""
    return x >= 0


def pack_signs(plus: NDArray[np.bool_], words: int) -> NDArray[np.uint8]:
    """Return signs of shape (length,) as chunks of shape (chunks, words, 128). Raises CodecError for other input."""
    if plus.dtype != np.bool_ or plus.ndim != 1:
        raise CodecError(f"{plus.dtype} signs of shape {plus.shape}: needs bool (length,)")
    chunk_bytes = words * p4.WORD_BYTES
    bits = np.packbits(plus)
    chunks = -(-len(bits) // chunk_bytes)
    packed = np.zeros(chunks * chunk_bytes, np.uint8)
    packed[: len(bits)] = bits
    return packed.reshape(chunks, words, p4.WORD_BYTES)


def unpack_signs(words: NDArray[np.uint8], length: int) -> NDArray[np.bool_]:
    """Return the first `length` signs of chunks, bool. Raises CodecError if there are fewer."""
    if words.dtype != np.uint8 or not 0 <= length <= words.size * 8:
        raise CodecError(f"{words.dtype} words of shape {words.shape}: need uint8 with at least {length} signs")
    return np.unpackbits(words.reshape(-1), count=length).view(np.bool_)


def plus_minus(plus: Tensor, dtype: torch.dtype) -> Tensor:
    """Return +1 and -1 for signs, of the given dtype."""
    return plus.to(dtype).mul_(2).sub_(1)


class _SignRound(CodecRound):
    """A round whose payload is one bit a value. `_factor` is the magnitude of the result's values."""

    def __init__(self, codec: GradientCodec, x: Tensor) -> None:
        x = check_kind(x)
        super().__init__(codec, x, codec.chunks(len(x)), 1)
        self._factor = 1.0
        self._outside: NDArray[np.bool_] | None = None

    @property
    def outside(self) -> NDArray[np.bool_] | None:
        return self._outside

    def residual(self, included: NDArray[np.bool_] | None = None) -> Tensor:
        """Zeros: these methods have no memory."""
        self._check_residual(included)
        return self._new_result().zero_()

    def _encode_part(self, agreed: NDArray[np.uint32], first: int, last: int, out: NDArray[np.uint8]) -> None:
        outside = read_sign_chunks(self._x[self._values(first, last)], out)
        if outside is None:
            return
        if self._outside is None:
            self._outside = np.zeros(self.chunks, np.bool_)
        self._outside[first:last] = outside

    def _decode_part(
        self, first: int, last: int, words: NDArray[np.uint8], counts: NDArray[np.int64], target: Tensor
    ) -> None:
        """Write +-factor for each sign of the result, and zeros for a chunk without contributors.

        If sums are divided by all workers, values of a chunk with missing ones shrink in proportion.
        """
        write_signs(words, self._factor, target[self._values(first, last)], self.length)
        present = counts / np.maximum(self._divisors(counts), 1)
        for chunk in np.flatnonzero(present != 1):
            here = target[self._values(first + int(chunk), first + int(chunk) + 1)]
            here.copy_(here * float(present[chunk]) if present[chunk] else torch.zeros_like(here))

    def _take_overflows(self, first: int, last: int, overflows: NDArray[np.bool_]) -> None:
        self._spoiled[first:last] = overflows

    def _values(self, first: int, last: int) -> slice:
        per_chunk = self._info.chunk_values
        return slice(first * per_chunk, min(last * per_chunk, self.length))


class _VoteRound(_SignRound):
    """A round whose result is a majority and not a sum."""

    def divide_by(self, workers: int) -> None:
        """Do nothing: a missing worker has no vote."""


def _signs_or_nan(x: Tensor) -> Tensor:
    """Return +1 or -1 for every value, float32; NaN for one that is not finite."""
    return plus_minus(signs(x), torch.float32).masked_fill_(~torch.isfinite(x), torch.nan)


class SignCodec(GradientCodec):
    """Merged signs: every value of the result is +1 or -1, the sign of one of the workers."""

    info: ClassVar[CodecInfo] = CodecInfo.of("sign", SIGN)

    def begin(self, x: Tensor, sequence: int, bucket: int) -> _SignRound:
        return _SignRound(self, x)

    def ordinary(self, x: Tensor, mean: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the expectation of the merged signs."""
        return mean(_signs_or_nan(x))


class VoteCodec(GradientCodec):
    """signSGD with majority vote."""

    info: ClassVar[CodecInfo] = CodecInfo.of("vote", VOTE)

    def begin(self, x: Tensor, sequence: int, bucket: int) -> _SignRound:
        return _VoteRound(self, x)

    def ordinary(self, x: Tensor, mean: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the majority's signs, counted by the ordinary all-reduce."""
        # A mean of a few +-1 is 0 in a tie: their sum is exact.
        return _signs_or_nan(mean(_signs_or_nan(x)))
