# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Checks in float64 that Marsit's compensation loses nothing: x - mean(compensation) equals uncompressed training.

The gradients are drawn, not computed from x, so that both trainings have the same.
"""

from __future__ import annotations

import threading
from typing import Final

import torch
from sumwire.training.collective import Threads
from sumwire.training.optim import Marsit

WORKERS: Final = 4
VALUES: Final = 257
ROUNDS: Final = 150
_LEARNING_RATE: Final = 0.1
_GLOBAL_LR: Final = 0.01
_JOIN_SECONDS: Final = 60.0
CASES: Final = tuple((momentum, every) for momentum in (0.0, 0.9) for every in (None, 10))
"""Momentum of the local SGD, and the period of rounds in full precision."""


def largest_deviation() -> float:
    """The largest deviation of all cases, rounds and values."""
    return max(deviation(momentum, every) for momentum, every in CASES)


def deviation(momentum: float, every: int | None) -> float:
    """The largest |x - mean(c) - y| of any round. c: compensations; y: SGD on the mean gradient."""
    generator = torch.Generator().manual_seed(1)
    gradients = torch.randn(ROUNDS, WORKERS, VALUES, generator=generator, dtype=torch.float64)
    start = torch.randn(VALUES, generator=generator, dtype=torch.float64)
    threads = Threads(WORKERS)
    paths = torch.zeros(WORKERS, ROUNDS, VALUES, dtype=torch.float64)
    kept = torch.zeros_like(paths)

    def work(worker: int) -> None:
        try:
            walk(worker)
        except BaseException:
            threads.abort()
            raise

    def walk(worker: int) -> None:
        x = torch.nn.Parameter(start.clone())
        local = torch.optim.SGD([x], lr=_LEARNING_RATE, momentum=momentum)
        optimizer = Marsit(local, threads.of(worker), global_lr=_GLOBAL_LR, full_precision_every=every)
        for round_ in range(ROUNDS):
            x.grad = gradients[round_, worker].clone()
            optimizer.step()
            paths[worker, round_] = x.detach()
            if optimizer.compensation is not None:
                kept[worker, round_] = optimizer.compensation

    members = [threading.Thread(target=work, args=(worker,), daemon=True) for worker in range(WORKERS)]
    for member in members:
        member.start()
    for member in members:
        member.join(_JOIN_SECONDS)
    return float((paths[0] - kept.mean(dim=0) - _uncompressed(start, gradients, momentum)).abs().max())


def _uncompressed(start: torch.Tensor, gradients: torch.Tensor, momentum: float) -> torch.Tensor:
    """SGD on the mean gradients: x after every round."""
    x = torch.nn.Parameter(start.clone())
    optimizer = torch.optim.SGD([x], lr=_LEARNING_RATE, momentum=momentum)
    path = []
    for gradient in gradients.mean(dim=1):
        x.grad = gradient.clone()
        optimizer.step()
        path.append(x.detach().clone())
    return torch.stack(path)
