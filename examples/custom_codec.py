# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A codec of your own: fixed point with a fixed range, summed by the op SUM32.

    python examples/custom_codec.py

A codec turns a flat tensor into words (`_encode_part`) and the sums of all workers' words into the mean
(`_decode_part`). The library needs no change: ``job.reduce_with(codec, tensor)`` takes any codec whose op the job has.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import loopback
import numpy as np
import sumwire
import torch
from numpy.typing import NDArray
from sumwire.codec.base import CodecInfo, CodecRound, GradientCodec
from sumwire_protocol.ops import SUM32
from torch import Tensor

VALUES_PER_CHUNK = SUM32.values  # 8 words of 32 elements
STEP = 2.0**-16  # values are rounded to multiples of this
LIMIT = 2.0**12  # and clipped here, so that the sum of 7 ranks fits an element


class FixedPointCodec(GradientCodec):
    """Rounds values to multiples of STEP and clips them to ±LIMIT. At most 7 workers."""

    info: ClassVar[CodecInfo] = CodecInfo.of("fixed", SUM32)

    def begin(self, x: Tensor, sequence: int, bucket: int) -> CodecRound:
        return FixedPointRound(self, x, self.chunks(len(x)), 1)


class FixedPointRound(CodecRound):
    """One tensor on its way."""

    def _encode_part(self, agreed: NDArray[np.uint32], first: int, last: int, out: NDArray[np.uint8]) -> None:
        values = self._x[first * VALUES_PER_CHUNK : last * VALUES_PER_CHUNK].clamp(-LIMIT, LIMIT)
        elements = np.zeros((last - first) * VALUES_PER_CHUNK, ">i4")
        elements[: len(values)] = (values / STEP).round().numpy()
        out[:] = elements.view(np.uint8).reshape(out.shape)

    def _decode_part(
        self, first: int, last: int, words: NDArray[np.uint8], counts: NDArray[np.int64], target: Tensor
    ) -> None:
        sums = np.ascontiguousarray(words).view(">i4").reshape(last - first, VALUES_PER_CHUNK).astype(np.float64)
        means = torch.from_numpy(sums / np.maximum(counts, 1)[:, None]) * STEP
        part = target[first * VALUES_PER_CHUNK : last * VALUES_PER_CHUNK]
        part.copy_(means.flatten()[: len(part)])

    def residual(self, included: NDArray[np.bool_] | None = None) -> Tensor:
        self._check_residual(included)
        sent: Tensor = (self._x.clamp(-LIMIT, LIMIT) / STEP).round() * STEP
        if included is not None:  # chunks that the sum lacks were not sent
            sent = sent * torch.from_numpy(included.repeat(VALUES_PER_CHUNK)[: len(sent)])
        return self._x - sent


def work(rank: int, job_file: Path) -> None:
    tensors = [torch.randn(10_000, generator=torch.Generator().manual_seed(other)) for other in range(2)]
    config = sumwire.load_job(job_file, worker=rank)
    with sumwire.Job(config) as job:
        mean, residual = job.reduce_with(FixedPointCodec(), tensors[rank])
        assert float(residual().abs().max()) <= STEP / 2
    error = float((mean - sum(tensors) / 2).abs().max())
    assert error <= STEP
    loopback.say(rank, f"largest error of the mean: {error:.2e}; a step is {STEP:.2e}")


if __name__ == "__main__":
    loopback.run(work, ranks=2, ops=["sum32", "max32"])
