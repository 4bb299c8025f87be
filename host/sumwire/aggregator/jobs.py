# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The job files that an aggregator serves, checked each and together.

To the aggregator each lane is a job: it has a number, slots, rounds, and a UDP port at every worker of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sumwire.config import JobConfig, load_job
from sumwire.errors import ConfigError


def load_jobs(paths: Sequence[str | Path]) -> tuple[JobConfig, ...]:
    """The jobs of job files.

    Raises ConfigError for a file that breaks a rule, or for two that do not fit together, JobFileError for one that
    cannot be read.
    """
    # The aggregator needs no worker's own part of it, so any worker's will do.
    jobs = tuple(load_job(path, 0) for path in paths)
    for job, path in zip(jobs, paths, strict=True):
        _check_one_level(job, where=str(path))
    check_together(jobs, [str(path) for path in paths])
    return jobs


def lanes_of(jobs: Sequence[JobConfig]) -> tuple[JobConfig, ...]:
    """The lanes of all jobs, each as a job."""
    return tuple(job.for_lane(lane) for job in jobs for lane in range(len(job.lanes)))


def aggregator_of(jobs: Sequence[JobConfig]) -> str:
    """The address that all workers send to."""
    return jobs[0].aggregator


def check_together(jobs: Sequence[JobConfig], names: Sequence[str]) -> None:
    """Raises ConfigError if one aggregator cannot serve all jobs. ``names``: where each is from, for the message."""
    owners: dict[int, str] = {}
    for job, name in zip(jobs, names, strict=True):
        for lane in job.lanes:
            if lane.job in owners:
                rule = f"is the number of the job in {owners[lane.job]} already"
                cure = "give one of the two another number, in the job file of all its workers, or leave its file out"
                raise ConfigError("job", lane.job, rule, where=name, cure=cure)
        owners |= {lane.job: name for lane in job.lanes}
        if job.aggregator != aggregator_of(jobs):
            rule = f"must be {aggregator_of(jobs)} as in {names[0]}: one aggregator has one address"
            cure = f"write that under `aggregator`, or start another one for it: sumwire-aggregator {name}"
            raise ConfigError("aggregator", job.aggregator, rule, where=name, cure=cure)


def _check_one_level(job: JobConfig, *, where: str) -> None:
    aggregators = sorted({address.aggregator for address in job.addresses})
    if len(aggregators) > 1:
        rule = "must be one: the software aggregator is a single level, a tree needs switches"
        cure = "write one address under `aggregator` of all workers, or use switches: sumwire-controller apply"
        raise ConfigError("aggregator", aggregators, rule, where=where, cure=cure)
