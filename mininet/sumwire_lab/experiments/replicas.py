# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Trains the digits with several workers as threads of one process, without a network: only accuracy counts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from sumwire.training.collective import Threads, ThreadsEnd
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from sumwire_lab.errors import LabError
from sumwire_lab.training import digits_data, model

WORKERS: Final = 4
BATCH: Final = 32
# A narrower network than the lab's, for many trainings; 85,002 parameters.
HIDDEN: Final = 256
EPOCHS: Final = 20
_JOIN_SECONDS: Final = 3600.0

Optimizing = Callable[[torch.nn.Module, ThreadsEnd], Optimizer]
"""From a worker's model and its end of the collective to its optimizer."""


@dataclass(frozen=True)
class Digits:
    """One training. ``optimizing`` gives every worker its optimizer. Learning rates are constant, or follow the lab's
    schedule if ``scheduled``."""

    optimizing: Optimizing
    seed: int
    workers: int = WORKERS
    epochs: int = EPOCHS
    scheduled: bool = False

    def accuracy(self) -> float:
        """The share of test images that the trained network gets right. Raises LabError if replicas differ."""
        threads, scores = Threads(self.workers, self.seed), [(0.0, "")] * self.workers
        samples = digits_data.load()

        def work(rank: int) -> None:
            try:
                scores[rank] = self._train(rank, samples, networks[rank], threads.of(rank))
            except BaseException:
                threads.abort()
                raise

        # Torch's seed is the process's: networks are made before the threads begin.
        networks = [self._network() for _ in range(self.workers)]
        members = [threading.Thread(target=work, args=(rank,), daemon=True) for rank in range(self.workers)]
        for member in members:
            member.start()
        for member in members:
            member.join(_JOIN_SECONDS)
        if len(set(scores)) != 1 or not scores[0][1]:
            raise LabError(f"replicas differ at the end of a training: {scores}")
        return scores[0][0]

    def _network(self) -> torch.nn.Module:
        torch.manual_seed(self.seed)
        return model.mlp(HIDDEN)

    def _train(
        self, rank: int, samples: digits_data.Samples, network: torch.nn.Module, end: ThreadsEnd
    ) -> tuple[float, str]:
        optimizer = self.optimizing(network, end)
        known = len(samples.train_y)
        steps = self.epochs * digits_data.steps_per_epoch(known, self.workers, BATCH)
        schedule = LambdaLR(optimizer, lambda step: model.learning_rate_factor(step, steps) if self.scheduled else 1.0)
        for step in range(steps):
            chosen = digits_data.batch_indices(known, self.seed, step, rank=rank, workers=self.workers, batch=BATCH)
            optimizer.zero_grad()
            loss = cross_entropy(network(samples.train_x[chosen]), samples.train_y[chosen])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
        with torch.no_grad():
            right = (network(samples.test_x).argmax(dim=1) == samples.test_y).float().mean()
        return float(right), model.fingerprint(network)
