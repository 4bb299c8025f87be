# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The interface of all systems, and its kinds: those that replace gradients, and those that replace the optimizer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex

import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer

from sumwire.checkpoint import Content, Kept, Place, Saved, place_of, refuse_pickling
from sumwire.dlcp.lanes import Lanes
from sumwire.dlcp.sync import EarlySync, LaneState, LaneSync, check_early, lane_hook
from sumwire.errors import UsageError
from sumwire.job.job import Job
from sumwire.job.rules import NonFinite
from sumwire.lowrank.fusion import make_plan
from sumwire.lowrank.sync import AcpSgd
from sumwire.training.comm_thread import CommThread
from sumwire.training.ddp import DdpState, Reduce, ddp_hook, local_hook
from sumwire.training.optim import GradientSync, Inner, Marsit
from sumwire.training.reductions import Collective, checked

if TYPE_CHECKING:
    from sumwire.systems.hooks import TimedHook

Stats = Callable[[], dict[str, float]]
DdpHook = tuple[object, Callable[[Any, Any], torch.futures.Future[Tensor]]]


class System(Saved):
    """One system on one worker. It serves one model.

    `state_dict` holds everything that the next steps depend on, the optimizer's state included, but not the model's.
    It needs the model first: call `attach`, or register the hook of `hook_for`.
    """

    def __init__(self, name: str, transport: str, job: Job | None, stats: Stats) -> None:
        self.name = name
        self.transport = transport
        self.job = job
        self._stats = stats
        self._attached = False
        # Of the model, as the caller uses it.
        self._optimizer: Optimizer | None = None
        self._closers: list[Callable[[], None]] = []

    @property
    def stats(self) -> dict[str, float]:
        """Totals so far: ``operations``, and ``operation_s``, the seconds spent in them.

        Over a switch all counts of JobStats are included; over a group ``payload_bytes``, the bytes that this worker
        passed to collectives or sent to its neighbours.
        """
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
        """Make later results with NaN or infinity raise NonFiniteError on all workers.

        Call it before the system has a model.
        """

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

    def on_close(self, closer: Callable[[], None]) -> None:
        """Call ``closer`` once, after the system's own threads have ended."""
        self._closers.append(closer)

    def close(self) -> None:
        """End what the system has started. Closing the job is the caller's task. Closing twice is allowed."""
        while self._closers:
            self._closers.pop()()

    def kind(self) -> str:
        return f"system {self.name} over a {self.transport}"

    def place(self) -> Place:
        return place_of(self.job)

    def kept(self) -> Content:
        """Return the state of all parts of the system. Raises UsageError before it has a model."""
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


class GradientSystem(System):
    """Replaces gradients by their aggregate: DDP's buckets in a communication thread, or all gradients of a plain model
    before the optimizer's step."""

    def __init__(
        self,
        name: str,
        transport: str,
        job: Job | None,
        reduce: Reduce,
        stats: Stats,
        *,
        error_feedback: bool,
    ) -> None:
        super().__init__(name, transport, job, stats)
        self._reduction = reduce
        self._error_feedback = error_feedback
        self._state: DdpState | None = None

    def refuse_nonfinite(self) -> None:
        self._reduction = checked(self._reduction, "raise")

    def hook(self) -> DdpHook:
        return self._made(None)

    def hook_for(self, model: nn.Module) -> DdpHook:
        return self._made(model)

    def _made(self, model: nn.Module | None) -> DdpHook:
        if self._state is None:
            self._state = DdpState(self.job, reduce=self._reduction, error_feedback=self._error_feedback, model=model)
        return self._state, ddp_hook

    def _parts(self) -> dict[str, Kept]:
        return {} if self._state is None else {"hook": self._state}

    def close(self) -> None:
        if self._state is not None:
            self._state.close()
        super().close()

    def _with_hook(self, model: nn.Module, optimizer: Optimizer) -> Optimizer:
        return optimizer

    def _without_hook(self, model: nn.Module, optimizer: Optimizer) -> Optimizer:
        return GradientSync(optimizer, self._reduction, error_feedback=self._error_feedback)


class HookSystem(System):
    """Replaces gradients by one of torch's own communication hooks."""

    def __init__(self, name: str, transport: str, hook: TimedHook) -> None:
        super().__init__(name, transport, None, hook.stats)
        self._hook = hook

    def refuse_nonfinite(self) -> None:
        self._hook.refuse_nonfinite()

    def _check(self, parameters: list[nn.Parameter]) -> None:
        self._hook.check(parameters)

    def hook(self) -> DdpHook:
        from sumwire.systems.hooks import timed_hook

        return self._hook, timed_hook

    def hook_for(self, model: nn.Module) -> DdpHook:
        self._hook.know(model)
        return self.hook()

    def _parts(self) -> dict[str, Kept]:
        return {"hook": self._hook}

    def close(self) -> None:
        self._hook.close()
        super().close()

    def _with_hook(self, model: nn.Module, optimizer: Optimizer) -> Optimizer:
        return optimizer

    def _without_hook(self, model: nn.Module, optimizer: Optimizer) -> Optimizer:
        from sumwire.systems.hooks import HookSync

        self._hook.know(model)
        return HookSync(optimizer, self._hook)


class LaneSystem(System):
    """DLCP: replaces gradients by their aggregate through the lanes of a job. A DDP bucket's place in the model decides
    its lane. A plain model's gradients are sent as one tensor per lane before the optimizer's step.

    ``state`` is None until the system has a model; see :class:`sumwire.dlcp.LaneState`. ``early_forward``: steps are
    made piece by piece (:class:`sumwire.dlcp.EarlySync`). Raises UsageError for early forward over lanes that raise for
    NaN.
    """

    def __init__(
        self, name: str, transport: str, lanes: Lanes, *, error_feedback: bool, early_forward: bool = False
    ) -> None:
        def totals() -> dict[str, float]:
            return lanes.stats.as_dict()

        if early_forward:
            check_early(lanes.nonfinite)
        super().__init__(name, transport, None, totals)
        self.lanes = lanes
        self._error_feedback = error_feedback
        self._early_forward = early_forward
        self._nonfinite: NonFinite = "propagate"
        self.state: LaneState | None = None

    def refuse_nonfinite(self) -> None:
        """Do as System does. Raises UsageError with early forward."""
        if self._early_forward:
            check_early("raise")
        self._nonfinite = "raise"

    def hook(self) -> DdpHook:
        """See System. Raises UsageError before `attach` or `hook_for`: the model's order decides the lanes."""
        if self.state is None:
            raise UsageError(f"system {self.name}: has no model yet, whose order decides the lanes: attach it first")
        return self.state, lane_hook

    def hook_for(self, model: nn.Module) -> DdpHook:
        if self.state is None:
            self.state = LaneState(self.lanes, model, error_feedback=self._error_feedback, nonfinite=self._nonfinite)
        return self.hook()

    def place(self) -> Place:
        return self.lanes.place()

    def _parts(self) -> dict[str, Kept]:
        # A plain model's optimizer has it.
        return {} if self.state is None or isinstance(self._optimizer, LaneSync) else {"hook": self.state}

    def close(self) -> None:
        if self.state is not None:
            self.state.close()
        super().close()

    def _with_hook(self, model: nn.Module, optimizer: Optimizer) -> Optimizer:
        assert self.state is not None
        return EarlySync(model, optimizer, self.state, sends=False) if self._early_forward else optimizer

    def _without_hook(self, model: nn.Module, optimizer: Optimizer) -> Optimizer:
        self.hook_for(model)
        assert self.state is not None
        if self._early_forward:
            return EarlySync(model, optimizer, self.state, sends=True)
        return LaneSync(optimizer, self.state)


class AcpSystem(System):
    """ACP-SGD: compresses gradients as they come, and sends them from a thread during the backward pass.

    ``settings`` are the keywords of :class:`sumwire.lowrank.AcpSgd`.
    """

    def __init__(
        self, name: str, transport: str, job: Job | None, reduce: Reduce, stats: Stats, *, settings: Mapping[str, Any]
    ) -> None:
        super().__init__(name, transport, job, stats)
        self._reduction = reduce
        self._settings = settings
        self._thread = CommThread.of(job, f"system {name}")
        if job is not None:
            job.on_close(self.close)

    def refuse_nonfinite(self) -> None:
        self._reduction = checked(self._reduction, "raise")

    def hook(self) -> DdpHook:
        return None, local_hook

    def close(self) -> None:
        if isinstance(self._optimizer, AcpSgd):
            self._optimizer.close()
        self._thread.close()
        super().close()

    def _without_hook(self, model: nn.Module, optimizer: Optimizer) -> Optimizer:
        return AcpSgd(model, optimizer, self._reduction, submit=self._thread.submit, **self._settings)

    _with_hook = _without_hook

    def _check(self, parameters: list[nn.Parameter]) -> None:
        make_plan([tuple(p.shape) for p in parameters], self._settings["rank"])


class MarsitSystem(System):
    """Marsit: replaces the optimizer's update. ``settings`` are the keywords of :class:`sumwire.optim.Marsit`."""

    def __init__(
        self,
        name: str,
        transport: str,
        job: Job | None,
        collective: Collective,
        stats: Stats,
        *,
        settings: Mapping[str, Any],
    ) -> None:
        super().__init__(name, transport, job, stats)
        self._collective = collective
        self._settings = settings
        self._nonfinite: NonFinite = "propagate"

    def refuse_nonfinite(self) -> None:
        self._nonfinite = "raise"

    def hook(self) -> DdpHook:
        return None, local_hook

    def _without_hook(self, model: nn.Module, optimizer: Optimizer) -> Optimizer:
        return Marsit(optimizer, self._collective, nonfinite=self._nonfinite, **self._settings)

    _with_hook = _without_hook
