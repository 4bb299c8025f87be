# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The job, worker and switch of this process, for log lines that do not name them."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from weakref import WeakSet


@dataclass(frozen=True, eq=False)
class JobPlace:
    """A job that is open in this process, by its number, and this process's worker in it."""

    job: int
    worker: int


_lock = threading.Lock()
_jobs: WeakSet[JobPlace] = WeakSet()
_switch: list[str] = []


def opened(job: int, worker: int) -> JobPlace:
    """Register an open job. It stays registered until :func:`closed`, or until the returned object is deleted."""
    place = JobPlace(job, worker)
    with _lock:
        _jobs.add(place)
    return place


def closed(place: JobPlace) -> None:
    """Record that the job at this place is closed; closing twice is allowed."""
    with _lock:
        _jobs.discard(place)


def is_switch(name: str) -> None:
    """Record that this process is a switch or an aggregator of this name."""
    _switch[:] = [name]


def here() -> tuple[int | None, int | None, str | None]:
    """Return this process's job, worker and switch. If several jobs are open, job and worker are None."""
    with _lock:
        found = list(_jobs)
    job = found[0] if len(found) == 1 else None
    switch = _switch[0] if _switch else None
    return (None, None, switch) if job is None else (job.job, job.worker, switch)
