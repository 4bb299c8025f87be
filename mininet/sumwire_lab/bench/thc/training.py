# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Trains the digits with a variant of THC, all workers in one process, and compares each mean with the true one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from sumwire_lab.bench.thc.baselines import DGC, TERNGRAD, TOP_K, Baseline, Dgc, TernGrad, TopK
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
    """Accuracy and cross entropy on the test samples at the end. NMSE of THC's mean, against that of what the
    workers encoded: the mean over all steps."""

    accuracy: float
    bits: float
    nmse: float | None


def train(case: Variant | str | None, workers: int, seed: int, options: ThcOptions, samples: Samples) -> Trained:
    """Train with a variant, or a baseline by its name; None for the exact mean."""
    own = TrainOptions(hidden=options.hidden, seed=seed)
    network = workload.network(own)
    batch = options.samples // workers
    a_pass = digits_data.steps_per_epoch(len(samples.train_x), workers, batch)
    steps = options.epochs * a_pass
    draws = torch.Generator().manual_seed(seed)
    through: Baseline | _Thc | None = None
    if isinstance(case, Variant):
        through = _Thc(case, workers, options, draws)
    elif case is not None:
        through = _baseline(case, [one.numel() for one in network.parameters()], a_pass, draws)
    within = isinstance(through, Baseline) and through.momentum
    momentum = 0.0 if within else MOMENTUM
    optimizer = torch.optim.SGD(network.parameters(), lr=LEARNING_RATE, momentum=momentum, nesterov=not within)
    for step in range(steps):
        x = _gradients(network, samples, _batches(samples, workers, batch, seed, step))
        mean = x.mean(dim=0) if through is None else through.mean(x, step)
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * learning_rate_factor(step, steps)
        _apply(network, optimizer, mean)
    score = workload.score(network, samples)
    return Trained(score.accuracy, score.bits, through.nmse if isinstance(through, _Thc) else None)


class _Thc:
    """A variant with its error feedback, and with what late workers and losses leave out."""

    def __init__(self, variant: Variant, workers: int, options: ThcOptions, draws: torch.Generator) -> None:
        self._sums = Sums(variant, workers, draws)
        self._feedback = variant.feedback
        self._options = options
        self._missing = np.random.default_rng(draws.initial_seed())
        self._kept: Tensor | float = 0.0
        self._errors: list[float] = []

    @property
    def nmse(self) -> float:
        return float(np.mean(self._errors))

    def mean(self, x: Tensor, step: int) -> Tensor:
        x = x + self._kept
        chunks = self._sums.chunks(x.shape[1])
        present = without(len(x), chunks, self._options.left_out, self._options.loss, self._missing)
        found, left = self._sums.mean(x, present)
        true = x.mean(dim=0)
        self._errors.append(float((found - true).square().sum() / true.square().sum()))
        self._kept = left if self._feedback else 0.0
        return found


def _baseline(name: str, sizes: list[int], steps_per_pass: int, draws: torch.Generator) -> Baseline:
    made: dict[str, Callable[[], Baseline]] = {
        TERNGRAD: lambda: TernGrad(sizes, draws),
        TOP_K: lambda: TopK(0.1),
        DGC: lambda: Dgc(0.001, MOMENTUM, steps_per_pass),
    }
    return made[name]()


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
