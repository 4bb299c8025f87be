# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Workers as threads of one process, and the transports of ACP-SGD without a network."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from helpers.codec.codecs import add_elements
from helpers.transport.udp_bridge import run_workers
from sumwire.codec import oracles, tables
from sumwire.codec.base import CodecRound
from sumwire.codec.sum32 import Sum32Codec
from sumwire.codec.thc import ThcCodec
from sumwire.job.job import Residual
from sumwire.training.ddp import Reduce
from torch import Tensor, nn

# All workers' buffers, how many came before, the number -> each worker's (mean, residual).
Combine = Callable[[Sequence[Tensor], int, int], Sequence[tuple[Tensor, Tensor]]]


class Barrier:
    """A reduce for every worker; ``log`` has (number, length) of every buffer, ``means`` what came out."""

    def __init__(self, workers: int, combine: Combine) -> None:
        self.log: list[tuple[int, int]] = []
        self.means: list[Tensor] = []
        self._combine = combine
        self._given: list[tuple[Tensor, int]] = [(torch.zeros(0), 0)] * workers
        self._results: Sequence[tuple[Tensor, Tensor]] = []
        self.inner = threading.Barrier(workers, self._meet)

    def of(self, worker: int) -> Reduce:
        def reduce(x: Tensor, number: int) -> tuple[Tensor, Residual]:
            self._given[worker] = (x, number)
            self.inner.wait(30)
            mean, residual = self._results[worker]
            return mean.clone(), residual.clone

        return reduce

    def _meet(self) -> None:
        numbers = {number for _, number in self._given}
        lengths = {len(x) for x, _ in self._given}
        assert len(numbers) == len(lengths) == 1, f"workers reduce different things: {numbers} {lengths}"
        number = numbers.pop()
        self._results = self._combine([x for x, _ in self._given], len(self.log), number)
        self.log.append((number, lengths.pop()))
        self.means.append(self._results[0][0].clone())


def exact(given: Sequence[Tensor], sequence: int, number: int) -> list[tuple[Tensor, Tensor]]:
    """The mean, and nothing left out."""
    mean = torch.stack(list(given)).mean(0)
    return [(mean, torch.zeros_like(mean)) for _ in given]


def sum32(given: Sequence[Tensor], sequence: int, number: int) -> list[tuple[Tensor, Tensor]]:
    """Fixed point as the switch does it; a sum that leaves int32 fails."""
    codec = Sum32Codec(workers=len(given))
    return _by_codec([codec.begin(x, sequence, number) for x in given], add_elements)


def thc(given: Sequence[Tensor], sequence: int, number: int) -> list[tuple[Tensor, Tensor]]:
    """THC as the switch does it."""
    table = tables.for_workers(len(given))
    rounds = [
        ThcCodec(table, job=1, worker=worker, block=1024).begin(x, sequence, number) for worker, x in enumerate(given)
    ]
    return _by_codec(rounds, lambda words: oracles.sum_words(table, words))


def _by_codec(
    rounds: Sequence[CodecRound], add: Callable[[Sequence[np.ndarray[Any, Any]]], np.ndarray[Any, Any]]
) -> list[tuple[Tensor, Tensor]]:
    agreed = np.maximum.reduce([one.preliminary() for one in rounds])
    total = add([one.encode(agreed) for one in rounds])
    counts = np.full(len(total), len(rounds))
    return [(one.decode(total, counts), one.residual()) for one in rounds]


def together(barrier: Barrier, workers: int, work: Callable[[int, Any], Any]) -> list[Any]:
    """``work(worker, reduce)`` on every worker."""

    def run(worker: int) -> Any:
        try:
            return work(worker, barrier.of(worker))
        except BaseException:
            barrier.inner.abort()
            raise

    return run_workers(run, workers)


def net(dtype: torch.dtype = torch.float32) -> nn.Sequential:
    """A convolution, matrices of both orientations and 1-D tensors; the same weights at every call."""
    generator = torch.Generator().manual_seed(3)
    model = nn.Sequential(
        nn.Conv2d(2, 6, 3), nn.Flatten(), nn.Linear(24, 40), nn.LayerNorm(40), nn.Tanh(), nn.Linear(40, 10)
    ).to(torch.float64)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) / 4)
    return model.to(dtype)


def loss_of(model: nn.Module, worker: int, step: int) -> Tensor:
    """Data of its own for every worker and step."""
    dtype = next(model.parameters()).dtype
    generator = torch.Generator().manual_seed(1000 * worker + step)
    x = torch.randn(16, 2, 4, 4, generator=generator, dtype=torch.float64).to(dtype)
    loss: Tensor = (model(x) - x.flatten(1)[:, :10]).square().mean()
    return loss


def flat(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()]).clone()
