# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A job in lanes: each priority class has slots, a sequence and a thread of its own.

Within one job, operations come one after the other, so a late tensor could never overtake an earlier one, whatever
its packets' priority. Here every lane is a :class:`sumwire.Job` of its own, of the number and the share of the slots
that the job file gives it: tensors of different lanes are under way at the same time, and the switches' queues decide
who goes first.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import torch
from torch import Tensor
from torch.futures import Future

from sumwire.codec.layout import layout
from sumwire.codec.thc import BLOCK_VALUES
from sumwire.config import JobConfig
from sumwire.dlcp.tags import LayerMagnitude, Policy, check_priorities, tagger
from sumwire.errors import ConfigError
from sumwire.job.job import Job, Residual
from sumwire.job.operations import require
from sumwire.training.comm_thread import CommThread
from sumwire.transport.delivery import Delivery
from sumwire.transport.stats import JobStats

# Share of a tensor's contributions that may be missing: within what DLCP (0.6 to 3.5 %) and MLT (0.7 to 3.3 %) found
# to cost neither rounds nor accuracy.
LOSS_BOUND: Final = 0.01
# Records kept until they are taken.
_RECORDS: Final = 1 << 16

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class TensorRecord:
    """One tensor's way. ``seconds`` from its hand-over, at ``handed_over`` on time.monotonic's clock, to its result;
    ``missing`` contributions of ``contributions`` in all (chunks x workers) are not in the result."""

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
        """Never above the job's loss bound, where all workers are the quorum."""
        return self.missing / self.contributions if self.contributions else 0.0

    def as_dict(self) -> dict[str, float]:
        """For JSON."""
        return {**asdict(self), "missing_share": self.missing_share}


class Lanes:
    """One worker's part in a job of one or more lanes. Also a context manager.

    ``policy`` gives lanes their priorities and packets their drop classes, the default policy of so many lanes if
    None; ``delivery`` says how much may be missing, a loss bound of 1 % if None. ``options`` are those of
    :class:`sumwire.Job`, of every lane. All workers make the same calls in the same order in each lane, with policies
    that put the same tensors into the same lanes. Where the jobs have a fall-back, making and closing this are
    collective calls.

    Raises ConfigError for a job without THC, or a policy whose priorities do not fit the lanes.
    """

    def __init__(
        self,
        config: JobConfig,
        *,
        policy: Policy | None = None,
        delivery: Delivery | None = None,
        block: int | None = BLOCK_VALUES,
        **options: Any,
    ) -> None:
        require(config, ("thc",), "to reduce gradients in lanes")
        self.config = config
        self.policy: Policy = LayerMagnitude.for_lanes(len(config.lanes)) if policy is None else policy
        self.priorities = check_priorities(self.policy.priorities, len(config.lanes))
        self.delivery = Delivery(loss_bound=LOSS_BOUND) if delivery is None else delivery
        self._records: deque[TensorRecord] = deque(maxlen=_RECORDS)
        self._closers: list[Callable[[], None]] = []
        self.jobs: list[Job] = []
        self._block = block
        self._threads: list[CommThread] = []
        try:
            for lane in range(len(config.lanes)):
                own = config.for_lane(lane)
                self.jobs.append(Job(own, delivery=self.delivery, block=block, **options))
                self._threads.append(CommThread(f"job {own.name}"))
        except Exception:
            self.close(agree=False)
            raise

    @property
    def workers(self) -> int:
        """Workers of the job."""
        return self.config.workers

    @property
    def stats(self) -> JobStats:
        """Totals of all lanes. Seconds of lanes that work at the same time count for each."""
        total = JobStats()
        for job in self.jobs:
            for field in fields(JobStats):
                setattr(total, field.name, getattr(total, field.name) + getattr(job.stats, field.name))
        return total

    @property
    def fallen_back(self) -> bool:
        """Whether operations of any lane now go by the process group."""
        return any(job.fallen_back for job in self.jobs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(agree=error is None)

    def on_close(self, closer: Callable[[], None]) -> None:
        """Have ``closer`` called first when this closes."""
        self._closers.append(closer)

    def close(self, *, agree: bool = True) -> None:
        """End all lanes, what was submitted first; closing twice is allowed. See :meth:`sumwire.Job.close`."""
        while self._closers:
            self._closers.pop(0)()
        for thread in self._threads:
            thread.close()
        for job in self.jobs:
            job.close(agree=agree)

    def lane_of(self, position: float) -> int:
        """The lane of a tensor at a place in the model. Raises ConfigError for a policy that names no lane's."""
        priority = self.policy.priority(position)
        if priority not in self.priorities:
            rule = f"must be one of the lanes' {self.priorities}, at position {position}"
            raise ConfigError("priority", priority, rule, where="policy")
        return self.priorities.index(priority)

    def submit(self, lane: int, call: Callable[[], _Result], device: torch.device | None = None) -> Future[_Result]:
        """Have the lane's thread make a call, after those before it: see
        :class:`sumwire.training.comm_thread.CommThread`."""
        return self.thread(lane).submit(call, device)

    def thread(self, lane: int) -> CommThread:
        """The thread that works for a lane."""
        return self._threads[lane]

    def reduce(
        self, x: Tensor, bucket: int, position: float, *, handed_over: float | None = None
    ) -> tuple[Tensor, Residual]:
        """Mean of the workers' flat tensors by THC, in the lane of its place in the model (0.0 front to 1.0 back), and
        what gives this worker's residual: as :meth:`sumwire.Job.reduce`, in the caller's thread.

        ``handed_over``: when the tensor was ready, for the record; else now. What of this worker was left out of
        the sum is part of the residual.
        """
        began = time.monotonic() if handed_over is None else handed_over
        lane = self.lane_of(position)
        job = self.jobs[lane]
        before = job.stats.missing
        mean, residual = job.reduce(x, bucket, tag=tagger(self.policy, position))
        self._note(lane, bucket, x.numel(), began, job.stats.missing - before)
        return mean, residual

    def behind(self, position: float) -> bool:
        """Whether others have a result in this tensor's lane to which this worker has not contributed yet."""
        return self.jobs[self.lane_of(position)].results_ahead()

    def follow(self, values: int, bucket: int, position: float) -> Tensor:
        """The result of an operation that the others do without this worker; see :meth:`sumwire.Job.follow`."""
        began = time.monotonic()
        lane = self.lane_of(position)
        before = self.jobs[lane].stats.missing
        mean = self.jobs[lane].follow(values, bucket)
        self._note(lane, bucket, values, began, self.jobs[lane].stats.missing - before)
        return mean

    def take_records(self) -> list[TensorRecord]:
        """The records since the last call, in the order of results."""
        taken = []
        while self._records:
            taken.append(self._records.popleft())
        return taken

    def _note(self, lane: int, bucket: int, values: int, began: float, missing: int) -> None:
        contributions = layout(values, self._block).chunks * self.workers
        seconds = time.monotonic() - began
        priority = self.priorities[lane]
        self._records.append(TensorRecord(bucket, lane, priority, values, began, seconds, contributions, missing))
