# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A job in lanes: each priority class has its own slots, sequence and thread.

The operations of one job run one after the other, so no tensor can overtake an earlier one, whatever its packets'
priority. Here every lane is a :class:`sumwire.Job` of its own, with the job id and the part of the slots that the job
file gives it. Tensors of different lanes are sent at the same time, and the switches' queues serve the most urgent
first.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from functools import partial
from types import TracebackType
from typing import Any, Final, NoReturn, Self, SupportsIndex, TypeVar

import torch
from torch import Tensor
from torch.futures import Future

from sumwire.checkpoint import Content, Place, Saved, refuse_pickling
from sumwire.codec.layout import layout
from sumwire.codec.thc import BLOCK_VALUES
from sumwire.config import JobConfig
from sumwire.dlcp.tags import LayerMagnitude, Policy, check_priorities, tagger
from sumwire.errors import ConfigError, UsageError
from sumwire.job.control import Change
from sumwire.job.job import Job, Residual
from sumwire.job.operations import require
from sumwire.job.rules import NonFinite
from sumwire.lifecycle import Lifecycle
from sumwire.training.comm_thread import CommThread
from sumwire.transport.options import Delivery
from sumwire.transport.stats import JobStats

# Largest missing share of a tensor's contributions. DLCP (0.6 to 3.5 %) and MLT (0.7 to 3.3 %) found shares of this
# size to cost neither rounds nor accuracy.
LOSS_BOUND: Final = 0.01
# The most records kept until `take_records`.
_RECORDS: Final = 1 << 16

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class TensorRecord:
    """What happened to one tensor.

    It was handed over at ``handed_over`` on time.monotonic's clock, and its result came ``seconds`` later. ``missing``
    of all ``contributions`` (chunks x workers) are not in the result.
    """

    bucket: int
    lane: int
    priority: int
    values: int
    handed_over: float
    seconds: float
    contributions: int
    missing: int

    @property
    def missing_share(self) -> float:
        """The share of contributions that are missing; at most the loss bound if the quorum is all workers."""
        return self.missing / self.contributions if self.contributions else 0.0

    def as_dict(self) -> dict[str, float]:
        """Return the contents as values that JSON can hold."""
        return {**asdict(self), "missing_share": self.missing_share}


class Lanes(Saved):
    """One worker of a job with one or more lanes. Also a context manager.

    ``policy`` decides the lanes' priorities and the packets' drop classes; None is the default policy for the number of
    lanes. ``delivery`` limits what may be missing; None is a loss bound of 1 %. ``options`` are those of
    :class:`sumwire.Job`, for every lane. In each lane, all workers make the same calls in the same order, with policies
    that put the same tensors into the same lanes. If the jobs have a fall-back, making and closing this are collective
    calls.

    Raises ConfigError for a job without THC, and for a policy whose priorities do not fit the lanes.
    """

    def __init__(
        self,
        config: JobConfig,
        *,
        policy: Policy | None = None,
        delivery: Delivery | None = None,
        block: int | None = BLOCK_VALUES,
        nonfinite: NonFinite = "propagate",
        **options: Any,
    ) -> None:
        require(config, ("thc",), "to reduce gradients in lanes")
        self.config = config
        self.policy: Policy = LayerMagnitude.for_lanes(len(config.lanes)) if policy is None else policy
        self.priorities = check_priorities(self.policy.priorities, len(config.lanes))
        self.delivery = Delivery(loss_bound=LOSS_BOUND) if delivery is None else delivery
        self.nonfinite: NonFinite = nonfinite
        self._records: deque[TensorRecord] = deque(maxlen=_RECORDS)
        self._life = Lifecycle(f"lanes of job {config.name}", "Lanes(config)", give_up=self._give_up)
        self.jobs: list[Job] = []
        self._block = block
        self._threads: list[CommThread] = []
        try:
            for lane in range(len(config.lanes)):
                own = config.for_lane(lane)
                self.jobs.append(Job(own, delivery=self.delivery, block=block, nonfinite=nonfinite, **options))
                self._threads.append(CommThread.of(self.jobs[lane], f"job {own.name}"))
        except Exception:
            self.close(agree=False)
            raise

    @property
    def workers(self) -> int:
        """Number of workers of this run."""
        return self.jobs[0].workers

    @property
    def stats(self) -> JobStats:
        """Return the totals of all lanes. Seconds are added up over lanes, also while lanes work at the same time."""
        total = JobStats()
        for job in self.jobs:
            for field in fields(JobStats):
                setattr(total, field.name, getattr(total, field.name) + getattr(job.stats, field.name))
        return total

    @property
    def fallen_back(self) -> bool:
        """Whether any lane has fallen back to the process group."""
        return any(job.fallen_back for job in self.jobs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(agree=error is None)

    def on_close(self, closer: Callable[[], None]) -> None:
        """Call ``closer`` before the lanes end. Those registered last are called first."""
        self._life.on_close(closer)

    def close(self, *, agree: bool = True) -> None:
        """End all lanes after the submitted calls. Closing twice is allowed. See :meth:`sumwire.Job.close`."""
        if not agree:
            self._life.give_up()
        self._life.close(partial(self._close_jobs, agree=agree))

    def _give_up(self, _why: str) -> None:
        for job in self.jobs:
            job.give_up()

    def _close_jobs(self, *, agree: bool) -> None:
        # What one lane's thread still does may need another's.
        for thread in self._threads:
            thread.close()
        for job in self.jobs:
            job.close(agree=agree)

    def on_change(self, callback: Callable[[Change], None]) -> None:
        """Call ``callback`` after every change of a lane. See :meth:`sumwire.Job.on_change`."""
        for job in self.jobs:
            job.on_change(callback)

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Declare that this worker is silent on purpose. See :meth:`sumwire.Job.pause`."""
        with contextlib.ExitStack() as lanes:
            for job in self.jobs:
                lanes.enter_context(job.pause())
            yield

    def place(self) -> Place:
        return self.jobs[0].place()

    def kept(self) -> Content:
        """Return the state of every lane's job."""
        return Content.joined({str(lane): job.kept() for lane, job in enumerate(self.jobs)})

    def restore(self, content: Content, /) -> None:
        if len(content.rest) != len(self.jobs):
            rule = "load it into lanes of the same job file"
            raise UsageError(f"state of lanes: has {len(content.rest)}, the job {len(self.jobs)}: {rule}")
        for lane, job in enumerate(self.jobs):
            job.restore(content.part(str(lane), "lanes"))

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        refuse_pickling(self, "sockets and threads")

    def lane_of(self, position: float) -> int:
        """Return the lane of a tensor at a place in the model. Raises ConfigError if its priority is no lane's."""
        priority = self.policy.priority(position)
        if priority not in self.priorities:
            rule = f"must be one of the lanes' {self.priorities}, at position {position}"
            raise ConfigError("priority", priority, rule, where="policy")
        return self.priorities.index(priority)

    def submit(self, lane: int, call: Callable[[], _Result], device: torch.device | None = None) -> Future[_Result]:
        """Queue a call for the lane's thread; see :class:`sumwire.training.comm_thread.CommThread`."""
        return self.thread(lane).submit(call, device)

    def thread(self, lane: int) -> CommThread:
        """Return a lane's thread."""
        return self._threads[lane]

    def reduce(
        self, x: Tensor, bucket: int, position: float, *, handed_over: float | None = None
    ) -> tuple[Tensor, Residual]:
        """Return the mean of the workers' flat tensors by THC, and a function for this worker's residual.

        As :meth:`sumwire.Job.reduce`, in the caller's thread and in the lane of the tensor's place in the model, 0.0
        (front) to 1.0 (back). Contributions of this worker that are missing from the sum are part of the residual.
        ``handed_over`` is when the tensor was ready, for its record; None is now.
        """
        began = time.monotonic() if handed_over is None else handed_over
        lane = self.lane_of(position)
        job = self.jobs[lane]
        before = job.stats.missing
        mean, residual = job.reduce(x, bucket, tag=tagger(self.policy, position))
        self._note(lane, bucket, x.numel(), began, job.stats.missing - before)
        return mean, residual

    def behind(self, position: float) -> bool:
        """Return True if the other workers have a result in this tensor's lane without this worker's contribution."""
        return self.jobs[self.lane_of(position)].results_ahead()

    def follow(self, values: int, bucket: int, position: float) -> Tensor:
        """Return True if the other workers already have a result in this tensor's lane that lacks this worker's
        contribution."""
        began = time.monotonic()
        lane = self.lane_of(position)
        before = self.jobs[lane].stats.missing
        mean = self.jobs[lane].follow(values, bucket)
        self._note(lane, bucket, values, began, self.jobs[lane].stats.missing - before)
        return mean

    def take_records(self) -> list[TensorRecord]:
        """Return the records of tensors since the last call, in the order of results."""
        taken = []
        while self._records:
            taken.append(self._records.popleft())
        return taken

    def _note(self, lane: int, bucket: int, values: int, began: float, missing: int) -> None:
        contributions = layout(values, self._block).chunks * self.workers
        seconds = time.monotonic() - began
        priority = self.priorities[lane]
        self._records.append(TensorRecord(bucket, lane, priority, values, began, seconds, contributions, missing))
