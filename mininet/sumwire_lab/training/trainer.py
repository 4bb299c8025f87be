# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One worker's trainer: model and optimizer with a system attached, and timers of its communication."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

import sumwire
import torch
import torch.distributed as dist
from sumwire import systems
from sumwire.dlcp.lanes import Lanes
from sumwire.dlcp.sync import LaneState
from sumwire.systems.system import LaneSystem
from sumwire.transport.options import Delivery
from torch._C._distributed_c10d import GradBucket
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from sumwire_lab.errors import LabError
from sumwire_lab.options.layout import rows_of
from sumwire_lab.options.priority_lanes import LanedOptions
from sumwire_lab.options.recipes import INNER, MOMENTUM, PLAIN, TASKS, Chosen, parse
from sumwire_lab.options.run_options import BUFFER_MB, TrainOptions
from sumwire_lab.training.timing import BucketFuture, HookTimer, LateHook

_MB: Final = 1 << 20
HandOver = Callable[[GradBucket], BucketFuture]
# DDP takes no size of 0. With a byte, each tensor is a bucket of its own.
_ALONE_MB: Final = 1 / _MB


class StepTimer:
    """Times the communication of a system that communicates within the optimizer's step.

    It begins with the first collective call of the step and ends when the step is done and the result applied.
    """

    def __init__(self) -> None:
        self._entered = 0.0
        self._began: float | None = None
        self._ended = 0.0

    def enter(self) -> None:
        """Start the time of the optimizer's step."""
        self._began = None
        self._entered = time.perf_counter()

    def communicates(self) -> None:
        """Record that a collective call begins."""
        if self._began is None:
            self._began = time.perf_counter()

    def leave(self) -> None:
        """Stop the time of the optimizer's step."""
        self._ended = time.perf_counter()

    def seconds(self) -> float:
        """Return the communication time of the step; the whole step if no collective call was reported."""
        return self._ended - (self._entered if self._began is None else self._began)


class TimedJob(sumwire.Job):
    """A job that tells a timer when Marsit begins to communicate."""

    timer: StepTimer | None = None

    def sign_merge(self, plus: torch.Tensor, bucket: int = 0) -> torch.Tensor:
        """Do as `sumwire.Job`, and tell the timer that communication begins."""
        if self.timer is not None:
            self.timer.communicates()
        return super().sign_merge(plus, bucket)

    def mean(self, x: torch.Tensor, bucket: int = 0) -> torch.Tensor:
        """Do as `sumwire.Job`, and tell the timer that communication begins."""
        if self.timer is not None:
            self.timer.communicates()
        return super().mean(x, bucket)


class OperationTimer:
    """Measures communication time for a system that counts the seconds of its operations itself, on any thread."""

    def __init__(self, stats: Callable[[], dict[str, Any]]) -> None:
        self._stats = stats
        self._before = 0.0

    def enter(self) -> None:
        """Start the time of a step."""
        self._before = self._total()

    def seconds(self) -> float:
        """Return the seconds of this step's operations so far."""
        return self._total() - self._before

    def _total(self) -> float:
        return float(self._stats()["operation_s"])


class Trainer:
    """One worker's trainer: call `model`, then `step()` instead of the optimizer's step. It also has the measurements.

    Communication is timed in DDP's hook, or in the optimizer's step (Marsit), or by the system's own operations.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: Optimizer,
        stats: Callable[[], dict[str, Any]],
        close: Callable[[], None],
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.close = close
        self._stats = stats
        self.hook: HookTimer | None = None
        self.update: StepTimer | None = None
        self._operations = OperationTimer(self.stats)

    def stats(self) -> dict[str, Any]:
        """Return the system's statistics so far."""
        return dict(self._stats())

    def behind(self) -> bool:
        """Return whether the other workers have completed the next step without this one.

        Only possible with a quorum below the number of workers.
        """
        return False

    def follow(self) -> None:
        """Take the results of the next step instead of computing it."""
        raise LabError("this system makes every step with every worker")

    def tensors(self) -> list[dict[str, Any]]:
        """Records of the tensors completed since the last call: number, values, seconds from hand-over to result."""
        return [] if self.hook is None else self.hook.take_tensors()

    def begin_step(self, keep: bool) -> None:
        """Begin a step. `keep`: copy its gradients and results, if there is a hook."""
        self._operations.enter()
        if self.hook is not None:
            self.hook.begin_step(keep)

    def step(self) -> None:
        """Make the optimizer's step."""
        if self.update is not None:
            self.update.enter()
        self.optimizer.step()
        if self.update is not None:
            self.update.leave()

    def codec_seconds(self) -> float | None:
        """Return the seconds of encoding and decoding so far; None for a system that does not count them."""
        stats = self._stats()
        return stats["encode_s"] + stats["decode_s"] if "encode_s" in stats else None

    def seconds(self) -> float:
        """Return the seconds that the last step spent on communication."""
        return (self.hook or self.update or self._operations).seconds()


def make_optimizer(chosen: Chosen, network: torch.nn.Module, options: TrainOptions) -> Optimizer:
    """Return the worker's own optimizer, which the system feeds with gradients or wraps."""
    rates = chosen.recipe.rates
    own: dict[str, Any] = {"params": network.parameters(), "weight_decay": options.weight_decay}
    if chosen.recipe.merges_updates and options.inner != PLAIN:
        if options.inner == "adam":
            return torch.optim.Adam(lr=INNER[options.inner], **own)
        return torch.optim.SGD(lr=INNER[options.inner], momentum=MOMENTUM, **own)
    if rates is not None:
        return torch.optim.SGD(lr=rates[options.task].learning_rate, **own)
    if TASKS[options.task].adam:
        return torch.optim.AdamW(lr=options.learning_rate, **own)
    return torch.optim.SGD(lr=options.learning_rate, momentum=MOMENTUM, nesterov=True, **own)


def system_options(
    chosen: Chosen, options: TrainOptions, workers: int, factor: Callable[[int], float]
) -> dict[str, Any]:
    """Return options for the library's `systems.make`: those that the run sets, and those derived from the run.
    `factor`: the learning-rate schedule."""
    recipe = chosen.recipe
    taken = {name: value for name, value in options.system.items() if chosen.has(name) and chosen.takes(name)}
    given = {**recipe.options, **taken}
    if chosen.takes("rank"):
        given["rank"] = options.rank
    if "full_precision_every" in taken:
        given["full_precision_every"] = taken["full_precision_every"] or None
    if chosen.has("threshold_bytes") and options.buffer_mb is not None:
        given["threshold_bytes"] = round(options.buffer_mb * _MB)
    if chosen.has("accumulation") and options.late:
        given["accumulation"] = None
    if chosen.has("rows"):
        given["rows"] = rows_of(workers)
    step = None if recipe.rates is None else recipe.rates[options.task].global_lr
    if step is not None and options.inner == PLAIN:
        given["global_lr"] = lambda round_: step * factor(round_)
    return given


def make_trainer(
    chosen: Chosen,
    network: torch.nn.Module,
    optimizer: Optimizer,
    options: TrainOptions,
    *,
    job_file: Path | None,
    rank: int,
    factor: Callable[[int], float],
    delivery: Delivery | None = None,
) -> Trainer:
    """Return one worker's trainer. Collective: every worker calls it at the same time. `factor`: the learning-rate
    schedule. `delivery`: what may be missing from the job's sums; None for nothing."""
    job = None
    if chosen.switched:
        if job_file is None:
            raise ValueError(f"system {chosen.name} needs a job file")
        job = TimedJob(sumwire.load_job(job_file, worker=rank), delivery=delivery)
    given = system_options(chosen, options, dist.get_world_size(), factor)
    system = systems.make(chosen.recipe.system, job, transport=chosen.transport, **given)

    def close() -> None:
        system.close()
        if job is not None:
            job.close()

    if systems.TABLE[chosen.recipe.system].acts == "hook":
        return _with_hook(network, optimizer, system, close, options)
    trainer = Trainer(network, system.attach(network, optimizer), lambda: dict(system.stats), close)
    if "global_lr" in given:
        trainer.update = StepTimer()
        if job is not None:
            job.timer = trainer.update
    return trainer


def bucket_mb(options: TrainOptions, usual: float) -> float:
    """Return DDP's `bucket_cap_mb`; `usual` if the run does not set it."""
    return max(usual if options.buffer_mb is None else options.buffer_mb, _ALONE_MB)


def hand_over_of(timer: HookTimer, options: TrainOptions) -> HandOver:
    """Return the function that DDP's hook calls: the timer, which runs after the backward pass if the run is late."""
    return LateHook(timer.hand_over).hand_over if options.late else timer.hand_over


def _with_hook(
    network: torch.nn.Module,
    optimizer: Optimizer,
    system: systems.System,
    close: Callable[[], None],
    options: TrainOptions,
) -> Trainer:
    """A trainer whose gradients go through DDP's communication hook, with the timer around it."""
    ddp = DistributedDataParallel(network, bucket_cap_mb=bucket_mb(options, BUFFER_MB))
    state, hook = system.hook()
    timer = HookTimer(hook, state)
    hand_over = hand_over_of(timer, options)
    # A lambda, because DDP checks a hook's annotations and does not understand annotations that are strings.
    ddp.register_comm_hook(None, lambda _, bucket: hand_over(bucket))
    trainer = Trainer(ddp, optimizer, lambda: dict(system.stats), close)
    trainer.hook = timer
    return trainer


BUCKETS: Final = 4
"""Approximate number of buckets, unless the run says their size; DDP does not divide a parameter."""


class LanesTrainer(Trainer):
    """A trainer whose tensors go through priority lanes, which also record their times."""

    def __init__(
        self, model: torch.nn.Module, optimizer: Optimizer, lanes: Lanes, system: LaneSystem, state: LaneState
    ) -> None:
        def close() -> None:
            system.close()
            lanes.close()

        super().__init__(model, optimizer, lambda: dict(system.stats), close)
        self._lanes = lanes
        self._state = state
        self._followed_s: float | None = None

    def begin_step(self, keep: bool) -> None:
        """See Trainer."""
        self._followed_s = None
        super().begin_step(keep)

    def behind(self) -> bool:
        """Return whether the other workers have completed this worker's next step without it."""
        return self._state.behind()

    def follow(self) -> None:
        """Use the results of the next step instead of computing forward and backward."""
        began = time.perf_counter()
        self._state.follow()
        self._followed_s = time.perf_counter() - began

    def seconds(self) -> float:
        """See Trainer."""
        return super().seconds() if self._followed_s is None else self._followed_s

    def tensors(self) -> list[dict[str, Any]]:
        """See Trainer."""
        return [record.as_dict() for record in self._lanes.take_records()]


def delivery(options: LanedOptions) -> Delivery:
    """Return what may be missing from a job's sums."""
    return Delivery(loss_bound=options.loss_bound, divisor=options.divisor)  # type: ignore[arg-type]


def make_lanes_trainer(
    network: torch.nn.Module,
    optimizer: Optimizer,
    options: LanedOptions,
    train: TrainOptions,
    *,
    job_file: Path,
    rank: int,
) -> Trainer:
    """Return one worker's trainer. Collective: every worker calls it at the same time."""
    taken = {name: value for name, value in train.system.items() if parse("dlcp").has(name)}
    lanes = Lanes(sumwire.load_job(job_file, worker=rank), delivery=delivery(options))
    size = sum(p.numel() * p.element_size() for p in network.parameters())
    ddp = DistributedDataParallel(network, bucket_cap_mb=bucket_mb(train, size / BUCKETS / _MB))
    system = cast(LaneSystem, systems.make("dlcp", lanes, **taken))
    state, hook = system.hook_for(network)
    assert isinstance(state, LaneState)
    timer = HookTimer(hook, state)
    hand_over = hand_over_of(timer, train)
    # A lambda, because DDP checks a hook's annotations and does not understand annotations that are strings.
    ddp.register_comm_hook(None, lambda _, bucket: hand_over(bucket))
    trainer = LanesTrainer(ddp, optimizer, lanes, system, state)
    trainer.hook = timer
    return trainer
