# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The interface of all systems."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from sumwire.errors import UsageError
from sumwire.job.job import Job

Stats = Callable[[], dict[str, float]]
DdpHook = tuple[object, Callable[[Any, Any], torch.futures.Future[Tensor]]]


class System(ABC):
    """One system on one worker. It serves one model."""

    def __init__(self, name: str, transport: str, job: Job | None, stats: Stats) -> None:
        self.name = name
        self.transport = transport
        self.job = job
        self._stats = stats
        self._attached = False

    @property
    def stats(self) -> dict[str, float]:
        """Totals so far: ``operations``, and ``operation_s``, the seconds spent in them. Over a switch there are all
        counts of JobStats; over a group ``payload_bytes``, what this worker has handed to collectives or sent to its
        neighbours."""
        return self._stats()

    @abstractmethod
    def hook(self) -> DdpHook:
        """Return (state, DDP communication hook), for callers that register it themselves.

        They then leave `attach` out, or give it the plain model. A system that acts in the optimizer needs `attach`.
        """

    def attach(self, model: nn.Module, optimizer: Optimizer) -> Optimizer:
        """Return the optimizer to use from now on; register the hook with a DistributedDataParallel model.

        Raises UsageError for a second model, for one without parameters to train, and for one that the system cannot
        serve.
        """
        if self._attached:
            raise UsageError(f"system {self.name}: serves one model, and has it already")
        trained = [p for p in model.parameters() if p.requires_grad and p.numel()]
        if not trained:
            raise UsageError(f"system {self.name}: the model has no parameters: at least one must need gradients")
        self._check(trained)
        self._attached = True
        if isinstance(model, nn.parallel.DistributedDataParallel):
            model.register_comm_hook(*self.hook())
            return self._with_hook(model, optimizer)
        return self._without_hook(model, optimizer)

    def close(self) -> None:
        """End what the system has started. Closing the job is the caller's task."""
        return None

    def _check(self, parameters: list[nn.Parameter]) -> None:
        """Raise UsageError for a model that the system cannot serve, before anything is changed."""
        return None

    @abstractmethod
    def _with_hook(self, model: nn.Module, optimizer: Optimizer) -> Optimizer:
        """The optimizer for a model whose DDP has the system's hook."""

    @abstractmethod
    def _without_hook(self, model: nn.Module, optimizer: Optimizer) -> Optimizer:
        """The optimizer for a plain model."""
