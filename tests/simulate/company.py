# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Who makes the calls of a rank: its main thread, a thread of its own, two at once, or the threads of lanes. One more
may look at the job meanwhile. A job without lanes has more than the main thread only where threads are preempted."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from sumwire.dlcp.lanes import Lanes
from sumwire.errors import ClosedError, SumwireError
from sumwire.job.job import Job
from sumwire.job.metrics import readings
from sumwire.training.comm_thread import CommThread, wait_for

from simulate.locks import WorldThread
from simulate.schedule import Schedule, Step
from simulate.workload import Got, carry_out
from simulate.world import World

# Calls of which a second thread makes its own at the same time: the results do not tell which of them is the first.
_TWICE: Final = ("max32", "min32", "sum32", "vote")
_LOOKS_S: Final = (0.0001, 0.3)


class Company:
    """Of one job, from its beginning to before its end."""

    def __init__(self, world: World, schedule: Schedule, job: Job) -> None:
        self._world = world
        self._threads = schedule.threads
        self._job = job
        self._over = False
        self._comm = CommThread.of(job, "calls") if "comm" in self._threads else None

    @contextlib.contextmanager
    def there(self) -> Iterator[None]:
        """While the block lasts, the job is looked at."""
        watcher = self._started("watcher", self._watch) if "watcher" in self._threads else None
        try:
            yield
        finally:
            self._over = True
        if watcher is not None:
            watcher.join()
        if self._comm is not None:
            self._comm.close()

    def begin(self, number: int, step: Step, values: NDArray[Any]) -> Callable[[], Got]:
        """Make a call, in the thread that makes them, or in two at once. Returns what waits for its result."""
        got = self._carry_out(step, values)
        return lambda: got

    def _carry_out(self, step: Step, values: NDArray[Any]) -> Got:
        if "twin" in self._threads and step.op in _TWICE:
            return self._twice(step, values)
        return self._once(step, values)

    def _once(self, step: Step, values: NDArray[Any]) -> Got:
        if self._comm is None:
            return carry_out(self._job, step, values)
        return wait_for(self._comm.submit(lambda: carry_out(self._job, step, values)))

    def _twice(self, step: Step, values: NDArray[Any]) -> Got:
        found: list[Got | SumwireError] = []

        def other() -> None:
            try:
                found.append(carry_out(self._job, step, values))
            except SumwireError as error:
                found.append(error)

        twin = self._started("twin", other)
        own = self._once(step, values)
        twin.join()
        [second] = found
        if isinstance(second, SumwireError):
            raise second
        if not np.array_equal(own.result, second.result):
            self._world.violate(f"two threads got different results of {step.op}", of_sums=True)
        return own

    def _watch(self) -> None:
        """What a thread that reports, or saves, may ask a job for at any time."""
        job, rng = self._job, self._world.rng
        looks: Sequence[Callable[[], object]] = (
            lambda: job.fallen_back,
            job.kept,
            lambda: list(readings(job.config, job.stats, job._session.window, lambda: job.fallen_back, None)),
            self._pause,
        )
        while not self._over:
            with contextlib.suppress(ClosedError):
                rng.choice(looks)()
            self._world.sleep(self._world.now + rng.uniform(*_LOOKS_S))

    def _pause(self) -> None:
        with self._job.pause():
            self._world.sleep(self._world.now + self._world.rng.uniform(*_LOOKS_S))

    def _started(self, name: str, work: Callable[[], object]) -> WorldThread:
        thread = WorldThread(self._world, work, name)
        thread.start()
        return thread


class LaneCompany:
    """Of a job in lanes: each step is in the next lane, and is made by the thread of that."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes

    @contextlib.contextmanager
    def there(self) -> Iterator[None]:
        yield

    def begin(self, number: int, step: Step, values: NDArray[Any]) -> Callable[[], Got]:
        lane = number % len(self._lanes.jobs)
        future = self._lanes.submit(lane, lambda: self._call(lane, step, values))
        return lambda: wait_for(future)

    def _call(self, lane: int, step: Step, values: NDArray[Any]) -> Got:
        lanes, job = self._lanes, self._lanes.jobs[lane]
        if step.op != "reduce":
            return carry_out(job, step, values)
        fell_back, position = job.fallen_back, (lane + 0.5) / len(lanes.jobs)
        if job.config.quorum < job.workers and lanes.behind(position):
            return Got(lanes.follow(step.values, step.bucket, position).numpy().copy(), values, followed=True)
        mean, residual = lanes.reduce(torch.from_numpy(values), step.bucket, position)
        return Got(mean.numpy().copy(), residual().numpy().copy(), fell_back=fell_back)
