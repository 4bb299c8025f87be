# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Decides which reductions of a group go through the network, and has the thread that carries them out. Used by
`group`.

All ranks choose the same route, because the choice depends only on what all of them know.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore
from torch.futures import Future

from sumwire.config import JobConfig
from sumwire.job.gloo import Ranks
from sumwire.job.job import Job
from sumwire.lifecycle import Lifecycle
from sumwire.training.all_reduce import DTYPES, EXACT, ORDERED, Precision, extreme, mean_at, sum_integers
from sumwire.training.comm_thread import CommThread, queued, wait_for

_OPS: Final = ("SUM", "AVG", "MAX", "MIN")
_JOB_PREFIX: Final = "sumwire job"

# From the job to the output tensors.
Call = Callable[[Job], list[Tensor]]


class ReduceRoute(Enum):
    """How a reduction is carried out: INNER by the inner process group, all others through the network."""

    FLOATS = auto()
    INTEGERS = auto()
    EXTREME = auto()
    INNER = auto()


def op_of(op: object) -> str:
    """Return the name of a torch.distributed.ReduceOp; "" for one that only the inner group supports."""
    return next((name for name in _OPS if op == getattr(dist.ReduceOp, name)), "")


def route_of(op: str, dtype: torch.dtype, values: int, exact_below: int, precision: Precision) -> ReduceRoute:
    """Choose the route of a reduction for a group that has a job. ``values``: how many values a rank's tensor has.

    Floats go through the network at their precision, from `exact_below` values on. 32-bit integer sums, and maxima and
    minima of 32-bit values, are exact there and need a third less traffic than a ring of 4. For all other reductions
    the network has no op, or one that needs more traffic than the ring.
    """
    if values < exact_below:
        return ReduceRoute.INNER
    if op in ("SUM", "AVG") and dtype in DTYPES and precision != EXACT:
        return ReduceRoute.FLOATS
    if op == "SUM" and dtype == torch.int32:
        return ReduceRoute.INTEGERS
    if op in ("MAX", "MIN") and dtype in ORDERED:
        return ReduceRoute.EXTREME
    return ReduceRoute.INNER


def possible(route: ReduceRoute, config: JobConfig) -> bool:
    """Return whether the job can carry out the route exactly: it sums over all workers, and has the op."""
    if route is ReduceRoute.FLOATS:
        return True
    whole = config.quorum == config.workers
    return whole and (route is ReduceRoute.EXTREME or "sum32" in config.ops)


@dataclass(frozen=True)
class GroupRank:
    """This process as rank ``rank`` of a group. ``ranks``: the group's global ranks, out of ``world``. ``store``: the
    group's store."""

    store: Any
    rank: int
    ranks: list[int]
    world: int
    timeout: timedelta

    @property
    def size(self) -> int:
        """The number of ranks in the group."""
        return len(self.ranks)


@dataclass(frozen=True)
class Reduction:
    """A reduction that a call asks for. ``op``: SUM, AVG, MAX or MIN."""

    route: ReduceRoute
    op: str
    precision: Precision


def opener(config: JobConfig, at: GroupRank) -> Callable[[], Job]:
    """Return a function that opens the job of a group's ranks: a collective call, over connections of its own."""
    return lambda: Job(config, ranks=Ranks(PrefixStore(_JOB_PREFIX, at.store), at.rank, at.size, at.timeout))


class Network:
    """A group's thread, which opens the job and carries out operations in the order of calls.

    ``job``: an open job of the caller's, or a function that opens one, which is then closed with the group.
    """

    def __init__(self, name: str, job: Job | Callable[[], Job]) -> None:
        given = job if isinstance(job, Job) else None
        self._life = Lifecycle(f"backend sumwire, job {name}", "torch.distributed.new_group()")
        self._thread = CommThread.of(given, f"backend sumwire, job {name}")
        self._own = given is None
        self._opener: Callable[[], Job] = job if not isinstance(job, Job) else lambda: job
        self._job: Job | None = None

    @property
    def job(self) -> Job | None:
        """The job; None until it is open."""
        return self._job

    def submit(self, call: Call, device: torch.device) -> Future[list[Tensor]]:
        """Queue a call, whose tensors are on ``device``."""
        filled = queued(device)
        # A mode is a thread's own, and outside it torch lets nobody write to tensors made within.
        inference = torch.is_inference_mode_enabled()

        def carry_out() -> list[Tensor]:
            if filled is not None:
                filled.synchronize()
            job = self._opened()
            with torch.inference_mode(inference), torch.no_grad():
                return call(job)

        # A callback of a hook on the same job may make a collective, and wait for it.
        return self._thread.submit(carry_out, device, awaited=True)

    def close(self) -> None:
        """End the thread after all calls, and close the job if the group opened it. A collective call."""
        self._life.close(self._end)

    def _end(self) -> None:
        if self._own and self._job is not None:
            wait_for(self._thread.submit(self._job.close))
        self._thread.close()

    def _opened(self) -> Job:
        if self._job is None:
            self._job = self._opener()
            # Who uses the group's job elsewhere makes its calls in the order of this thread too.
            self._thread.serve(self._job)
        return self._job


def reduced(what: Reduction, job: Job, x: Tensor, into: Tensor | None = None) -> Tensor:
    """Reduce the workers' flat tensors. ``into``: memory where the result may be written, such as x itself; if it is
    used, it is returned."""
    x = x.resolve_neg()
    if what.route is ReduceRoute.INTEGERS:
        return sum_integers(job, x)
    if what.route is ReduceRoute.EXTREME:
        return extreme(job, x, largest=what.op == "MAX")
    mean, _ = mean_at(what.precision, job, x, into=into)
    return mean if what.op == "AVG" else mean.mul_(job.workers) if mean is into else mean * job.workers


def written_by(x: Tensor) -> Tensor | None:
    """Return a flat view of the tensor's memory into which a mean can be written; None if there is none."""
    plain = x.dtype == torch.float32 and x.device.type == "cpu" and x.is_contiguous() and not x.is_neg()
    return x.detach().view(-1) if plain else None
