# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the benchmark wants of a training task, whichever it is: its gradients, and a training over the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from sumwire_lab import data, model
from sumwire_lab.options import LinkOptions, RunOptions, TrainOptions
from sumwire_lab.records import Follower
from sumwire_lab.run import run
from sumwire_lab.session import Say

TASKS: Final = ("digits-mlp",)


@dataclass(frozen=True)
class Recording:
    """Gradients of a training in one process: at some steps, those of every worker at the same parameters."""

    task: str
    shapes: tuple[tuple[int, ...], ...]
    """Of the parameters, in their order."""
    steps: tuple[int, ...]
    gradients: tuple[Tensor, ...]
    """By step, float32 (workers, values)."""


def record(task: str, workers: int, steps: Sequence[int], seed: int = 1) -> Recording:
    """Train by the workers' mean gradient, without compression, up to the last of `steps`."""
    options = TrainOptions(seed=seed, max_steps=max(steps) + 1)
    digits = data.load()
    network = model.build(options.hidden, seed)
    parameters = list(network.parameters())
    optimizer = torch.optim.SGD(parameters, lr=options.learning_rate, momentum=0.9, nesterov=True)
    # So that many workers do not need more samples than there are.
    batch = min(options.batch, len(digits.train_y) // workers)
    kept = []
    for step in range(max(steps) + 1):
        of_workers = []
        for rank in range(workers):
            chosen = data.batch_indices(len(digits.train_y), seed, step, rank=rank, workers=workers, batch=batch)
            loss = torch.nn.functional.cross_entropy(network(digits.train_x[chosen]), digits.train_y[chosen])
            gradients = torch.autograd.grad(loss, parameters)
            of_workers.append(torch.cat([gradient.reshape(-1) for gradient in gradients]))
        together = torch.stack(of_workers)
        if step in steps:
            kept.append(together)
        _apply(optimizer, parameters, together.mean(dim=0))
    shapes = tuple(tuple(parameter.shape) for parameter in parameters)
    return Recording(task, shapes, tuple(sorted(steps)), tuple(kept))


@dataclass(frozen=True)
class Trained:
    """One training over the network: its entry of summary.json, and how the test accuracy went."""

    entry: dict[str, Any]
    target: float
    curve: tuple[tuple[float, float], ...]
    """(training seconds, accuracy 0 to 1) after every step."""


QUICK_EPOCHS: Final = 8


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
    epochs = QUICK_EPOCHS if quick else TrainOptions().epochs
    options = RunOptions(
        link=LinkOptions(link_mbit),
        train=TrainOptions(seed=seed, epochs=epochs),
        systems=(system,),
        switch=switch,
        engine=engine,
    )
    summary, where = run(options, folder / task, say)
    follower = Follower(where / system / "worker0.jsonl")
    follower.poll()
    curve = tuple((step.clock_s, step.accuracy) for step in follower.record.steps)
    return Trained(summary["systems"][system], summary["target_accuracy"], curve)


def _apply(optimizer: torch.optim.Optimizer, parameters: Sequence[torch.nn.Parameter], gradient: Tensor) -> None:
    """A step with a flat gradient."""
    pieces = torch.split(gradient, [parameter.numel() for parameter in parameters])
    for parameter, piece in zip(parameters, pieces, strict=True):
        parameter.grad = piece.view_as(parameter)
    optimizer.step()
