# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the benchmark wants of a training task, whichever it is: its gradients, and a training over the network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from sumwire_lab.options.recipes import BASELINE, parse
from sumwire_lab.options.run_options import LinkOptions, RunOptions, TrainOptions
from sumwire_lab.options.tasks import TASKS as ALL
from sumwire_lab.run.experiment import Say
from sumwire_lab.run.records import Follower
from sumwire_lab.run.training_run import run
from sumwire_lab.training import digits_data as data
from sumwire_lab.training import workload as work
from sumwire_lab.training.trainer import make_optimizer

TASKS: Final = tuple(ALL)
# A digits model has learned by then.
QUICK_EPOCHS: Final = 8


class Recorder:
    """A training in one process by the mean gradient of as many workers, without compression."""

    def __init__(self, task: str, workers: int, seed: int = 1) -> None:
        self._options = TrainOptions.of(task, seed=seed)
        self._workers = workers
        self._samples = work.samples(self._options)
        self._network = work.network(self._options)
        self._parameters = list(self._network.parameters())
        self._optimizer = make_optimizer(parse(BASELINE), self._network, self._options)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of the parameters, in their order."""
        return tuple(tuple(parameter.shape) for parameter in self._parameters)

    def gradients(self, steps: Sequence[int]) -> Iterator[Tensor]:
        """At each of these steps, in rising order: every worker's gradient, float32 (workers, values)."""
        for step in range(max(steps) + 1):
            together = torch.stack([self._gradient(step, rank) for rank in range(self._workers)])
            if step in steps:
                yield together
            _apply(self._optimizer, self._parameters, together.mean(dim=0))

    def _gradient(self, step: int, rank: int) -> Tensor:
        samples, options = self._samples, self._options
        # So that many workers do not need more samples than there are.
        batch = min(options.batch, len(samples.train_y) // self._workers)
        chosen = data.batch_indices(
            len(samples.train_y), options.seed, step, rank=rank, workers=self._workers, batch=batch
        )
        loss = work.loss(self._network, samples.train_x[chosen], samples.train_y[chosen])
        return torch.cat([gradient.reshape(-1) for gradient in torch.autograd.grad(loss, self._parameters)])


def _apply(optimizer: torch.optim.Optimizer, parameters: Sequence[nn.Parameter], gradient: Tensor) -> None:
    """A step with a flat gradient."""
    pieces = torch.split(gradient, [parameter.numel() for parameter in parameters])
    for parameter, piece in zip(parameters, pieces, strict=True):
        parameter.grad = piece.view_as(parameter)
    optimizer.step()


@dataclass(frozen=True)
class Trained:
    """One training over the network: its entry of summary.json, and how the test accuracy went."""

    entry: dict[str, Any]
    target: float
    curve: tuple[tuple[float, float], ...]
    """(training seconds, accuracy 0 to 1), wherever the test was made."""


def train(
    task: str,
    system: str,
    *,
    link_mbit: float,
    seed: int,
    quick: bool,
    switch: str,
    engine: str,
    folder: Path,
    say: Say,
) -> Trained:
    """As `make run` does it, one system. Raises LabError."""
    options = RunOptions(
        link=LinkOptions(link_mbit),
        train=TrainOptions.of(task, seed=seed, epochs=QUICK_EPOCHS if quick else None),
        systems=(system,),
        switch=switch,
        engine=engine,
        deadline_s=DEADLINE_S,
    )
    summary, where = run(options, folder / task, say)
    follower = Follower(where / system / "worker0.jsonl")
    follower.poll()
    curve = tuple((step.clock_s, step.accuracy) for step in follower.record.steps if step.accuracy is not None)
    return Trained(summary["systems"][system], ALL[task].target, curve)


# The slowest: the transformer over gloo at 10 Mbit/s.
DEADLINE_S: Final = 3 * 3600.0
