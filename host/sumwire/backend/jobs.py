# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Where a process group of the backend finds its job.

:func:`job_for` asks in this order: the options, what `use` was told, SUMWIRE_JOB, and the finders of other parts of the
library, such as a service that tells a job's description.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store
else:
    from torch.distributed import Store

from sumwire.backend.options import JOB_VARIABLE, Options
from sumwire.config import JobConfig, load_job
from sumwire.errors import UsageError
from sumwire.job.job import Job

# From a rank, the number of ranks and their store to the description of the rank's worker; None where it has none.
Finder = Callable[[int, int, Store], JobConfig | None]
Source = JobConfig | Job | Path | str
_finders: Final[list[Finder]] = []
_used: Final[list[Source]] = []


def use(job: Source | None) -> None:
    """Let the backend's groups use this job from their next collective on: a job file, what was read from one, or an
    open Job of the default group, which stays the caller's to close. None takes back what was said before.

    Raises UsageError for anything else, such as a :class:`sumwire.training.node.NodeJob`.
    """
    _check(job)
    _used.clear()
    if job is not None:
        _used.append(job)


def find_by(finder: Finder) -> None:
    """Ask ``finder(rank, size, store)`` for jobs that neither options nor SUMWIRE_JOB name."""
    _finders.append(finder)


def source_of(options: Options) -> Source | None:
    """What the user has said about the job, if anything."""
    said = options.job if options.job is not None else next(iter(_used), None)
    return said if said is not None else os.environ.get(JOB_VARIABLE) or None


def job_for(rank: int, size: int, store: Store, options: Options | None = None) -> JobConfig | Job:
    """The job of a group of ``size`` ranks that have met in ``store``, as its worker ``rank`` sees it.

    Raises UsageError if there is none, ConfigError for a job file that breaks a rule.
    """
    found = _described(source_of(options or Options()), rank)
    for finder in _finders:
        if found is None:
            found = finder(rank, size, store)
    if found is None:
        raise UsageError(
            "backend sumwire: has no job: give one by "
            'init_process_group("sumwire", pg_options=sumwire.backend.Options(job="job.json")), '
            f"sumwire.backend.use(job), or the environment variable {JOB_VARIABLE}=job.json; or start "
            "`sumwire up --hosts A,B` where MASTER_ADDR is, or anywhere, with SUMWIRE_SERVICE=HOST in the environment; "
            'precision="exact" needs none'
        )
    return found


def _check(source: object) -> None:
    if source is not None and not isinstance(source, JobConfig | Job | Path | str):
        raise UsageError(
            f"backend sumwire: job = {type(source).__name__}: must be a job file, sumwire.load_job(file) or a "
            "sumwire.Job; give the file where a worker has several ranks"
        )


def _described(source: Source | None, rank: int) -> JobConfig | Job | None:
    if isinstance(source, str | Path):
        config = load_job(source, worker=0)
        # A rank beyond the job's workers may have a seat in one of its lanes.
        return replace(config, worker=rank) if rank < config.workers else config
    _check(source)
    return source
