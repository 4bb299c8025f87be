# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Every way to train together that this library has, by name and behind one interface.

    system = sumwire.systems.make("marsit", job, global_lr=1e-3, full_precision_every=100)
    optimizer = system.attach(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    ...                                                  # zero_grad, backward, optimizer.step() as ever
    print(system.stats)
    system.close()

name          what it exchanges each step                                  ops of the job    options
thc           gradients, 4 bits up and 8 down (+ norms)                    thc max32         error_feedback
sum32         gradients, full precision in 32-bit fixed point              sum32 max32
vote          signs of gradients, majority; the result is +-scale          vote max32        scale
ef-sign       signs of gradients and their mean magnitude, with memory     sign max32
ssdm          stochastic signs of gradients; the result is +-scale         sign max32        scale
marsit        signs of updates, merged                                     sign sum32 max32  (1)
marsit-ring   the same over torch.distributed, without switch              -                 (1) group, seed
marsit-torus  the same in a 2D torus                                       -                 (1) rows, group, seed
cascade       signs compressed anew at every hop of a ring, no switch      -                 group, seed, stochastic

(1) global_lr (required), full_precision_every (default 100)

`attach` takes a plain model or a DistributedDataParallel one. The gradient systems then aggregate in the
optimizer's step, or in DDP's communication hook. Marsit works on updates: give it a plain model; with a DDP one,
a hook keeps DDP from averaging the gradients.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from sumwire.codec.base import GradientCodec
from sumwire.codec.sign import EfSignCodec, SsdmCodec, VoteCodec
from sumwire.codec.sum32 import Sum32Codec
from sumwire.collective import Collective
from sumwire.ddp import DdpState, Reduce, ddp_hook, local_hook
from sumwire.errors import UsageError
from sumwire.job import Job, Residual
from sumwire.operations import require
from sumwire.optim import GradientSync, Marsit

if TYPE_CHECKING:
    import torch.distributed as dist

# Ops that a system's job must have; empty for those without a switch.
OPS: Final[Mapping[str, tuple[str, ...]]] = {
    "thc": ("thc", "max32"),
    "sum32": ("sum32", "max32"),
    "vote": ("vote", "max32"),
    "ef-sign": ("sign", "max32"),
    "ssdm": ("sign", "max32"),
    "marsit": ("sign", "sum32", "max32"),
    "marsit-ring": (),
    "marsit-torus": (),
    "cascade": (),
}


class System(ABC):
    """One system on one worker. One system serves one model."""

    def __init__(self, name: str, job: Job | None) -> None:
        self.name = name
        self.job = job
        self._attached = False

    @property
    @abstractmethod
    def stats(self) -> dict[str, float]:
        """Totals so far: ``operations`` and ``operation_s`` at least; all of JobStats where there is a job."""

    @abstractmethod
    def hook(self) -> tuple[object, Callable[[Any, Any], torch.futures.Future[Tensor]]]:
        """(state, DDP communication hook), for callers that register it themselves, with `attach` left out or given
        the plain model."""

    def attach(self, model: nn.Module, optimizer: Optimizer) -> Optimizer:
        """The optimizer to use from now on. Registers the hook with a DistributedDataParallel model."""
        if self._attached:
            raise UsageError(f"system {self.name}: serves one model, and has it already")
        self._attached = True
        if isinstance(model, nn.parallel.DistributedDataParallel):
            model.register_comm_hook(*self.hook())
            return self._with_hook(optimizer)
        return self._without_hook(optimizer)

    def close(self) -> None:
        """End what the system started. The job is the caller's to close."""
        return None

    @abstractmethod
    def _with_hook(self, optimizer: Optimizer) -> Optimizer: ...

    @abstractmethod
    def _without_hook(self, optimizer: Optimizer) -> Optimizer: ...


class Timed:
    """A collective without a job of its own, with the statistics of one."""

    def __init__(self, collective: Collective, traffic: Callable[[], Any] | None = None) -> None:
        self._collective = collective
        self._traffic = traffic
        self._operations = 0
        self._seconds = 0.0

    def sign_merge(self, plus: Tensor, /) -> Tensor:
        return self._timed(self._collective.sign_merge, plus)

    def mean(self, x: Tensor, /) -> Tensor:
        return self._timed(self._collective.mean, x)

    def stats(self) -> dict[str, float]:
        """``operations``, ``operation_s``, and ``sign_bytes``, the payload of what was sent in sign rounds."""
        sent = {} if self._traffic is None else {"sign_bytes": float(self._traffic().payload_bytes)}
        return {"operations": self._operations, "operation_s": self._seconds, **sent}

    def _timed(self, call: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        began = time.monotonic()
        try:
            return call(x)
        finally:
            self._operations += 1
            self._seconds += time.monotonic() - began


class GradientSystem(System):
    """Replaces gradients by their aggregate."""

    def __init__(
        self,
        name: str,
        job: Job | None,
        reduce: Reduce,
        *,
        error_feedback: bool,
        stats: Callable[[], dict[str, float]],
    ) -> None:
        super().__init__(name, job)
        self._reduction = reduce
        self._error_feedback = error_feedback
        self._stats = stats
        self._state: DdpState | None = None

    @property
    def stats(self) -> dict[str, float]:
        return self._stats()

    def hook(self) -> tuple[object, Callable[[Any, Any], torch.futures.Future[Tensor]]]:
        if self._state is None:
            self._state = DdpState(self.job, reduce=self._reduction, error_feedback=self._error_feedback)
        return self._state, ddp_hook

    def close(self) -> None:
        if self._state is not None:
            self._state.close()

    def _with_hook(self, optimizer: Optimizer) -> Optimizer:
        return optimizer

    def _without_hook(self, optimizer: Optimizer) -> Optimizer:
        return GradientSync(optimizer, self._reduction, error_feedback=self._error_feedback)


class MarsitSystem(System):
    """Replaces the optimizer's update."""

    def __init__(
        self,
        name: str,
        job: Job | None,
        collective: Collective,
        stats: Callable[[], dict[str, float]],
        *,
        global_lr: float | Callable[[int], float],
        full_precision_every: int | None = 100,
    ) -> None:
        super().__init__(name, job)
        self._collective = collective
        self._stats = stats
        self._global_lr = global_lr
        self._every = full_precision_every

    @property
    def stats(self) -> dict[str, float]:
        return self._stats()

    def hook(self) -> tuple[object, Callable[[Any, Any], torch.futures.Future[Tensor]]]:
        return None, local_hook

    def _without_hook(self, optimizer: Optimizer) -> Optimizer:
        return Marsit(optimizer, self._collective, global_lr=self._global_lr, full_precision_every=self._every)

    _with_hook = _without_hook


def make(name: str, job: Job | None = None, **options: Any) -> System:
    """The system of that name; the module's text has names, ops and options.

    Raises UsageError for an unknown name or option, or a missing job, ConfigError for a job without the system's ops.
    """
    if name not in OPS:
        raise UsageError(f"system {name!r}: known are {', '.join(OPS)}")
    if OPS[name]:
        if job is None:
            raise UsageError(f"system {name}: needs a job, with ops {', '.join(OPS[name])}")
        require(job.config, OPS[name], f"for system {name}")
    maker = _MAKERS[name]
    try:
        return maker(name, job, **options)
    except TypeError as error:
        raise UsageError(f"system {name}: options {sorted(options)}: {error}") from error


def _thc(name: str, job: Job, *, error_feedback: bool = True) -> System:
    return GradientSystem(name, job, job.reduce, error_feedback=error_feedback, stats=job.stats.as_dict)


def _sum32(name: str, job: Job) -> System:
    return _through_codec(name, job, Sum32Codec(workers=job.workers))


def _vote(name: str, job: Job, *, scale: float = 1.0) -> System:
    return _through_codec(name, job, VoteCodec(), scale)


def _ssdm(name: str, job: Job, *, scale: float = 1.0) -> System:
    return _through_codec(name, job, SsdmCodec(job=job.config.job, worker=job.config.worker), scale)


def _ef_sign(name: str, job: Job) -> System:
    codec = EfSignCodec(worker=job.config.worker, workers=job.workers)
    return _through_codec(name, job, codec, error_feedback=True)


def _through_codec(
    name: str, job: Job, codec: GradientCodec, scale: float = 1.0, *, error_feedback: bool = False
) -> System:
    def reduce(x: Tensor, bucket: int) -> tuple[Tensor, Residual]:
        result, residual = job.reduce_with(codec, x, bucket)
        return (result if scale == 1.0 else result * scale), residual

    return GradientSystem(name, job, reduce, error_feedback=error_feedback, stats=job.stats.as_dict)


def _marsit(name: str, job: Job, **options: Any) -> System:
    return MarsitSystem(name, job, job, job.stats.as_dict, **options)


def _marsit_ring(
    name: str, job: Job | None, *, group: dist.ProcessGroup | None = None, seed: int = 1, **options: Any
) -> System:
    from sumwire.multihop import RingSigns

    ring = RingSigns(group, seed)
    timed = Timed(ring, lambda: ring.traffic)
    return MarsitSystem(name, job, timed, timed.stats, **options)


def _marsit_torus(
    name: str, job: Job | None, *, rows: int, group: dist.ProcessGroup | None = None, seed: int = 1, **options: Any
) -> System:
    from sumwire.multihop import TorusSigns

    torus = TorusSigns(rows, group, seed)
    timed = Timed(torus, lambda: torus.traffic)
    return MarsitSystem(name, job, timed, timed.stats, **options)


def _cascade(
    name: str, job: Job | None, *, group: dist.ProcessGroup | None = None, seed: int = 1, stochastic: bool = False
) -> System:
    from sumwire.multihop import CascadeRing

    ring = CascadeRing(group, seed, stochastic=stochastic)
    totals = {"operations": 0.0, "operation_s": 0.0}

    def reduce(x: Tensor, bucket: int) -> tuple[Tensor, Residual]:
        began = time.monotonic()
        mean = ring.compressed_mean(x)
        totals["operations"] += 1
        totals["operation_s"] += time.monotonic() - began
        return mean, lambda: torch.zeros_like(mean)

    def stats() -> dict[str, float]:
        return {**totals, "sign_bytes": float(ring.traffic.payload_bytes)}

    return GradientSystem(name, job, reduce, error_feedback=False, stats=stats)


_MAKERS: Final[Mapping[str, Callable[..., System]]] = {
    "thc": _thc,
    "sum32": _sum32,
    "vote": _vote,
    "ef-sign": _ef_sign,
    "ssdm": _ssdm,
    "marsit": _marsit,
    "marsit-ring": _marsit_ring,
    "marsit-torus": _marsit_torus,
    "cascade": _cascade,
}
