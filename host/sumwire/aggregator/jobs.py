# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The job files that an aggregator serves, checked each and together.

To the aggregator each lane is a job: it has a number, slots, rounds, and a UDP port at every worker of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final

from sumwire_protocol.outside import OutsideError, json_of

from sumwire.aggregator.parts import Part, aggregators_of, part_of
from sumwire.config import JobConfig, load_job, parse_job
from sumwire.errors import ConfigError

STDIN: Final = "-"
_LINE_BYTES_MOST: Final = 1 << 16


def load_jobs(
    paths: Sequence[str | Path], at: str | None = None, *, key_file: str | None = None
) -> tuple[JobConfig, ...]:
    """The jobs of job files. "-" is one line of standard input. ``at``: which of their aggregators this one is.
    ``key_file``: read in place of the file that each job with a key names.

    Raises ConfigError for a file that breaks a rule, or for two that do not fit together, JobFileError for one that
    cannot be read.
    """
    if STDIN in paths and sys.stdin is None:
        raise ConfigError(
            "line", STDIN, "cannot be read: it is closed", where="standard input", cure="name a job file instead"
        )
    # The aggregator needs no worker's own part of it, so any worker's will do.
    jobs = tuple(
        job_of_line(sys.stdin.buffer, key_file=key_file) if path == STDIN else load_job(path, 0, key_file=key_file)
        for path in paths
    )
    for job, path in zip(jobs, paths, strict=True):
        _check_aggregators(job, at, where=str(path))
    check_together(jobs, [str(path) for path in paths], at)
    return jobs


def job_of_line(stream: BinaryIO, *, key_file: str | None = None) -> JobConfig:
    """The job of a line of JSON. Raises ConfigError."""
    line = stream.readline(_LINE_BYTES_MOST + 1)
    cure = "give a job file's content in one line, or name a job file"
    try:
        if len(line) > _LINE_BYTES_MOST:
            raise OutsideError(f"must have at most {_LINE_BYTES_MOST} bytes")
        data = json_of(line.decode())
    except (OutsideError, UnicodeDecodeError) as error:
        raise ConfigError("line", STDIN, str(error), where="standard input", cure=cure) from error
    if not isinstance(data, dict):
        raise ConfigError("line", STDIN, "must hold one JSON object", where="standard input", cure=cure)
    return parse_job(data, 0, where="standard input", key_file=key_file)


def lanes_of(jobs: Sequence[JobConfig], at: str | None = None) -> tuple[Part, ...]:
    """What an aggregator does for the lanes of all jobs, each as a job. ``at``: its address, where jobs have
    several."""
    return tuple(part_of(job.for_lane(lane), at) for job in jobs for lane in range(len(job.lanes)))


def aggregator_of(jobs: Sequence[JobConfig]) -> str:
    """The address that all workers send to, where there is one."""
    return jobs[0].aggregator


def check_together(jobs: Sequence[JobConfig], names: Sequence[str], at: str | None = None) -> None:
    """Raises ConfigError if one aggregator cannot serve all jobs. ``names``: where each is from, for the message.
    ``at``: its address, where jobs have several."""
    owners: dict[int, str] = {}
    for job, name in zip(jobs, names, strict=True):
        for lane in job.lanes:
            if lane.job in owners:
                rule = f"is the number of the job in {owners[lane.job]} already"
                cure = "give one of the two another number, in the job file of all its workers, or leave its file out"
                raise ConfigError("job", lane.job, rule, where=name, cure=cure)
        owners |= {lane.job: name for lane in job.lanes}
        if at is None and job.aggregator != aggregator_of(jobs):
            rule = f"must be {aggregator_of(jobs)} as in {names[0]}: one aggregator has one address"
            cure = f"write that under `aggregator`, or start another one for it: sumwire-aggregator {name}"
            raise ConfigError("aggregator", job.aggregator, rule, where=name, cure=cure)


def _check_aggregators(job: JobConfig, at: str | None, *, where: str) -> None:
    """That the job says how its aggregators hang together, and which this one is."""
    names = aggregators_of(job)
    if len(names) > 1 and not job.tree:
        rule = "must be one, or lower ones of a `tree`"
        cure = (
            "write one address under `aggregator` of all workers, or a `tree` of these and a root into the job file, "
            "or use switches: sumwire-controller apply"
        )
        raise ConfigError("aggregator", names, rule, where=where, cure=cure)
    if job.tree and job.paths > 1:
        rule = "must be 1: a software aggregator sends all partial results to one above it"
        raise ConfigError("paths", job.paths, rule, where=where, cure="leave `paths` out, or use switches")
    if at is None and len(names) > 1:
        rule = f"must be one of {', '.join(names)}"
        raise ConfigError("--at", at, rule, where=where, cure="say which aggregator of the tree this is: --at ADDRESS")
    if at is not None and at not in names:
        rule = f"must be one of {', '.join(names)}"
        cure = f"name one of them, or write {at} into the job file of all workers and aggregators"
        raise ConfigError("--at", at, rule, where=where, cure=cure)
