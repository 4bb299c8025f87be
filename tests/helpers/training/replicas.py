# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Several workers training in threads of one process, and the same training done by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from helpers.transport.udp_bridge import run_workers
from sumwire.training.optim import Marsit
from sumwire.training.reductions import Collective, Threads
from torch import Tensor, nn
from torch.optim import Optimizer

WORKERS = 4

INNER: dict[str, Callable[[Iterable[Any]], Optimizer]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.05),
    "momentum": lambda parameters: torch.optim.SGD(
        parameters, lr=0.005, momentum=0.9, nesterov=True, weight_decay=1e-3
    ),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
}


def net(dtype: torch.dtype = torch.float64) -> nn.Sequential:
    """A small model in `dtype`, with equal weights at every call."""
    generator = torch.Generator().manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 2)).to(torch.float64)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) / 2)
    return model.to(dtype)


def batch(worker: int, step: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Data of its own for every worker and step."""
    generator = torch.Generator().manual_seed(1000 * worker + step)
    x = torch.randn(8, 6, generator=generator, dtype=torch.float64)
    return x.to(dtype), torch.stack([x.sum(1), x[:, 0] * x[:, 1]], 1).to(dtype)


def backward(model: nn.Module, worker: int, step: int) -> float:
    """Gradients of one batch; returns the loss."""
    dtype = next(model.parameters()).dtype
    x, y = batch(worker, step, dtype)
    model.zero_grad()
    loss = (model(x) - y).square().mean()
    loss.backward()  # type: ignore[no-untyped-call]
    return float(loss.detach())


def flat(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()]).clone()


def in_threads(work: Callable[[int, Collective], Any], workers: int = WORKERS, seed: int = 1) -> list[Any]:
    """``work(worker, collective)`` on every worker."""
    threads = Threads(workers, seed)

    def run(worker: int) -> Any:
        try:
            return work(worker, threads.of(worker))
        except BaseException:
            threads.abort()
            raise

    return run_workers(run, workers)


def steps_of(
    model: nn.Module, marsit: Marsit, worker: int, steps: range, between: Callable[[int], None] = lambda step: None
) -> None:
    """Make these rounds, with gradients by worker and step; call ``between`` after each."""
    for step in steps:
        backward(model, worker, step)
        marsit.step()
        between(step)
