# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""SSDM: stochastic sign descent with momentum (Safaryan, Richtarik, ICML 2021, arXiv 1905.12938).

A worker keeps a momentum m = momentum x m + g. A sign is plus with probability 1/2 + m_i / (2 |m|_2), so its mean is
m / |m|_2. The result is the mean of the workers' signs. A zero momentum gives signs of mean zero.

Signs of plus are counted in fields of 5 bits (:mod:`sumwire.codec.fields`), so at most 31 workers take part. Padding is
sent as minus.

A worker's tensor with NaN or infinity is sent with the flag OVERFLOW, which the result keeps: all of it becomes NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sumwire.codec.base import CodecInfo, CodecRound, GradientCodec
from sumwire.codec.errors import CodecError
from sumwire.codec.fields import Fields
from sumwire.codec.norms import total, wide_square_sums
from sumwire.codec.seeds import RoundingStream
from sumwire.codec.sign_bits import draw_signs
from sumwire.codec.values import check_kind, result_dtype
from sumwire.numeric import is_number

FIELDS: Final = Fields(5)
MOMENTUM: Final = 0.9
CHUNK_VALUES: Final = FIELDS.chunk_values


def check_momentum(momentum: float) -> None:
    """Raises CodecError for a momentum that is not from 0 to below 1."""
    if not is_number(momentum) or not 0 <= momentum < 1:
        raise CodecError(f"momentum = {momentum!r}: must be from 0 to below 1")


class SsdmCodec(GradientCodec):
    """Stochastic signs of one worker of one job, counted. What a round leaves for the next is ``momentum`` times its
    tensor. Raises CodecError for a momentum that is not from 0 to below 1."""

    info: ClassVar[CodecInfo] = FIELDS.info("ssdm")

    def __init__(self, *, job: int, worker: int, momentum: float = MOMENTUM) -> None:
        super().__init__()
        check_momentum(momentum)
        self.job = job
        self.worker = worker
        self.momentum = momentum

    def begin(self, x: Tensor, sequence: int, bucket: int) -> CodecRound:
        return _SsdmRound(self, check_kind(x), sequence, bucket)

    def ordinary(self, x: Tensor, mean: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the expectation of the stochastic signs."""
        return mean(_direction(x).to("cpu", torch.float32))

    def left_by_ordinary(self, x: Tensor) -> Tensor:
        """The momentum that the next gradient is added to, as after a round."""
        return self.left_unsent(x)

    def left_unsent(self, x: Tensor) -> Tensor:
        return super().left_unsent(x).mul_(self.momentum)


class _SsdmRound(CodecRound):
    def __init__(self, codec: SsdmCodec, x: Tensor, sequence: int, bucket: int) -> None:
        self._inverse = _inverse_norm(x)
        self._finite = not math.isnan(self._inverse)
        super().__init__(codec, x if self._finite else torch.zeros_like(x), codec.chunks(len(x)), 1)
        self._momentum = codec.momentum
        self._stream = RoundingStream.of(codec.job, codec.worker, sequence, bucket, x.device)

    @property
    def outside(self) -> NDArray[np.bool_] | None:
        return None if self._finite else np.ones(self.chunks, np.bool_)

    def residual(self, included: NDArray[np.bool_] | None = None) -> Tensor:
        """The momentum that the next gradient is added to, whoever was included."""
        self._check_residual(included)
        return torch.mul(self._x, self._momentum, out=self._new_result())

    def _encode_part(self, agreed: NDArray[np.uint32], first: int, last: int, out: NDArray[np.uint8]) -> None:
        values = self._x[first * CHUNK_VALUES : last * CHUNK_VALUES]
        octets = np.zeros((last - first) * CHUNK_VALUES // 8, np.uint8)
        if len(values):
            inverse = self._inverse if self._finite else 0.0
            draw_signs(values, inverse, self._stream, first * CHUNK_VALUES, octets)
        out[:] = FIELDS.pack(np.unpackbits(octets).astype(np.int32))

    def _decode_part(
        self, first: int, last: int, words: NDArray[np.uint8], counts: NDArray[np.int64], target: Tensor
    ) -> None:
        """Write the means of signs; zeros for a chunk without contributors."""
        FIELDS.check_counts(counts, 1)
        plus = FIELDS.unpack(words)
        divisors = np.maximum(self._divisors(counts), 1)[:, None]
        means = np.where(counts[:, None] > 0, (2 * plus - counts[:, None]) / divisors, 0.0)
        here = target[first * CHUNK_VALUES : last * CHUNK_VALUES]
        here.copy_(torch.from_numpy(means.reshape(-1)[: len(here)]))

    def _take_overflows(self, first: int, last: int, overflows: NDArray[np.bool_]) -> None:
        self._spoiled[first:last] = overflows


def _direction(x: Tensor) -> Tensor:
    """g / |g|_2, zeros for a zero gradient."""
    return x.to(torch.float64).mul_(_inverse_norm(x)).to(result_dtype(x))


def _inverse_norm(x: Tensor) -> float:
    """1 / |x|_2, 0 for a norm of 0 or one beyond float64; NaN if a value is NaN or infinite."""
    norm = math.sqrt(total(wide_square_sums(x)))
    # Of finite values, the sum of squares is only infinite for float64.
    if norm == math.inf and not bool(torch.isfinite(x).all()):
        return math.nan
    return 1.0 / norm if norm else 0.0
