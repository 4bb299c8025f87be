# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Job files as the aggregator sees them: all workers of a job, and all jobs together.

A job's lanes are jobs to it: each has a number, slots, rounds, and its own UDP port at every worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sumwire.config import JobConfig, load_job
from sumwire.errors import ConfigError


def load_jobs(paths: Sequence[str | Path]) -> tuple[JobConfig, ...]:
    """The jobs of the files that their workers use.

    Raises ConfigError for what is wrong in a file, or between two; OSError for a file that cannot be read.
    """
    # Any worker's view will do: it differs from the others' in the worker's number alone.
    jobs = tuple(load_job(path, 0) for path in paths)
    for job, path in zip(jobs, paths, strict=True):
        _check_one_level(job, where=str(path))
    check_together(jobs, [str(path) for path in paths])
    return jobs


def lanes_of(jobs: Sequence[JobConfig]) -> tuple[JobConfig, ...]:
    """Each lane of each job as a job of its own."""
    return tuple(job.for_lane(lane) for job in jobs for lane in range(len(job.lanes)))


def jobs_of_lanes(jobs: Sequence[JobConfig]) -> list[int]:
    """Of each of these lanes the place of its job."""
    return [number for number, job in enumerate(jobs) for _ in job.lanes]


def aggregator_of(jobs: Sequence[JobConfig]) -> str:
    """The address that all workers send to."""
    return jobs[0].aggregator


def check_together(jobs: Sequence[JobConfig], names: Sequence[str]) -> None:
    """Raises ConfigError if the jobs cannot be served by one aggregator; `names` say where each is from."""
    owners: dict[int, str] = {}
    for job, name in zip(jobs, names, strict=True):
        for lane in job.lanes:
            if lane.job in owners:
                raise ConfigError(
                    "job", lane.job, f"is the number of the job in {owners[lane.job]} already", where=name
                )
        owners |= {lane.job: name for lane in job.lanes}
        if job.aggregator != aggregator_of(jobs):
            rule = f"must be {aggregator_of(jobs)} as in {names[0]}: one aggregator has one address"
            raise ConfigError("aggregator", job.aggregator, rule, where=name)


def _check_one_level(job: JobConfig, *, where: str) -> None:
    aggregators = sorted({address.aggregator for address in job.addresses})
    if len(aggregators) > 1:
        rule = "must be one: the software aggregator is a single level, a tree needs switches"
        raise ConfigError("aggregator", aggregators, rule, where=where)
