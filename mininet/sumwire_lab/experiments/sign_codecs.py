# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""SSDM's accuracy on the digits, and what EF-signSGD leaves out where the workers' scales differ.

The codecs are those of a job. Their packets are summed here as a switch does it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from sumwire.codec.ef_sign import EfSignCodec
from sumwire.codec.ssdm import SsdmCodec
from sumwire.training.collective import ThreadsEnd
from sumwire.training.optim import GradientSync
from torch import Tensor
from torch.optim import Optimizer

from sumwire_lab.experiments.replicas import Optimizing

SSDM_RATE: Final = 0.03
SSDM_EPOCHS: Final = 40
ROUNDS: Final = 1000
VALUES: Final = 512
SCALES: Final = (1.0, 2.0, 4.0, 16.0)


def ssdm(*, momentum: float, rate: float = SSDM_RATE) -> Optimizing:
    """SGD on the mean of the workers' stochastic signs."""

    def made(network: torch.nn.Module, end: ThreadsEnd) -> Optimizer:
        codec, sequence = SsdmCodec(job=1, worker=end.worker, momentum=momentum), count()

        def reduce(x: Tensor, number: int) -> tuple[Tensor, Callable[[], Tensor]]:
            round_ = codec.begin(x, next(sequence), number)
            words = round_.encode(round_.preliminary())
            # Elements are integers below 2^30: their mean times the workers is exact in float64.
            elements, workers = torch.from_numpy(words.view(">u4").astype(np.float64)), end.workers
            sums = (end.mean(elements) * workers).round().numpy().astype(">u4").view(np.uint8)
            return round_.decode(sums, np.full(round_.chunks, workers)), round_.residual

        return GradientSync(torch.optim.SGD(network.parameters(), lr=rate), reduce)

    return made


def ef_sign_error(scales: tuple[float, ...] = SCALES, *, rounds: int = ROUNDS, values: int = VALUES) -> float:
    """The squared error of EF-signSGD's mean over the rounds, over the mean's square. Every worker has one gradient,
    and their scales differ."""
    generator = np.random.default_rng(1)
    gradients = [torch.from_numpy((scale * generator.standard_normal(values)).astype(np.float32)) for scale in scales]
    codec = EfSignCodec(workers=len(scales))
    residuals = [torch.zeros(values) for _ in scales]
    total = torch.zeros(values, dtype=torch.float64)
    for sequence in range(rounds):
        begun = [codec.begin(g + left, sequence, 0) for g, left in zip(gradients, residuals, strict=True)]
        agreed: NDArray[np.uint32] = np.max([round_.preliminary() for round_ in begun], axis=0)
        elements = [round_.encode(agreed).view(">u4").astype(np.int64) for round_ in begun]
        sums = np.sum(elements, axis=0).astype(">u4").view(np.uint8)
        total += begun[0].decode(sums, np.full(begun[0].chunks, len(scales)))
        residuals = [round_.residual() for round_ in begun]
    mean = torch.stack(gradients).to(torch.float64).mean(0)
    return float((total / rounds - mean).square().sum() / mean.square().sum())
