# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A group's way through its job: one thread, which opens the job and carries out operations in the order of calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore
from torch.futures import Future

from sumwire.backend.choice import Way
from sumwire.config import JobConfig
from sumwire.job.gloo_group import Ranks
from sumwire.job.job import Job
from sumwire.lifecycle import Lifecycle
from sumwire.training.comm_thread import CommThread, wait_for
from sumwire.training.integers import extreme, sum_integers
from sumwire.training.precision import Precision, mean_at
from sumwire.training.streams import queued

_MEETING: Final = "sumwire job"

# From the job to the output tensors.
Call = Callable[[Job], list[Tensor]]


@dataclass(frozen=True)
class Ranked:
    """This process among the ranks of a job. ``store``: theirs."""

    store: Any
    rank: int
    ranks: int
    timeout: timedelta


@dataclass(frozen=True)
class Reduction:
    """``op``: SUM, AVG, MAX or MIN."""

    way: Way
    op: str
    precision: Precision


def opener(config: JobConfig, at: Ranked) -> Callable[[], Job]:
    """How to open the job of a group's ranks: a collective call, by connections of the job's own."""
    return lambda: Job(config, ranks=Ranks(PrefixStore(_MEETING, at.store), at.rank, at.ranks, at.timeout))


class Network:
    """``job``: the caller's open one, or how to open one of the group's own; that is closed with the group."""

    def __init__(self, name: str, job: Job | Callable[[], Job]) -> None:
        given = job if isinstance(job, Job) else None
        self._life = Lifecycle(f"backend sumwire, job {name}", "torch.distributed.new_group()")
        self._thread = CommThread.of(given, f"backend sumwire, job {name}")
        self._own = given is None
        self._opener = job if not isinstance(job, Job) else partial(_same, job)
        self._job: Job | None = None

    @property
    def job(self) -> Job | None:
        """The job, once it is open."""
        return self._job

    def submit(self, call: Call, device: torch.device) -> Future[list[Tensor]]:
        """Carry out a call after those before it. Its tensors are on ``device``."""
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
        """End the thread after all calls, and the job if it is the group's own: a collective call."""
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


def _same(job: Job) -> Job:
    return job


def reduced(what: Reduction, job: Job, x: Tensor, into: Tensor | None = None) -> Tensor:
    """The workers' flat tensors, reduced. ``into``: where the result may be written, such as x itself; it is the
    result then."""
    x = x.resolve_neg()
    if what.way is Way.INTEGERS:
        return sum_integers(job, x)
    if what.way is Way.EXTREME:
        return extreme(job, x, largest=what.op == "MAX")
    mean, _ = mean_at(what.precision, job, x, into=into)
    return mean if what.op == "AVG" else mean.mul_(job.workers) if mean is into else mean * job.workers


def written_by(x: Tensor) -> Tensor | None:
    """The flat memory of a tensor in which a mean can be written; None if there is none."""
    plain = x.dtype == torch.float32 and x.device.type == "cpu" and x.is_contiguous() and not x.is_neg()
    return x.detach().view(-1) if plain else None
