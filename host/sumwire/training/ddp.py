# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Communication hook for torch's DistributedDataParallel.

    import sumwire, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo")                      # DDP's own start-up, and the way out if the switch fails
    config = sumwire.load_job("digits.json", worker=dist.get_rank())
    with sumwire.Job(config) as job:
        model = DistributedDataParallel(make_model())
        model.register_comm_hook(sumwire.DdpState(job), sumwire.ddp_hook)
        for inputs, labels in batches:
            optimizer.zero_grad()
            loss(model(inputs), labels).backward()       # gradients are summed in the switch meanwhile
            optimizer.step()

DDP hands over buckets in the same order on all ranks, and all go through one thread in that order, so every worker
of the job does the same operations. The backward pass goes on while a bucket is on the wire.
"""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor
from torch.futures import Future

from sumwire.codec.feedback import ParameterFeedback
from sumwire.errors import ClosedError, UsageError
from sumwire.job.job import Job, Residual
from sumwire.training.comm_thread import CommThread

if TYPE_CHECKING:
    from torch._C._distributed_c10d import GradBucket
else:
    from torch.distributed import GradBucket


# Values of a gradient looked at before all of them are.
_PROBED: Final = 256

# A bucket's flat values and its number -> their aggregate over the workers, and what gives this worker's residual.
Reduce = Callable[[Tensor, int], tuple[Tensor, Residual]]


@dataclass(frozen=True)
class Task:
    """One bucket. ``buffer`` is DDP's own: it stays untouched until the bucket's future is done."""

    buffer: Tensor
    index: int
    parts: tuple[tuple[int, int], ...]
    # On a GPU: when the gradients are in the buffer.
    filled: torch.cuda.Event | None
    # On time.monotonic's clock, in seconds.
    handed_over: float = field(default_factory=time.monotonic)


class DdpState:
    """The hook's state: one job, its thread, and the residuals of error feedback.

    ``reduce(bucket, number)`` gives the aggregate and a function for this worker's residual; the job's own reduction
    (THC) if None.

    Residuals belong to parameters, not to buckets, since DDP regroups its buckets after the first iteration.
    A parameter without gradient in a step keeps its residual for a step that uses it: if no worker used it, DDP
    throws the result away, and a residual in it would be lost. One state serves one DistributedDataParallel
    instance. ``error_feedback=False`` drops the residuals.
    """

    def __init__(self, job: Job | None, *, reduce: Reduce | None = None, error_feedback: bool = True) -> None:
        if reduce is None and job is None:
            raise UsageError("a DDP hook needs a job, or a reduction that does without")
        self.job = job
        self._reduction = reduce or (job.reduce if job else None)
        self.feedback = ParameterFeedback() if error_feedback else None
        self._numbers: dict[int, int] = {}
        # Held so that no id in _numbers is used again for another tensor.
        self._parameters: list[Tensor] = []
        # By parameter: the work on its residual that came after the latest result.
        self._kept: dict[int, Future[None]] = {}
        self._thread = CommThread(f"job {job.config.name}" if job else "hook without switch")
        if job is not None:
            job.on_close(self.close)

    def submit(self, bucket: GradBucket) -> Future[Tensor]:
        """Queue a bucket; the future holds the bucket's buffer, filled with the mean gradient."""
        buffer = bucket.buffer()
        task = Task(buffer, bucket.index(), self._parts(bucket), _filled(buffer))
        future = self._thread_for(task).submit(partial(self._reduce, task), buffer.device)
        _raise_from_backward(future)
        return future

    @property
    def communicating(self) -> bool:
        """Whether the thread is there that buckets go through."""
        return self._thread.alive

    def _parts(self, bucket: GradBucket) -> tuple[tuple[int, int], ...]:
        """(number of the parameter in this state, its values), in the bucket's order."""
        parts = []
        for parameter in bucket.parameters():
            if id(parameter) not in self._numbers:
                self._numbers[id(parameter)] = len(self._parameters)
                self._parameters.append(parameter)
            parts.append((self._numbers[id(parameter)], parameter.numel()))
        return tuple(parts)

    def _reduce(self, task: Task) -> Tensor:
        if task.filled is not None:
            task.filled.synchronize()
        if self.feedback is None:
            return task.buffer.copy_(self._aggregate(task.buffer, task)[0])
        self._await_kept(task)
        feedback = self.feedback
        x = feedback.compensate(task.buffer, task.parts)
        idle = self._idle(task)
        for piece, _ in idle:
            x[piece] = 0.0
        mean, residual_of = self._aggregate(x, task)

        def keep() -> None:
            residual = residual_of()
            for piece, residue in idle:
                residual[piece] = 0.0 if residue is None else residue
            feedback.store(task.parts, residual)

        self._afterwards(task, keep)
        return task.buffer.copy_(mean)

    def _thread_for(self, task: Task) -> CommThread:
        """Where a bucket's work is done. Buckets of one thread go in their order."""
        return self._thread

    def _aggregate(self, x: Tensor, task: Task) -> tuple[Tensor, Residual]:
        """The aggregate of a bucket's values, residuals included."""
        assert self._reduction is not None
        return self._reduction(x, task.index)

    def _await_kept(self, task: Task) -> None:
        """Wait for the residuals of the bucket's parameters; an error of that work comes out here.

        In one thread it is done by now, since calls run in order. Over several, DDP may have moved a parameter to
        a bucket of another one.
        """
        kept = {self._kept.pop(parameter, None) for parameter, _ in task.parts}
        for future in kept - {None}:
            assert future is not None
            future.wait()

    def _afterwards(self, task: Task, keep: Callable[[], None]) -> None:
        """First the results, for which backward() waits: residuals are not needed before the next step."""
        try:
            future = self._thread_for(task).submit(keep)
        except ClosedError:
            keep()
            return
        for parameter, _ in task.parts:
            self._kept[parameter] = future

    def _idle(self, task: Task) -> list[tuple[slice, Tensor | None]]:
        """Pieces of the bucket whose gradient is all zero, each with the residual to keep."""
        assert self.feedback is not None
        idle, start = [], 0
        for parameter, numel in task.parts:
            piece = slice(start, start + numel)
            if _all_zero(task.buffer[piece]):
                idle.append((piece, self.feedback.residual(parameter)))
            start += numel
        return idle

    def close(self) -> None:
        """End the thread, as the job does when it closes; buckets that still wait are done first."""
        self._thread.close()


def _all_zero(x: Tensor) -> bool:
    # A few values tell almost always, and cost nothing.
    return not bool(x[:_PROBED].any()) and not bool(x.any())


def ddp_hook(state: DdpState, bucket: GradBucket) -> Future[Tensor]:
    """DDP communication hook: ``model.register_comm_hook(DdpState(job), ddp_hook)``.

    The bucket's gradients become their mean over the job's workers, in the bucket's dtype. Errors of the job come
    out of ``backward()``.
    """
    return state.submit(bucket)


def local_hook(state: object, bucket: GradBucket) -> Future[Tensor]:
    """DDP communication hook that leaves each worker its own gradients, for optimizers that do the communication.

    :class:`sumwire.optim.Marsit` compresses updates, which come after the gradients: of it, DDP can do only this.
    """
    buffer = bucket.buffer()
    future: Future[Tensor] = Future(devices=[buffer.device] if buffer.is_cuda else None)
    future.set_result(buffer)
    return future


def _raise_from_backward(future: Future[Tensor]) -> None:
    """Let backward() end with the error's own type: DDP itself would turn it into a RuntimeError about a cast.

    DDP queues its own end-of-backward callback after the last bucket, so these waits come first. A bucket that is
    ready before backward, since none of its parameters is used, has no backward pass to report to.
    """
    with contextlib.suppress(RuntimeError):
        torch.autograd.Variable._execution_engine.queue_callback(lambda: _wait(future))


def _wait(future: Future[Tensor]) -> None:
    future.wait()


def _filled(buffer: Tensor) -> torch.cuda.Event | None:
    if not buffer.is_cuda:
        return None
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(buffer.device))
    return event
