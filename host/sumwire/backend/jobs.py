# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A group's options, where it finds its job, and which worker of the job each rank is. Used by `group`.

:func:`job_for` asks in this order: the options, what `use` was told, SUMWIRE_JOB, and the finders that other parts of
the library registered, such as a service that hands out job descriptions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sumwire.config import JobConfig, load_job
from sumwire.errors import UsageError
from sumwire.job.job import Job
from sumwire.training.all_reduce import DEFAULT, EXACT, PRECISIONS, Precision

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store
else:
    from torch.distributed import Store

JOB_VARIABLE: Final = "SUMWIRE_JOB"
PRECISION_VARIABLE: Final = "SUMWIRE_PRECISION"
# A block of THC's rotation. Shorter tensors would be filled up to it, and are often no gradients: norms, losses.
EXACT_BELOW: Final = 4096
# From a rank, the number of ranks and their store to the description of the rank's worker; None where it has none.
Finder = Callable[[int, int, Store], JobConfig | None]
Source = JobConfig | Job | Path | str
_finders: Final[list[Finder]] = []
_used: Final[list[Source]] = []
_of_calls: Final[ContextVar[Precision | None]] = ContextVar("precision of calls", default=None)


@dataclass(frozen=True)
class Options:
    """Options of the backend: ``init_process_group("sumwire", pg_options=sumwire.backend.Options(...))``.

    ``job``: a job file or a loaded one; None for the file that SUMWIRE_JOB names. ``precision``: for all float tensors;
    None compresses gradients only. ``exact_below``: float tensors of fewer values are summed exactly. ``gradients``:
    the precision of what DDP and FSDP reduce; None takes ``precision``, then SUMWIRE_PRECISION, then "4bit".

    Raises UsageError for a value that breaks a rule.
    """

    job: JobConfig | Job | Path | str | None = None
    precision: Precision | None = None
    exact_below: int = EXACT_BELOW
    gradients: Precision | None = None

    def __post_init__(self) -> None:
        if self.exact_below < 1:
            raise UsageError(f"exact_below = {self.exact_below}: must be 1 or more values")
        self.chosen(gradient=False)
        self.chosen(gradient=True)

    def chosen(self, *, gradient: bool) -> Precision:
        """Return the precision of a call's float tensors. ``gradient``: whether the call is known to reduce
        gradients."""
        of_call = _of_calls.get()
        if of_call is not None:
            return of_call
        if not gradient:
            return _checked("precision", self.precision or EXACT)
        if self.gradients:
            return _checked("gradients", self.gradients)
        # A variable of the environment cannot know of a program's other tensors.
        return self.precision or _checked(PRECISION_VARIABLE, os.environ.get(PRECISION_VARIABLE) or DEFAULT)


@contextmanager
def calls_at(precision: Precision) -> Iterator[None]:
    """Context manager: calls that this thread makes inside it on groups of the backend use this precision for float
    tensors.

    It overrides the group's options, and must be the same on all ranks. Raises UsageError for an unknown precision.
    """
    token = _of_calls.set(_checked("precision", precision))
    try:
        yield
    finally:
        _of_calls.reset(token)


def _checked(name: str, asked: str) -> Precision:
    for precision in PRECISIONS:
        if asked == precision:
            return precision
    raise UsageError(f"{name} = {asked!r}: must be one of {', '.join(map(repr, PRECISIONS))}")


def use(job: Source | None) -> None:
    """Let the backend's groups use this job from their next collective on: a job file, a loaded one, or an open Job of
    the default group, which the caller still has to close. None undoes the previous call.

    Raises UsageError for anything else, such as a :class:`sumwire.training.hierarchical.NodeJob`.
    """
    _check(job)
    _used.clear()
    if job is not None:
        _used.append(job)


def find_by(finder: Finder) -> None:
    """Register ``finder(rank, size, store)``, which is asked for a job where neither options nor SUMWIRE_JOB name
    one."""
    _finders.append(finder)


def source_of(options: Options) -> Source | None:
    """Return the job that the user named, if any."""
    said = options.job if options.job is not None else next(iter(_used), None)
    return said if said is not None else os.environ.get(JOB_VARIABLE) or None


def job_for(rank: int, size: int, store: Store, options: Options | None = None) -> JobConfig | Job:
    """Return the job for worker ``rank`` of a group of ``size`` ranks, which have met in ``store``.

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
        # A rank beyond the job's workers may be a worker of one of its lanes.
        return replace(config, worker=rank) if rank < config.workers else config
    _check(source)
    return source


@dataclass(frozen=True)
class LaneWorker:
    """A rank's worker number and lane in a job."""

    worker: int
    lane: int


def map_rank(config: JobConfig, ranks: Sequence[int], rank: int, world: int) -> LaneWorker | None:
    """Map the ``rank``-th of a group's ``ranks`` (global, of ``world``) to a worker of the job. Returns None if the
    group has no part in the job.

    A group of all ranks is the job itself. Where each of the job's workers is a node of several ranks, numbered node by
    node as torchrun does, the ranks with the same number on their nodes are the workers of a lane.

    Example: a job of 2 workers and 2 lanes, and 4 ranks. Group [0, 2] is lane 0 and [1, 3] lane 1; [0, 1] has no part.
    """
    if len(ranks) == world:
        allowed = config.workers_min <= world <= config.job_workers and list(ranks) == list(range(world))
        return LaneWorker(rank, 0) if allowed else None
    if len(ranks) != config.workers or world % config.workers:
        return None
    on_a_node = world // config.workers
    lane = ranks[0]
    in_step = list(ranks) == list(range(lane, world, on_a_node))
    return LaneWorker(rank, lane) if in_step and lane < len(config.lanes) else None
