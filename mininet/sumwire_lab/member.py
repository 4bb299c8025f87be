# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One worker's part in a system: the model and the optimizer as the system wants them, under the lab's timers."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import sumwire
import torch
from sumwire import systems
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from sumwire_lab.comm import HookTimer
from sumwire_lab.recipes import Recipe

# One bucket for the whole model. DDP's default is the same, but for a first bucket of 1 MB that would split this model
# of 1.2 MB into a large part and a tail, whose collective is all latency.
BUCKET_MB: Final = 25


class StepTimer:
    """Communication of a system that works in the optimizer's step.

    Began: the first collective call of the step. Ended: the optimizer's step is done, so the result is applied.
    """

    def __init__(self) -> None:
        self._entered = 0.0
        self._began: float | None = None
        self._ended = 0.0

    def enter(self) -> None:
        """The optimizer's step begins."""
        self._began = None
        self._entered = time.perf_counter()

    def communicates(self) -> None:
        """A collective call begins."""
        if self._began is None:
            self._began = time.perf_counter()

    def leave(self) -> None:
        """The optimizer's step is done."""
        self._ended = time.perf_counter()

    def seconds(self) -> float:
        """Without a call that said so, communication began with the step."""
        return self._ended - (self._entered if self._began is None else self._began)


class TimedJob(sumwire.Job):
    """A job that tells a timer when Marsit begins to communicate."""

    timer: StepTimer

    def sign_merge(self, plus: torch.Tensor, bucket: int = 0) -> torch.Tensor:
        """See Job."""
        self.timer.communicates()
        return super().sign_merge(plus, bucket)

    def mean(self, x: torch.Tensor, bucket: int = 0) -> torch.Tensor:
        """See Job."""
        self.timer.communicates()
        return super().mean(x, bucket)


class Member:
    """`model` to call, `step()` instead of the optimizer's, and what was measured."""

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: Optimizer,
        stats: Callable[[], dict[str, Any]],
        close: Callable[[], None],
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.stats = stats
        self.close = close
        self.hook: HookTimer | None = None
        self.timer = StepTimer()

    def begin_step(self, keep: bool) -> None:
        """Forget the step before; `keep` copies of gradients and results, where there is a hook."""
        if self.hook is not None:
            self.hook.begin_step(keep)

    def step(self) -> None:
        """The optimizer's step."""
        self.timer.enter()
        self.optimizer.step()
        self.timer.leave()

    def seconds(self) -> float:
        """Communication of the step that has ended."""
        return self.timer.seconds() if self.hook is None else self.hook.seconds()


def join(
    recipe: Recipe,
    network: torch.nn.Module,
    optimizer: Optimizer,
    *,
    job_file: Path | None,
    rank: int,
    factor: Callable[[int], float],
) -> Member:
    """Make one worker a member. Collective: every worker joins at the same time. `factor` is the schedule."""
    if recipe.system is None:
        return _with_hook(network, optimizer, *_all_reduce(), stats=dict, close=lambda: None)
    job = None
    if recipe.ops:
        if job_file is None:
            raise ValueError(f"system {recipe.system} needs a job file")
        job = TimedJob(sumwire.load_job(job_file, worker=rank))
    options = dict(recipe.options)
    if recipe.global_lr is not None:
        step = recipe.global_lr
        options["global_lr"] = lambda round_: step * factor(round_)
    system = systems.make(recipe.system, job, **options)

    def close() -> None:
        system.close()
        if job is not None:
            job.close()

    def stats() -> dict[str, Any]:
        return dict(system.stats)

    if recipe.global_lr is None:
        state, hook = system.hook()
        return _with_hook(network, optimizer, hook, state, stats=stats, close=close)
    member = Member(network, system.attach(network, optimizer), stats=stats, close=close)
    if job is not None:
        job.timer = member.timer
    return member


def _all_reduce() -> tuple[Any, Any]:
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    return allreduce_hook, None


def _with_hook(
    network: torch.nn.Module,
    optimizer: Optimizer,
    hook: Any,
    state: Any,
    *,
    stats: Callable[[], dict[str, Any]],
    close: Callable[[], None],
) -> Member:
    """Gradients go through DDP's communication hook, between the lab's timer."""
    ddp = DistributedDataParallel(network, bucket_cap_mb=BUCKET_MB)
    timer = HookTimer(hook, state)
    # A lambda, because DDP compares a hook's annotations and does not know those written as text.
    ddp.register_comm_hook(None, lambda _, bucket: timer.hand_over(bucket))
    member = Member(ddp, optimizer, stats=stats, close=close)
    member.hook = timer
    return member
