# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""EF-signSGD (Karimireddy et al., ICML 2019, arXiv 1901.09847), with every worker's own scale.

A worker's scale is s = |g|_1 / d. Workers agree on the largest one, S, and a worker stands for q S / Q sign(g): q is
s / S in whole Q-ths, at least 1. Q is as large as a field of 6 bits allows, 63 // 2n for n workers. What that leaves
out of g is the residual, rounding of the scale included. A field is Q + q sign(g), and the result is the exact mean
of what the workers stand for.

Example: 4 workers, Q = 7. Of scales 16 and 1 the first worker sends +-7 sevenths of 16, the second +-1 seventh of it.

A tensor with NaN or infinity on some worker becomes NaN on all of them, as does a mean magnitude beyond float32.
"""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np
import torch
from numpy.typing import NDArray
from sumwire_protocol.ops import MAX32
from torch import Tensor

from sumwire.codec.base import CodecInfo, CodecRound, GradientCodec
from sumwire.codec.errors import CodecError
from sumwire.codec.fields import Fields
from sumwire.codec.norms import magnitude_sums, total
from sumwire.codec.values import check_kind, not_finite
from sumwire.numeric import is_whole

FIELDS: Final = Fields(6)
WORKERS_MAX: Final = FIELDS.most // 2


class EfSignCodec(GradientCodec):
    """EF-signSGD for one of ``workers``. Raises CodecError for more of them than a field counts."""

    info: ClassVar[CodecInfo] = FIELDS.info("ef-sign", MAX32.code)

    def __init__(self, *, workers: int) -> None:
        super().__init__()
        if not is_whole(workers, 1, WORKERS_MAX):
            rule = f"must be a whole number in 1..{WORKERS_MAX}, as many as a field counts"
            raise CodecError(f"workers = {workers!r}: {rule}")
        self.levels = FIELDS.most // (2 * workers)

    def begin(self, x: Tensor, sequence: int, bucket: int) -> CodecRound:
        """See GradientCodec. A mean magnitude beyond float32 counts as infinite."""
        return _EfSignRound(self, check_kind(x))


class _EfSignRound(CodecRound):
    def __init__(self, codec: EfSignCodec, x: Tensor) -> None:
        with np.errstate(over="ignore"):
            self._scale = np.float32(total(magnitude_sums(x)) / max(len(x), 1))
        if not np.isfinite(self._scale):
            x = torch.zeros_like(x)
            # NaN is sent, with the bits of NOT_FINITE.
            self._scale = np.float32(np.nan)
        super().__init__(codec, x, codec.chunks(len(x)), 1)
        self._levels = codec.levels
        # What the worker stands for, and the unit that sums are counted in.
        self._own = self._unit = 0.0

    def preliminary(self) -> NDArray[np.uint32]:
        """This worker's scale as float32 bits, shape (1,); NOT_FINITE if its values are not finite. Bits of floats from
        0 on order like the floats."""
        return np.array([self._scale], np.float32).view(np.uint32)

    def residual(self, included: NDArray[np.bool_] | None = None) -> Tensor:
        """x minus what this worker stands for; x itself in chunks where it is not included."""
        self._check_residual(included)
        signs = torch.where(self._x >= 0, self._own, -self._own)
        left = torch.sub(self._x, signs, out=self._new_result())
        if included is not None:
            for chunk in np.flatnonzero(~included):
                values = slice(int(chunk) * FIELDS.chunk_values, (int(chunk) + 1) * FIELDS.chunk_values)
                left[values] = self._x[values]
        return left

    def _encode_part(self, agreed: NDArray[np.uint32], first: int, last: int, out: NDArray[np.uint8]) -> None:
        """Write the fields. Raises CodecError unless `agreed` is a scale."""
        if agreed.dtype != np.uint32 or agreed.shape != (1,):
            raise CodecError(f"{agreed.dtype} scales of shape {agreed.shape}: needs uint32 (1,)")
        self._spoiled[first:last] = spoiled = bool(not_finite(agreed)[0])
        largest = 0.0 if spoiled else float(np.ascontiguousarray(agreed).view(np.float32)[0])
        if not 0 <= largest < np.inf:
            raise CodecError(f"scale {largest}: must be finite and not negative, or NaN without a sign")
        steps = self._steps(largest)
        self._unit = largest / self._levels
        self._own = steps * self._unit
        here = self._x[first * FIELDS.chunk_values : last * FIELDS.chunk_values]
        fields = np.zeros((last - first) * FIELDS.chunk_values, np.int32)
        fields[: len(here)] = torch.where(here >= 0, self._levels + steps, self._levels - steps).cpu().numpy()
        out[:] = FIELDS.pack(fields)

    def _decode_part(
        self, first: int, last: int, words: NDArray[np.uint8], counts: NDArray[np.int64], target: Tensor
    ) -> None:
        """Write the means; zeros for a chunk without contributors."""
        FIELDS.check_counts(counts, 2 * self._levels)
        sums = FIELDS.unpack(words)
        units = self._unit / np.maximum(self._divisors(counts), 1)
        means = np.where(counts > 0, units, 0.0)[:, None] * (sums - self._levels * counts[:, None])
        here = target[first * FIELDS.chunk_values : last * FIELDS.chunk_values]
        here.copy_(torch.from_numpy(means.reshape(-1)[: len(here)]))

    def _steps(self, largest: float) -> int:
        """The worker's scale in steps; all of them where others agreed without this worker, on less."""
        if not largest or np.isnan(self._scale):
            return 0
        return min(max(round(float(self._scale) / largest * self._levels), 1), self._levels)
