# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Communication hook for torch's DistributedDataParallel.

    import sumwire, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")                      # for DDP's own start-up, and the fall-back
    config = sumwire.load_job("digits.json", worker=dist.get_rank())
    with sumwire.Job(config) as job:
        model = DistributedDataParallel(make_model())
        model.register_comm_hook(sumwire.DdpState(job), sumwire.ddp_hook)
        for inputs, labels in batches:
            optimizer.zero_grad()
            loss(model(inputs), labels).backward()       # gradients are summed in the switch meanwhile
            optimizer.step()

DDP hands over buckets in the same order on all ranks, and one thread reduces them in that order, so all workers make
the same operations. The backward pass goes on meanwhile.
"""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, SupportsIndex

import torch
import torch.distributed as dist
from torch import Tensor
from torch.amp.grad_scaler import GradScaler
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from sumwire.checkpoint import Content, Kept, Place, Saved, owner_of, place_of, refuse_pickling
from sumwire.codec.feedback import ParameterFeedback
from sumwire.codec.tensors import all_finite
from sumwire.errors import ClosedError, UsageError
from sumwire.job.job import Job, Residual
from sumwire.training.buckets import JoinCheck, Model, Models, ModelSteps, Parameters, StepResiduals
from sumwire.training.comm_thread import CommThread, queued, wait_for
from sumwire.training.hierarchical import AnyJob, NodeJob, RankGroup
from sumwire.training.scalers import find_scaler

if TYPE_CHECKING:
    from torch._C._distributed_c10d import GradBucket
else:
    from torch.distributed import GradBucket


# Values of a gradient that are checked before all of them are.
_PROBED: Final = 256

# A reduction: a bucket's flat values and its number -> their aggregate over the workers, and a function that returns
# this worker's residual.
Reduce = Callable[[Tensor, int], tuple[Tensor, Residual]]


@dataclass(frozen=True)
class Task:
    """One bucket to reduce. ``buffer`` is DDP's own, which DDP does not change until the bucket's future is done, or a
    copy of it."""

    buffer: Tensor
    index: int
    parts: tuple[tuple[int, int], ...]
    # None without error feedback.
    step: StepResiduals | None
    # On a GPU: when the gradients are in the buffer.
    filled: torch.cuda.Event | None
    # With several ranks a node: waits until the buffer has the node's mean.
    summed: Callable[[], None] | None = None
    # Seconds on time.monotonic's clock.
    handed_over: float = field(default_factory=time.monotonic)


class DdpState(Saved):
    """The hook's state: one job, its thread, and the residuals of error feedback.

    ``reduce(bucket, number)`` returns the aggregate and a function for this worker's residual. None is the job's own
    reduction, THC. ``error_feedback=False`` drops the residuals.

    Residuals belong to parameters, not to buckets, since DDP regroups its buckets after the first iteration. If a
    parameter has no gradient in a step, its residual waits for a step in which it has one. DDP discards the result of a
    parameter that no worker used, so a residual in it would be lost. One state may serve several models, also in one
    backward pass (:class:`sumwire.training.buckets.Models`); to be saved each needs its own.

    With several ranks a node, ``job`` is what :func:`sumwire.init` returns, or ``local_group`` has the ranks of this
    node and ``job`` is on its first rank alone, None on the others (:mod:`sumwire.training.hierarchical`). Residuals
    are then those of the node's mean, on its first rank.

    `state_dict` has the residuals by the parameters' names, and the state of the job or the reduction, if it has one
    (:func:`sumwire.checkpoint.owner_of`). It needs ``model``, DDP's or the one within, or the model's parameters in
    their order: DDP names no parameters. In the first step after `load_state_dict` the gradients are reduced in the
    buckets of the step before the checkpoint (:mod:`sumwire.training.buckets`).

    If the result of any bucket has NaN or infinity, the residuals of all buckets of that step stay as they were.
    ``scaler`` is the GradScaler of the training, if it has one: gradients come scaled, so residuals follow its scale.
    If it is not given, it is found in its first step (:mod:`sumwire.training.scalers`).
    """

    def __init__(
        self,
        job: AnyJob | None,
        *,
        local_group: dist.ProcessGroup | None = None,
        reduce: Reduce | None = None,
        error_feedback: bool = True,
        model: Model | None = None,
        scaler: GradScaler | None = None,
    ) -> None:
        if reduce is None and job is None and local_group is None:
            raise UsageError("a DDP hook needs a job, or a reduction that does without")
        shared = _of_node(job, local_group)
        # Several ranks have one worker: the node, and whether this rank is that worker.
        self._node = None if shared is None else shared.node
        self.job = shared.job if shared is not None else job if isinstance(job, Job) else None
        if reduce is None and isinstance(model, DistributedDataParallel):
            check_ranks(model, shared or self.job)
        leads = self._node is None or self._node.leads
        self._reduction = reduce or (shared.across if shared else self.job.reduce if self.job else None)
        self.feedback = ParameterFeedback() if error_feedback and leads else None
        self._parameters = Parameters(model)
        self._models = Models(self._parameters)
        self._join = JoinCheck()
        self.scaler = scaler
        # Of the residuals; None before the first step with a scaler.
        self._scale: float | None = None
        if scaler is None and self.feedback is not None:
            find_scaler(self)
        # That of the job: hooks of several models make its operations in one order.
        owner, name = shared if isinstance(job, NodeJob) else self.job, _name_of(shared, self.job)
        self._thread = CommThread.of(owner, name)

    def submit(self, bucket: GradBucket) -> Future[Tensor]:
        """Queue a bucket. The future holds the bucket's buffer, filled with the mean gradient.

        Raises UsageError for a bucket with a parameter that is not the model's, or with a sparse gradient, where it may
        be of several models, and within a join that divides by the remaining ranks.
        """
        self._parameters.check_dense(bucket)
        numbers = self._parameters.numbers(bucket)
        if bucket.index() == 0 and numbers:
            self._join.check(bucket.parameters()[0])
        model = self._models.of(bucket, numbers)
        return model.buckets.submit(bucket, numbers, partial(self._submit, model))

    def _submit(self, model: ModelSteps, bucket: GradBucket, numbers: list[int]) -> Future[Tensor]:
        future = self._queue(model, bucket, numbers, bucket.buffer())
        raise_from_backward(future)
        return future

    def _queue(self, model: ModelSteps, bucket: GradBucket, numbers: list[int], buffer: Tensor) -> Future[Tensor]:
        """Queue a bucket whose values are in ``buffer``; the future holds that, filled with the mean gradient."""
        # Begun here, in the order of the buckets: the node's ranks sum this one while the last one is in the network.
        summed = None if self._node is None else self._sum_up(self._node, buffer)
        filled = None if buffer.is_cpu else queued(buffer.device)
        task = Task(
            buffer, bucket.index(), self._parts(bucket, numbers), self._step_of(model, bucket), filled, summed=summed
        )
        try:
            return self._thread_for(task).submit(partial(self._reduce, task), buffer.device)
        except Exception:
            self._drop(task)
            raise

    def _sum_up(self, node: RankGroup, buffer: Tensor) -> Callable[[], None]:
        # A forked child has none of the group's threads.
        self._thread.check_process()
        return node.sum_up(buffer)

    @property
    def communicating(self) -> bool:
        """Whether the thread that reduces buckets is running."""
        return self._thread.alive

    def _parts(self, bucket: GradBucket, numbers: list[int]) -> tuple[tuple[int, int], ...]:
        """Return (number of the parameter in this state, number of its values), in the bucket's order.

        Raises UsageError for complex parameters with feedback: DDP's bucket has their parts, one after the other.
        """
        parameters = bucket.parameters()
        if self.feedback is not None and any(map(torch.is_complex, parameters)):
            raise UsageError(
                "complex parameters: have no residuals here: make DdpState(..., error_feedback=False), or give the "
                "model real and imaginary parts as parameters"
            )
        return tuple(zip(numbers, map(Tensor.numel, parameters), strict=True))

    def settle(self) -> None:
        """Wait until the residuals of the latest step are kept. Call it between steps."""
        for latest in filter(None, (model.latest for model in self._models.all)):
            latest.abandon()
            if not latest.settled:
                self._thread.check_process()
            latest.wait()

    def _step_of(self, model: ModelSteps, bucket: GradBucket) -> StepResiduals | None:
        """Return the step that a bucket handed over now belongs to. Bucket 0 is the first of one."""
        if self.feedback is None:
            return None
        if model.latest is None or bucket.index() == 0:
            if self.scaler is not None:
                self._follow_scale(self.feedback, self.scaler.get_scale())
            model.latest = StepResiduals(self.feedback, model.latest)
        model.latest.hand_over(last=bucket.is_last())
        return model.latest

    def has(self, parameter: Tensor) -> bool:
        """Return whether the hook gets this parameter's gradients, judging by the buckets so far, or by the model."""
        return self._parameters.has(parameter)

    def follow_scaler(self, scaler: GradScaler) -> None:
        """Let residuals follow this scaler, whose present scale multiplied the latest gradients."""
        self.scaler, self._scale = scaler, scaler.get_scale()

    def _follow_scale(self, feedback: ParameterFeedback, scale: float) -> None:
        if self._scale is not None and scale != self._scale:
            self.settle()
            feedback.rescale(scale / self._scale)
        self._scale = scale

    def _reduce(self, task: Task) -> Tensor:
        if task.filled is not None:
            task.filled.synchronize()
        if self._node is None or task.summed is None:
            return self._reduce_own(task)
        if self._node.leads:
            return self._node.give(partial(self._reduce_summed, task, task.summed))
        task.summed()
        self._node.take(task.buffer)
        return task.buffer

    def _reduce_summed(self, task: Task, summed: Callable[[], None]) -> Tensor:
        summed()
        return self._reduce_own(task)

    def _reduce_own(self, task: Task) -> Tensor:
        """Of this rank, or of its node."""
        if task.step is None:
            return task.buffer.copy_(self._aggregate(task.buffer, task)[0])
        try:
            return self._reduce_with_feedback(task, task.step)
        except Exception:
            self._drop(task)
            raise

    def _drop(self, task: Task) -> None:
        if task.step is not None:
            task.step.drop()

    def _reduce_with_feedback(self, task: Task, step: StepResiduals) -> Tensor:
        assert self.feedback is not None
        step.await_former()
        x = self.feedback.compensate(task.buffer, task.parts)
        idle = self._idle(task)
        for piece, _ in idle:
            x[piece] = 0.0
        mean, residual_of = self._aggregate(x, task)

        def keep() -> None:
            residual = residual_of()
            for piece, residue in idle:
                residual[piece] = 0.0 if residue is None else residue
            step.stage(task.parts, residual)

        result = task.buffer.copy_(mean)
        if all_finite(result):
            self._afterwards(task, step, keep)
        else:
            step.drop()
        return result

    def _thread_for(self, task: Task) -> CommThread:
        """Return the thread that reduces a bucket. A thread keeps the order of its buckets."""
        return self._thread

    def _aggregate(self, x: Tensor, task: Task) -> tuple[Tensor, Residual]:
        """Return the aggregate of a bucket's values plus residuals, and the function for the new residual."""
        assert self._reduction is not None
        return self._reduction(x, task.index)

    def _afterwards(self, task: Task, step: StepResiduals, keep: Callable[[], None]) -> None:
        """Queue the making of residuals. backward() waits for results only, and the next step needs the residuals."""

        def keep_or_drop() -> None:
            if step.dropped:
                return
            try:
                keep()
            except Exception as error:  # noqa: BLE001 - raised by the next step, whatever it is
                step.drop(error)

        try:
            self._thread_for(task).submit(keep_or_drop)
        except ClosedError:
            keep_or_drop()

    def _idle(self, task: Task) -> list[tuple[slice, Tensor | None]]:
        """Return the slices of the bucket whose gradient is all zero, each with the residual to keep."""
        assert self.feedback is not None
        idle, start = [], 0
        for parameter, numel in task.parts:
            piece = slice(start, start + numel)
            if _all_zero(task.buffer[piece]):
                idle.append((piece, self.feedback.residual(parameter)))
            start += numel
        return idle

    def place(self) -> Place:
        return place_of(*self._owners().values())

    def kept(self) -> Content:
        """Return the residuals, the latest grouping, and the state of job and reduction. Raises UsageError without a
        model."""
        if not self._parameters.known:
            raise UsageError(f"{self.kind()}: has no names of parameters to save: make it with model=, the model")
        self.settle()
        feedback = Content() if self.feedback is None else self.feedback.kept()
        shapes = self._parameters.shapes
        residuals = {shapes[number][0]: flat.view(shapes[number][1]) for number, flat in feedback.residuals.items()}
        own = Content(
            residuals, {"parameters": shapes, "scale": self._scale, **self._models.all[0].buckets.kept().rest}
        )
        return Content.joined({"hook": own, **{name: owner.kept() for name, owner in self._owners().items()}})

    def restore(self, content: Content, /) -> None:
        if not self._parameters.known:
            raise UsageError(f"{self.kind()}: has no names of parameters to load: make it with model=, the model")
        self.settle()
        own = content.part("hook", self.kind())
        places = self._parameters.places_of(own.rest["parameters"], f"state of {self.kind()}")
        for name, owner in self._owners().items():
            owner.restore(content.part(name, self.kind()))
        self._scale = own.rest["scale"]
        numbers = dict(zip((name for name, _ in own.rest["parameters"]), places, strict=True))
        if self.feedback is not None:
            flat = {numbers[name]: residual.reshape(-1) for name, residual in own.residuals.items()}
            self.feedback.restore(Content(flat))
        self._models.all[0].buckets.restore(own, places)

    def _owners(self) -> dict[str, Kept]:
        """Return what else decides the next results, by name."""
        owner = None if self._reduction is None else owner_of(self._reduction)
        found: dict[str, Kept] = {} if self.job is None else {"job": self.job}
        return found if owner is None or owner is self.job else {**found, "reduction": owner}

    def __deepcopy__(self, memo: dict[int, Any]) -> "DdpState":
        """Return this state: a copy of DDP's model, as AveragedModel makes it, has no hook that would use another."""
        return self

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        refuse_pickling(self, "a job and a thread")

    def close(self) -> None:
        """Wait for all queued buckets, and end the job's thread if nothing else uses it. Closing the job ends it
        too."""
        self._thread.close()


def _of_node(job: AnyJob | None, local_group: dist.ProcessGroup | None) -> NodeJob | None:
    """The job of a node with several ranks; None if this rank is a worker by itself."""
    if isinstance(job, NodeJob):
        return job
    if local_group is None:
        return None
    name = "of this node" if job is None else job.config.name
    return NodeJob(name, job, RankGroup.of(local_group), dist.get_world_size())


def check_ranks(model: DistributedDataParallel, job: AnyJob | None) -> None:
    """Raise UsageError for a model over other ranks than the job's, because its mean would be over the wrong ranks."""
    ranks = dist.get_process_group_ranks(model.process_group)
    if job is not None and len(ranks) != job.summands:
        raise UsageError(
            f"DistributedDataParallel over ranks {ranks}, and a job of {job.summands} ranks: must be all of the job's: "
            'leave out process_group; else init_process_group("sumwire"), which serves groups of ranks'
        )


def _name_of(shared: NodeJob | None, job: Job | None) -> str:
    name = shared.name if shared is not None else None if job is None else job.config.name
    return "hook without switch" if name is None else f"job {name}"


def _all_zero(x: Tensor) -> bool:
    # The first values almost always decide, and cost little.
    return not bool(x[:_PROBED].any()) and not bool(x.any())


def ddp_hook(state: DdpState, bucket: GradBucket, *rest: Tensor) -> Future[Tensor]:
    """DDP communication hook: ``model.register_comm_hook(DdpState(job), ddp_hook)``.

    The bucket's gradients become their mean over the job's workers, in the bucket's dtype. ``backward()`` raises the
    job's errors. Raises UsageError if FullyShardedDataParallel calls it, which passes whole gradients and shards, and
    for a state of another type.
    """
    if rest or isinstance(bucket, Tensor):
        raise UsageError(
            "the DDP hook was given a gradient of FullyShardedDataParallel: leave out register_comm_hook, and call "
            "sumwire.sharded.attach(model, job)"
        )
    if not isinstance(state, DdpState):
        kind = type(state).__name__
        raise UsageError(
            f"the DDP hook was given a {kind} for its state: call `register_comm_hook(DdpState(job), ddp_hook)`"
        )
    return state.submit(bucket)


def local_hook(state: object, bucket: GradBucket) -> Future[Tensor]:
    """DDP communication hook that leaves each worker its own gradients, for optimizers that communicate themselves.

    :class:`sumwire.optim.Marsit` communicates updates, which are made after the gradients.
    """
    buffer = bucket.buffer()
    future: Future[Tensor] = Future(devices=[buffer.device] if buffer.is_cuda else None)
    future.set_result(buffer)
    return future


def raise_from_backward(future: Future[Any]) -> None:
    """Make backward() raise the future's own error. DDP would turn it into a RuntimeError about a cast.

    DDP queues its own end-of-backward callback after the last bucket, so these waits come first. A bucket none of whose
    parameters is used is ready before the backward pass, and its error cannot be raised there.
    """
    with contextlib.suppress(RuntimeError):
        torch.autograd.Variable._execution_engine.queue_callback(lambda: _wait(future))


def _wait(future: Future[Any]) -> None:
    wait_for(future)
