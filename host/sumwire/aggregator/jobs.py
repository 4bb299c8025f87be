# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The jobs that an aggregator serves: reads and checks job files, and works out this aggregator's part of each job.

A job of one aggregator has one part, whose seats are the workers'. In a tree an aggregator is a worker of the next one:
it has a seat there, and stands for all workers below it. Each lane of a job is a job to the aggregator: it has its own
number, slots, rounds, and UDP port at every worker. Used by `cli`, `processes` and `state`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from commonlib.untrusted import UntrustedInputError, json_of
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import JUMBO

from sumwire.config import JobConfig, load_job, parse_job
from sumwire.config.job_config import workers_below
from sumwire.errors import ConfigError

STDIN: Final = "-"
_LINE_BYTES_MOST: Final = 1 << 16


@dataclass(frozen=True)
class Seat:
    """The sender at a seat: a worker, or a lower aggregator (``is_lower``). ``weight``: how many workers it stands
    for."""

    ip: str
    udp_port: int
    weight: int = 1
    is_lower: bool = False


@dataclass(frozen=True)
class Above:
    """The aggregator above this one, and this one's seat there."""

    ip: str
    seat: int
    udp_port: int = p4.SUMWIRE_PORT


@dataclass(frozen=True)
class Part:
    """What one aggregator does for a job. ``aggregator``: its address. ``seats``: the sender at each. ``above``: the
    next aggregator; None at the root, and in a job of a single aggregator."""

    job: JobConfig
    aggregator: str
    seats: Mapping[int, Seat] = field(default_factory=dict)
    above: Above | None = None

    @property
    def in_tree(self) -> bool:
        """Whether the job has more than one aggregator."""
        return self.above is not None or any(seat.is_lower for seat in self.seats.values())

    @property
    def quorum(self) -> int:
        """How many seats complete a slot: all of them in a tree, otherwise the quorum of the job."""
        return len(self.seats) if self.in_tree else self.job.quorum

    def worker(self, seat: int) -> int | None:
        """Return the rank, in the whole job, of the worker at a seat; None if the seat is empty or has a lower
        aggregator."""
        places = [(address.aggregator, address.seat) for address in self.job.addresses]
        return places.index((self.aggregator, seat)) if (self.aggregator, seat) in places else None

    @property
    def workers(self) -> int:
        """The number of workers below this aggregator."""
        return sum(seat.weight for seat in self.seats.values())


def part_of(job: JobConfig, aggregator: str | None = None) -> Part:
    """Return a job's part at one of its aggregators. ``aggregator``: its address, which a job with one aggregator does
    not need.

    Raises ConfigError if the job has several aggregators and ``aggregator`` is not the address of one of them.
    """
    _check_named(job, aggregator, where=f"job {job.name}")
    at = job.aggregator if aggregator is None else aggregator
    seats = {one.seat: Seat(one.ip, one.udp_port) for one in job.addresses if one.aggregator == at}
    workers = workers_below(job.tree, job.addresses)
    above = None
    for one in job.tree:
        if one.above == at:
            seats[one.seat] = Seat(one.aggregator, p4.SUMWIRE_PORT, workers[one.aggregator], is_lower=True)
        if one.aggregator == at:
            above = Above(one.above, one.seat)
    return Part(job, at, seats, above)


def aggregators_of(job: JobConfig) -> list[str]:
    """Return the addresses of all aggregators of a job: first those that workers send to, in rank order, then their
    parents."""
    workers = (address.aggregator for address in job.addresses)
    return list(dict.fromkeys((*workers, *(name for one in job.tree for name in (one.aggregator, one.above)))))


def load_jobs(
    paths: Sequence[str | Path], at: str | None = None, *, key_file: str | None = None
) -> tuple[JobConfig, ...]:
    """Read job files. The path "-" stands for one line of standard input.

    ``at``: the address of this aggregator, needed where a job has several. ``key_file``: read instead of the key file
    that the jobs name. Raises ConfigError if a file breaks a rule or two files contradict each other, and JobFileError
    if a file cannot be read.
    """
    if STDIN in paths and sys.stdin is None:
        raise ConfigError(
            "line", STDIN, "cannot be read: it is closed", where="standard input", cure="name a job file instead"
        )
    # The aggregator uses no field that differs between workers, so it reads the file as worker 0.
    jobs = tuple(
        job_of_line(sys.stdin.buffer, key_file=key_file) if path == STDIN else load_job(path, 0, key_file=key_file)
        for path in paths
    )
    for job, path in zip(jobs, paths, strict=True):
        _check_aggregators(job, at, where=str(path))
    check_together(jobs, [str(path) for path in paths], at)
    return jobs


def job_of_line(stream: BinaryIO, *, key_file: str | None = None) -> JobConfig:
    """Parse a job from one line of JSON. Raises ConfigError."""
    line = stream.readline(_LINE_BYTES_MOST + 1)
    cure = "give a job file's content in one line, or name a job file"
    try:
        if len(line) > _LINE_BYTES_MOST:
            raise UntrustedInputError(f"must have at most {_LINE_BYTES_MOST} bytes")
        data = json_of(line.decode())
    except (UntrustedInputError, UnicodeDecodeError) as error:
        raise ConfigError("line", STDIN, str(error), where="standard input", cure=cure) from error
    if not isinstance(data, dict):
        raise ConfigError("line", STDIN, "must hold one JSON object", where="standard input", cure=cure)
    return parse_job(data, 0, where="standard input", key_file=key_file)


def lanes_of(jobs: Sequence[JobConfig], at: str | None = None) -> tuple[Part, ...]:
    """Return this aggregator's parts, one for each lane of each job. ``at``: its address, needed where a job has
    several aggregators."""
    return tuple(part_of(job.for_lane(lane), at) for job in jobs for lane in range(len(job.lanes)))


def check_together(jobs: Sequence[JobConfig], names: Sequence[str], at: str | None = None) -> None:
    """Raise ConfigError if one aggregator cannot serve all jobs, because two share a number, they name different
    aggregators, or one has packets of 8192 values.

    ``names``: the file of each job, for the message. ``at``: this aggregator's address, where jobs have several.
    """
    owners: dict[int, str] = {}
    for job, name in zip(jobs, names, strict=True):
        if JUMBO.name in job.ops:
            rule = f"must not have {JUMBO.name}, which only P4 switches sum"
            raise ConfigError("ops", job.ops, rule, where=name, cure="leave it out, in the job file of all its workers")
        for lane in job.lanes:
            if lane.job in owners:
                rule = f"is the number of the job in {owners[lane.job]} already"
                cure = "give one of the two another number, in the job file of all its workers, or leave its file out"
                raise ConfigError("job", lane.job, rule, where=name, cure=cure)
        owners |= {lane.job: name for lane in job.lanes}
        if at is None and job.aggregator != jobs[0].aggregator:
            rule = f"must be {jobs[0].aggregator} as in {names[0]}: one aggregator has one address"
            cure = f"write that under `aggregator`, or start another one for it: sumwire-aggregator {name}"
            raise ConfigError("aggregator", job.aggregator, rule, where=name, cure=cure)


def _check_aggregators(job: JobConfig, at: str | None, *, where: str) -> None:
    """Raise ConfigError unless the job's aggregators form a tree of single parents, and ``at`` names one of them."""
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
    _check_named(job, at, where=where)


def _check_named(job: JobConfig, at: str | None, *, where: str) -> None:
    """Raise ConfigError unless ``at`` is an aggregator of the job, or None in a job with a single one."""
    names = aggregators_of(job)
    rule = f"must be one of {', '.join(names)}"
    if at is None and len(names) > 1:
        cure = "say which aggregator of the tree this is: --at ADDRESS"
    elif at is not None and at not in names:
        cure = f"name one of them, or write {at} into the job file of all workers and aggregators"
    else:
        return
    raise ConfigError("--at", at, rule, where=where, cure=cure)
