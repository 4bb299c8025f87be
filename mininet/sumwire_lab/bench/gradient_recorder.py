# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Gradients of real trainings, recorded in one process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from sumwire_lab.options.recipes import BASELINE, parse
from sumwire_lab.options.run_options import TrainOptions
from sumwire_lab.training import digits_data, workload
from sumwire_lab.training.trainer import make_optimizer


class Recorder:
    """Trains one model in this process with the mean gradient of several workers, without compression."""

    def __init__(self, task: str, workers: int, seed: int = 1) -> None:
        self._options = TrainOptions.of(task, seed=seed)
        self._workers = workers
        self._samples = workload.samples(self._options)
        self._network = workload.network(self._options)
        self._parameters = list(self._network.parameters())
        self._optimizer = make_optimizer(parse(BASELINE), self._network, self._options)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the parameters, in their order."""
        return tuple(tuple(parameter.shape) for parameter in self._parameters)

    def gradients(self, steps: Sequence[int]) -> Iterator[Tensor]:
        """Train, and yield all workers' gradients at these steps, in rising order: float32 (workers, values)."""
        for step in range(max(steps) + 1):
            together = torch.stack([self._gradient(step, rank) for rank in range(self._workers)])
            if step in steps:
                yield together
            _apply(self._optimizer, self._parameters, together.mean(dim=0))

    def _gradient(self, step: int, rank: int) -> Tensor:
        samples, options = self._samples, self._options
        # Smaller with many workers: there are only so many samples.
        batch = min(options.batch, len(samples.train_y) // self._workers)
        chosen = digits_data.batch_indices(
            len(samples.train_y), options.seed, step, rank=rank, workers=self._workers, batch=batch
        )
        loss = workload.loss(self._network, samples.train_x[chosen], samples.train_y[chosen])
        return torch.cat([gradient.reshape(-1) for gradient in torch.autograd.grad(loss, self._parameters)])


def _apply(optimizer: torch.optim.Optimizer, parameters: Sequence[nn.Parameter], gradient: Tensor) -> None:
    """One optimizer step with a flat gradient."""
    pieces = torch.split(gradient, [parameter.numel() for parameter in parameters])
    for parameter, piece in zip(parameters, pieces, strict=True):
        parameter.grad = piece.view_as(parameter)
    optimizer.step()
