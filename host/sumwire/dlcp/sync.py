# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Gradients through lanes: DDP's communication hook, and optimizers for plain models. The system `dlcp` uses it.

    with sumwire.dlcp.Lanes(sumwire.load_job("digits.json", worker=rank)) as lanes:
        model = DistributedDataParallel(make_model(), bucket_cap_mb=1)
        model.register_comm_hook(LaneState(lanes, model.module), lane_hook)

A bucket's place in the model is computed from its parameters, not from its number: DDP hands buckets over in reverse
order, the front layers last, and regroups them after the first iteration.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.futures import Future
from torch.optim import Optimizer

from sumwire.checkpoint import Content, Kept, Place
from sumwire.dlcp.lanes import Lanes
from sumwire.errors import UsageError
from sumwire.job.job import Residual
from sumwire.job.rules import NonFinite, result_check
from sumwire.training.buckets import Bucket, ModelSteps
from sumwire.training.comm_thread import CommThread, wait_for
from sumwire.training.ddp import DdpState, Task
from sumwire.training.early_forward import EarlyForward
from sumwire.training.flat import check_covered
from sumwire.training.optim import GradientOptimizer

if TYPE_CHECKING:
    from torch._C._distributed_c10d import GradBucket
else:
    from torch.distributed import GradBucket

# (number of the parameter in the model, its values), in a bucket's order.
Parts = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _BucketOperation:
    """One bucket of a step."""

    index: int
    parts: Parts
    position: float

    @property
    def values(self) -> int:
        return sum(numel for _, numel in self.parts)


class LaneState(DdpState):
    """:class:`sumwire.DdpState` over lanes: buckets of different lanes are reduced at the same time.

    ``parameters`` is the model, or its parameters in order, front layers first. Residuals belong to parameters.
    ``nonfinite`` as in :class:`sumwire.Job`. With ``early`` set, the backward pass leaves each worker its own
    gradients, and the means go to the early optimizer's step.
    """

    early: EarlyForward | None = None

    def __init__(
        self,
        lanes: Lanes,
        parameters: nn.Module | Iterable[Tensor],
        *,
        error_feedback: bool = True,
        nonfinite: NonFinite = "propagate",
    ) -> None:
        super().__init__(None, reduce=_unplaced, error_feedback=error_feedback, model=parameters)
        self.lanes = lanes
        self._checked = result_check(nonfinite)
        self.nonfinite: NonFinite = nonfinite
        # A number says where in the model a parameter is.
        self._ends = list(accumulate(p.numel() for p in self._parameters.all))
        # Buckets of the current step, in the order of hand-over; and those of the latest complete step.
        self._now: list[_BucketOperation] = []
        self._step: list[_BucketOperation] = []
        if not self._ends or not self._ends[-1]:
            raise UsageError("no parameters: nothing to reduce; give some that need gradients")

    def _submit(self, model: ModelSteps, bucket: GradBucket, numbers: list[int]) -> Future[Tensor]:
        parts = self._parts(bucket, numbers)
        if bucket.index() == 0:
            # The first of a step. A step that was not completed is forgotten.
            self._now = []
            if self.early is not None:
                # A bucket waits for the residuals of the step before. They are made in the lanes' threads too, once the
                # means are there, so must be queued before it.
                self.early.await_means()
        self._now.append(_BucketOperation(bucket.index(), parts, self.position(parts)))
        if self.early is None:
            future = super()._submit(model, bucket, numbers)
        else:
            future = self._submit_early(model, bucket, numbers, self.early)
        if bucket.is_last():
            self._step, self._now = self._now, []
        return future

    def _submit_early(
        self, model: ModelSteps, bucket: GradBucket, numbers: list[int], early: EarlyForward
    ) -> Future[Tensor]:
        own = bucket.buffer()
        # DDP fills its buffer anew in the next backward pass, and does not wait for the mean.
        early.announce(bucket.parameters(), self._queue(model, bucket, numbers, own.clone()))
        future: Future[Tensor] = Future(devices=[own.device] if own.is_cuda else None)
        future.set_result(own)
        return future

    @property
    def parameters(self) -> Sequence[Tensor]:
        """The model's parameters, in its order."""
        return self._parameters.all

    @property
    def communicating(self) -> bool:
        """Whether a thread that reduces buckets is running."""
        return any(self.lanes.thread(lane).alive for lane in range(len(self.lanes.jobs)))

    def position(self, parts: Parts) -> float:
        """Return the middle of a bucket's values among the model's: 0.0 is its front, the input's layer."""
        first = min(self._ends[number] - numel for number, numel in parts)
        last = max(self._ends[number] for number, _ in parts)
        return (first + last) / (2 * self._ends[-1])

    def behind(self) -> bool:
        """Return True if a quorum of other workers has already completed the first bucket of this worker's next step.

        If so, they make that step without this worker. False before the first step. Call it between steps.
        """
        return bool(self._step) and self.lanes.behind(self._step[0].position)

    def follow(self) -> None:
        """Make the next step without contributing: the means of the others become the parameters' gradients.

        Call it instead of forward and backward if :meth:`behind` is true, before the optimizer's step. Residuals do not
        change. The step's buckets must be those of the step before, as DDP has them from its second iteration on if all
        parameters are used in every step. DDP must not communicate in other ways, such as broadcasting buffers, because
        the other workers would wait for this one.
        """
        futures: list[Future[Tensor]] = []
        for operation in self._step:
            lane = self.lanes.lane_of(operation.position)
            futures.append(self.lanes.submit(lane, _following(self.lanes, operation)))
        for operation, future in zip(self._step, futures, strict=True):
            self._write(operation, self._checked(wait_for(future), operation.index))

    @torch.no_grad()
    def _write(self, operation: _BucketOperation, mean: Tensor) -> None:
        for (number, numel), piece in zip(
            operation.parts, torch.split(mean, [numel for _, numel in operation.parts]), strict=True
        ):
            parameter = self._parameters.all[number]
            if parameter.grad is None:
                parameter.grad = torch.empty_like(parameter)
            assert numel == parameter.numel()
            parameter.grad.copy_(piece.view(parameter.shape))

    def _owners(self) -> dict[str, Kept]:
        return {"lanes": self.lanes}

    def _thread_for(self, task: Task) -> CommThread:
        return self.lanes.thread(self.lanes.lane_of(self.position(task.parts)))

    def _aggregate(self, x: Tensor, task: Task) -> tuple[Tensor, Residual]:
        position = self.position(task.parts)
        mean, residual = self.lanes.reduce(x, task.index, position, handed_over=task.handed_over)
        return self._checked(mean, task.index), residual


def lane_hook(state: LaneState, bucket: GradBucket) -> Future[Tensor]:
    """DDP communication hook: ``model.register_comm_hook(LaneState(lanes, model.module), lane_hook)``."""
    return state.submit(bucket)


class LaneSync(GradientOptimizer):
    """Replaces the gradients of a plain model by their mean before the inner optimizer's step.

    It sends one tensor per lane that has parameters. A parameter without gradient counts as zeros and gets a gradient.
    """

    def __init__(self, optimizer: Optimizer, state: LaneState) -> None:
        self._state = state
        super().__init__(optimizer)
        check_covered(state.parameters, optimizer)

    @torch.no_grad()
    def synchronize(self) -> None:
        """Average the gradients. The back layers are handed over first, as in a backward pass."""
        buckets = _buckets(self._state)
        futures = [self._state.submit(cast(GradBucket, bucket)) for bucket in buckets]
        if self._state.early is None:
            for bucket, future in zip(buckets, futures, strict=True):
                _write_mean(bucket.parameters(), wait_for(future))

    def place(self) -> Place:
        return self._state.place()

    def kept(self) -> Content:
        """Return the inner optimizer's state, and that of the hook and its lanes."""
        return Content.joined({"optimizer": super().kept(), "lanes": self._state.kept()})

    def restore(self, content: Content, /) -> None:
        super().restore(content.part("optimizer", self.kind()))
        self._state.restore(content.part("lanes", self.kind()))


class EarlySync(LaneSync):
    """Like :class:`LaneSync`, but the step is made piece by piece, each when the next forward pass needs it
    (:mod:`sumwire.training.early_forward`). ``sends``: whether gradients are sent here, not by DDP's hook.

    Raises UsageError if results with NaN or infinity are to raise.
    """

    def __init__(self, model: nn.Module, optimizer: Optimizer, state: LaneState, *, sends: bool) -> None:
        check_early(state.nonfinite)
        check_early(state.lanes.nonfinite)
        self._early = state.early = EarlyForward(model, optimizer)
        self._sends = sends
        super().__init__(optimizer, state)

    def step(self, closure: Any = None, *, grad_scaler: Any = None) -> Any:
        """Send the gradients and return. Raises UsageError for a closure or scaler, because both need the whole step at
        once."""
        if closure is not None or grad_scaler is not None:
            raise UsageError("early forward: a closure or GradScaler needs the whole step: leave early_forward out")
        self._exchanged.check()
        if self._sends:
            self.synchronize()
        if self._early.announced:
            self._early.step()
        else:
            # Gradients that are there already, as of a straggler's `follow`.
            self._early.finish()
            self.inner.step()

    def finish(self) -> None:
        """Wait until the latest step is complete. Call it before parameters are read outside a forward pass."""
        self._early.finish()

    def kept(self) -> Content:
        self.finish()
        return super().kept()

    def restore(self, content: Content, /) -> None:
        self.finish()
        super().restore(content)


def check_early(nonfinite: NonFinite) -> None:
    """Raise UsageError for "raise": the error of one piece would come after other pieces have updated the model."""
    if nonfinite == "raise":
        rule = "needs the whole step: leave early_forward out, or nonfinite"
        raise UsageError(f"early forward: nonfinite = {nonfinite!r} {rule}")


def _bucket_of(index: int, parameters: tuple[Tensor, ...], *, last: bool) -> Bucket:
    """A bucket of one lane's parameters, as DDP would hand it over."""
    pieces = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    return Bucket(index, last, torch.cat([piece.reshape(-1).to(torch.float32) for piece in pieces]), parameters)


def _write_mean(parameters: Sequence[Tensor], mean: Tensor) -> None:
    """Make the pieces of a bucket's mean the parameters' gradients."""
    for p, piece in zip(parameters, torch.split(mean, [p.numel() for p in parameters]), strict=True):
        p.grad = piece.view(p.shape).to(p.dtype, copy=True)


def _buckets(state: LaneState) -> list[Bucket]:
    by_lane: dict[int, list[Tensor]] = {}
    for number, parameter in enumerate(state._parameters.all):
        lane = state.lanes.lane_of(state.position(((number, parameter.numel()),)))
        by_lane.setdefault(lane, []).append(parameter)
    lanes = sorted(by_lane, reverse=True)
    return [_bucket_of(number, tuple(by_lane[lane]), last=lane == lanes[-1]) for number, lane in enumerate(lanes)]


def _following(lanes: Lanes, operation: _BucketOperation) -> Any:
    return lambda: lanes.follow(operation.values, operation.index, operation.position)


def _unplaced(x: Tensor, number: int) -> tuple[Tensor, Residual]:
    raise UsageError(f"bucket {number}: lanes need its place in the model")
