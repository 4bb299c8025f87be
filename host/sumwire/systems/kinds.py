# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The interface of all systems, and the kinds there are: some replace gradients, others the optimizer."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from sumwire.errors import UsageError
from sumwire.job.job import Job, Residual
from sumwire.lowrank.fusion import make_plan
from sumwire.lowrank.sync import AcpSgd
from sumwire.training.collective import Collective
from sumwire.training.comm_thread import CommThread
from sumwire.training.ddp import DdpState, Reduce, ddp_hook, local_hook
from sumwire.training.optim import GradientSync, Marsit

if TYPE_CHECKING:
    from sumwire.dlcp.lanes import Lanes
    from sumwire.dlcp.sync import LaneState
    from sumwire.systems.baselines.hooks import TimedHook

_Result = TypeVar("_Result")
Stats = Callable[[], dict[str, float]]
DdpHook = tuple[object, Callable[[Any, Any], torch.futures.Future[Tensor]]]


class System(ABC):
    """One system on one worker. One system serves one model."""

    def __init__(self, name: str, transport: str, job: Job | None, stats: Stats) -> None:
        self.name = name
        self.transport = transport
        self.job = job
        self._stats = stats
        self._attached = False

    @property
    def stats(self) -> dict[str, float]:
        """Totals so far: ``operations`` and ``operation_s``, seconds in them; over a switch all of JobStats, over a
        group ``payload_bytes``, what this worker has handed to collectives or sent to its neighbours."""
        return self._stats()

    @abstractmethod
    def hook(self) -> DdpHook:
        """(state, DDP communication hook), for callers that register it themselves, with `attach` left out or given
        the plain model. A system that acts in the optimizer needs `attach` as well."""

    def attach(self, model: nn.Module, optimizer: Optimizer) -> Optimizer:
        """The optimizer to use from now on. Registers the hook with a DistributedDataParallel model.

        Raises UsageError for a second model, or one without parameters to train, and what the system has against it.
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
        """End what the system started. The job is the caller's to close."""
        return None

    def _check(self, parameters: list[nn.Parameter]) -> None:
        """Refuse a model, before anything is done to it."""
        return None

    @abstractmethod
    def _with_hook(self, model: nn.Module, optimizer: Optimizer) -> Optimizer: ...

    @abstractmethod
    def _without_hook(self, model: nn.Module, optimizer: Optimizer) -> Optimizer: ...


class Timed:
    """Calls of a transport without a job, with statistics; ``sent`` tells the bytes so far."""

    def __init__(self, sent: Callable[[], int]) -> None:
        self._sent = sent
        self._operations = 0
        self._seconds = 0.0

    def stats(self) -> dict[str, float]:
        """As :attr:`System.stats`."""
        return {
            "operations": self._operations,
            "operation_s": self._seconds,
            "payload_bytes": float(self._sent()),
        }

    def reduction(self, reduce: Reduce) -> Reduce:
        """The same, timed."""

        def timed(x: Tensor, number: int) -> tuple[Tensor, Residual]:
            return self.call(lambda: reduce(x, number))

        return timed

    def call(self, call: Callable[[], _Result]) -> _Result:
        """One operation."""
        began = time.monotonic()
        try:
            return call()
        finally:
            self._operations += 1
            self._seconds += time.monotonic() - began


class TimedCollective(Timed):
    """Marsit's collective without a job."""

    def __init__(self, collective: Collective, sent: Callable[[], int]) -> None:
        super().__init__(sent)
        self._collective = collective

    def sign_merge(self, plus: Tensor, /) -> Tensor:
        return self.call(lambda: self._collective.sign_merge(plus))

    def mean(self, x: Tensor, /) -> Tensor:
        return self.call(lambda: self._collective.mean(x))


class GradientSystem(System):
    """Replaces gradients by their aggregate: DDP's buckets in a thread of its own, or all at once before a step."""

    def __init__(
        self, name: str, transport: str, job: Job | None, reduce: Reduce, stats: Stats, *, error_feedback: bool
    ) -> None:
        super().__init__(name, transport, job, stats)
        self._reduction = reduce
        self._error_feedback = error_feedback
        self._state: DdpState | None = None

    def hook(self) -> DdpHook:
        if self._state is None:
            self._state = DdpState(self.job, reduce=self._reduction, error_feedback=self._error_feedback)
        return self._state, ddp_hook

    def close(self) -> None:
        if self._state is not None:
            self._state.close()

    def _with_hook(self, model: nn.Module, optimizer: Optimizer) -> Optimizer:
        return optimizer

    def _without_hook(self, model: nn.Module, optimizer: Optimizer) -> Optimizer:
        return GradientSync(optimizer, self._reduction, error_feedback=self._error_feedback)


class HookSystem(System):
    """One of torch's own communication hooks. ``rank``: of factors, for the check of the model."""

    def __init__(self, name: str, transport: str, hook: TimedHook, rank: int | None = None) -> None:
        super().__init__(name, transport, None, hook.stats)
        self._hook = hook
        self._rank = rank

    def hook(self) -> DdpHook:
        from sumwire.systems.baselines.hooks import timed_hook

        return self._hook, timed_hook

    def close(self) -> None:
        self._hook.close()

    def _check(self, parameters: list[nn.Parameter]) -> None:
        if self._rank is not None:
            make_plan([tuple(p.shape) for p in parameters], self._rank)

    def _with_hook(self, model: nn.Module, optimizer: Optimizer) -> Optimizer:
        return optimizer

    def _without_hook(self, model: nn.Module, optimizer: Optimizer) -> Optimizer:
        from sumwire.systems.baselines.hooks import HookSync

        return HookSync(optimizer, self._hook)


class LaneSystem(System):
    """DLCP: DDP's buckets go through the lanes of their places in the model; a plain model's gradients, one tensor a
    lane, before a step. ``state`` is there once there is a model; see :class:`sumwire.dlcp.LaneState`."""

    def __init__(self, name: str, transport: str, lanes: Lanes, *, error_feedback: bool) -> None:
        def totals() -> dict[str, float]:
            return lanes.stats.as_dict()

        super().__init__(name, transport, None, totals)
        self.lanes = lanes
        self._error_feedback = error_feedback
        self.state: LaneState | None = None

    def hook(self) -> DdpHook:
        """Raises UsageError before `attach` or `hook_for`: the model's order decides the lanes."""
        from sumwire.dlcp.sync import lane_hook

        if self.state is None:
            raise UsageError(f"system {self.name}: has no model yet, whose order decides the lanes: attach it first")
        return self.state, lane_hook

    def hook_for(self, model: nn.Module) -> DdpHook:
        """`hook` for a model, for callers that register it themselves and leave `attach` out."""
        self._place(model)
        return self.hook()

    def attach(self, model: nn.Module, optimizer: Optimizer) -> Optimizer:
        self._place(model)
        return super().attach(model, optimizer)

    def close(self) -> None:
        if self.state is not None:
            self.state.close()

    def _place(self, model: nn.Module) -> None:
        from sumwire.dlcp.sync import LaneState

        if self.state is None:
            self.state = LaneState(self.lanes, model, error_feedback=self._error_feedback)

    def _with_hook(self, model: nn.Module, optimizer: Optimizer) -> Optimizer:
        return optimizer

    def _without_hook(self, model: nn.Module, optimizer: Optimizer) -> Optimizer:
        from sumwire.dlcp.sync import LaneSync

        assert self.state is not None
        return LaneSync(optimizer, self.state)


class AcpSystem(System):
    """ACP-SGD: gradients are compressed as they come, and sent from a thread while backward goes on."""

    def __init__(
        self, name: str, transport: str, job: Job | None, reduce: Reduce, stats: Stats, *, options: dict[str, Any]
    ) -> None:
        super().__init__(name, transport, job, stats)
        self._reduction = reduce
        self._options = options
        self._thread = CommThread(f"system {name}")
        self._optimizer: AcpSgd | None = None
        if job is not None:
            job.on_close(self.close)

    def hook(self) -> DdpHook:
        return None, local_hook

    def close(self) -> None:
        if self._optimizer is not None:
            self._optimizer.close()
        self._thread.close()

    def _without_hook(self, model: nn.Module, optimizer: Optimizer) -> Optimizer:
        self._optimizer = AcpSgd(model, optimizer, self._reduction, submit=self._thread.submit, **self._options)
        return self._optimizer

    _with_hook = _without_hook

    def _check(self, parameters: list[nn.Parameter]) -> None:
        make_plan([tuple(p.shape) for p in parameters], self._options.get("rank", 4))


class MarsitSystem(System):
    """Replaces the optimizer's update."""

    def __init__(
        self,
        name: str,
        transport: str,
        job: Job | None,
        collective: Collective,
        stats: Stats,
        *,
        options: dict[str, Any],
    ) -> None:
        super().__init__(name, transport, job, stats)
        self._collective = collective
        self._options = options

    def hook(self) -> DdpHook:
        return None, local_hook

    def _without_hook(self, model: nn.Module, optimizer: Optimizer) -> Optimizer:
        return Marsit(optimizer, self._collective, **self._options)

    _with_hook = _without_hook
