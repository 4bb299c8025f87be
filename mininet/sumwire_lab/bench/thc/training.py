# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Trains the digits with a variant of THC, all workers in one process, and compares each mean with the true one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from sumwire_lab.bench.thc.sums import Sums, without
from sumwire_lab.options.recipes import MOMENTUM
from sumwire_lab.options.run_options import TrainOptions
from sumwire_lab.options.thc_variants import ThcOptions, Variant
from sumwire_lab.training import digits_data, workload
from sumwire_lab.training.digits_data import Samples
from sumwire_lab.training.model import learning_rate_factor

LEARNING_RATE: Final = 0.1


@dataclass(frozen=True)
class Trained:
    """Accuracy and cross entropy on the test samples at the end. NMSE of the mean, against that of what the workers
    encoded: the mean over all steps."""

    accuracy: float
    bits: float
    nmse: float


def train(variant: Variant | None, workers: int, seed: int, options: ThcOptions, samples: Samples) -> Trained:
    """Train with a variant; None for the exact mean."""
    own = TrainOptions(hidden=options.hidden, seed=seed)
    network = workload.network(own)
    optimizer = torch.optim.SGD(network.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM, nesterov=True)
    batch = options.samples // workers
    a_pass = digits_data.steps_per_epoch(len(samples.train_x), workers, batch)
    steps = options.epochs * a_pass
    sums = None if variant is None else Sums(variant, workers, torch.Generator().manual_seed(seed))
    draws = np.random.default_rng(seed)
    kept: Tensor | float = 0.0
    errors = []
    for step in range(steps):
        x = _gradients(network, samples, _batches(samples, workers, batch, seed, step)) + kept
        mean = x.mean(dim=0)
        if sums is not None and variant is not None:
            present = without(workers, sums.chunks(x.shape[1]), options.left_out, options.loss, draws)
            found, left = sums.mean(x, present)
            errors.append(float((found - mean).square().sum() / mean.square().sum()))
            mean, kept = found, left if variant.feedback else 0.0
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * learning_rate_factor(step, steps)
        _apply(network, optimizer, mean)
    score = workload.score(network, samples)
    return Trained(score.accuracy, score.bits, float(np.mean(errors)) if errors else 0.0)


def _batches(samples: Samples, workers: int, batch: int, seed: int, step: int) -> list[Tensor]:
    """Numbers of the samples that each worker has in a step."""
    count = len(samples.train_x)
    return [
        digits_data.batch_indices(count, seed, step, rank=rank, workers=workers, batch=batch) for rank in range(workers)
    ]


def _gradients(network: torch.nn.Module, samples: Samples, batches: list[Tensor]) -> Tensor:
    """Every worker's gradient, a row each."""
    rows = []
    for chosen in batches:
        loss = workload.loss(network, samples.train_x[chosen], samples.train_y[chosen])
        rows.append(torch.cat([one.flatten() for one in torch.autograd.grad(loss, list(network.parameters()))]))
    return torch.stack(rows)


def _apply(network: torch.nn.Module, optimizer: torch.optim.Optimizer, gradient: Tensor) -> None:
    place = 0
    for parameter in network.parameters():
        parameter.grad = gradient[place : place + parameter.numel()].view_as(parameter).clone()
        place += parameter.numel()
    optimizer.step()
