# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The interface of all systems."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NoReturn, SupportsIndex

import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer

from sumwire.checkpoint import Content, Kept, Place, Saved, place_of, refuse_pickling
from sumwire.errors import UsageError
from sumwire.job.job import Job
from sumwire.training.ddp import DdpState
from sumwire.training.optim import Inner

Stats = Callable[[], dict[str, float]]
DdpHook = tuple[object, Callable[[Any, Any], torch.futures.Future[Tensor]]]


class System(Saved):
    """One system on one worker. It serves one model.

    `state_dict` has all that its next steps depend on, the optimizer's state included, but not the model's. It needs
    the model: `attach` it, or register the hook of `hook_for`.
    """

    def __init__(self, name: str, transport: str, job: Job | None, stats: Stats) -> None:
        self.name = name
        self.transport = transport
        self.job = job
        self._stats = stats
        self._attached = False
        # Of the model, as the caller uses it.
        self._optimizer: Optimizer | None = None

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

    def hook_for(self, model: nn.Module) -> DdpHook:
        """Return the `hook` for a model, for callers that register it themselves and leave `attach` out."""
        return self.hook()

    @abstractmethod
    def refuse_nonfinite(self) -> None:
        """Raise NonFiniteError on all workers for a result with NaN or infinity. To be called before the system has a
        model."""

    def attach(self, model: nn.Module, optimizer: Optimizer, *, scaler: GradScaler | None = None) -> Optimizer:
        """Return the optimizer to use from now on; register the hook with a DistributedDataParallel model.

        ``scaler`` is the training's GradScaler: a hook's residuals then follow its scale.
        Raises UsageError for a second model, for one without parameters to train, and for one that the system cannot
        serve.
        """
        if self._attached:
            raise UsageError(f"system {self.name}: serves one model, and has it already: make another for this one")
        trained = [p for p in model.parameters() if p.requires_grad and p.numel()]
        if not trained:
            raise UsageError(f"system {self.name}: the model has no parameters: at least one must need gradients")
        self._check(trained)
        self._attached = True
        if isinstance(model, nn.parallel.DistributedDataParallel):
            state, hook = self.hook_for(model)
            if isinstance(state, DdpState):
                state.scaler = scaler
            model.register_comm_hook(state, hook)
            self._optimizer = self._with_hook(model, optimizer)
        else:
            self._optimizer = self._without_hook(model, optimizer)
        return self._optimizer

    def close(self) -> None:
        """End what the system has started. Closing the job is the caller's task."""
        return None

    def kind(self) -> str:
        return f"system {self.name} over a {self.transport}"

    def place(self) -> Place:
        return place_of(self.job)

    def kept(self) -> Content:
        """Return the state of everything in it. Raises UsageError before it has a model."""
        return Content.joined({name: part.kept() for name, part in self._all_parts().items()})

    def restore(self, content: Content, /) -> None:
        for name, part in self._all_parts().items():
            part.restore(content.part(name, self.kind()))

    def _all_parts(self) -> dict[str, Kept]:
        parts = self._parts()
        if self._optimizer is not None:
            own = self._optimizer
            parts["optimizer"] = own if isinstance(own, Kept) else Inner(own)
        if not parts:
            raise UsageError(f"system {self.name}: has no model yet, whose state it could be: attach it first")
        return parts

    def _parts(self) -> dict[str, Kept]:
        """Return what has a state besides the optimizer, by name."""
        return {}

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        refuse_pickling(self, "sockets and threads")

    def _check(self, parameters: list[nn.Parameter]) -> None:
        """Raise UsageError for a model that the system cannot serve, before anything is changed."""
        return None

    @abstractmethod
    def _with_hook(self, model: nn.Module, optimizer: Optimizer) -> Optimizer:
        """The optimizer for a model whose DDP has the system's hook."""

    @abstractmethod
    def _without_hook(self, model: nn.Module, optimizer: Optimizer) -> Optimizer:
        """The optimizer for a plain model."""
