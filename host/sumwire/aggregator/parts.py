# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What one aggregator does for a job: who has its seats, and which aggregator is above it.

A job of one aggregator has one part, whose seats are the workers'. In a tree an aggregator is a worker of the next one:
it has a seat there, and stands for all workers below it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sumwire_protocol import constants as p4

from sumwire.config import JobConfig
from sumwire.config.tree import workers_below
from sumwire.errors import ConfigError


@dataclass(frozen=True)
class Seat:
    """Who sends from a seat. ``weight``: how many workers it stands for. ``is_lower``: an aggregator, not a worker."""

    ip: str
    udp_port: int
    weight: int = 1
    is_lower: bool = False


@dataclass(frozen=True)
class Above:
    """The next aggregator, and this one's seat there."""

    ip: str
    seat: int
    udp_port: int = p4.SUMWIRE_PORT


@dataclass(frozen=True)
class Part:
    """``aggregator``: the address of the one that does this part. ``seats``: who has each. ``above``: None at the root,
    and where the job has a single one."""

    job: JobConfig
    aggregator: str
    seats: Mapping[int, Seat] = field(default_factory=dict)
    above: Above | None = None

    @property
    def in_tree(self) -> bool:
        """Whether the job has other aggregators."""
        return self.above is not None or any(seat.is_lower for seat in self.seats.values())

    @property
    def quorum(self) -> int:
        """How many seats complete a slot: in a tree all of them, else as many as the job says."""
        return len(self.seats) if self.in_tree else self.job.quorum

    def worker(self, seat: int) -> int | None:
        """The number in the whole job of the worker in a seat; None for a lower aggregator, or an empty seat."""
        places = [(address.aggregator, address.seat) for address in self.job.addresses]
        return places.index((self.aggregator, seat)) if (self.aggregator, seat) in places else None

    @property
    def workers(self) -> int:
        """Workers that it stands for."""
        return sum(seat.weight for seat in self.seats.values())


def part_of(job: JobConfig, aggregator: str | None = None) -> Part:
    """A job's part at one of its aggregators. ``aggregator``: its address; a job that has a single one needs none.

    Raises ConfigError if the job has several and none is named, or none of that address.
    """
    names = aggregators_of(job)
    at = job.aggregator if aggregator is None else aggregator
    if at not in names or (aggregator is None and len(names) > 1):
        raise _unnamed(job, names, aggregator)
    return _part(job, at)


def aggregators_of(job: JobConfig) -> list[str]:
    """The addresses of all aggregators of a job: those of its workers, in their order, and those above."""
    workers = (address.aggregator for address in job.addresses)
    return list(dict.fromkeys((*workers, *(name for one in job.tree for name in (one.aggregator, one.above)))))


def _part(job: JobConfig, at: str) -> Part:
    seats = {one.seat: Seat(one.ip, one.udp_port) for one in job.addresses if one.aggregator == at}
    workers = workers_below(job.tree, job.addresses)
    above = None
    for one in job.tree:
        if one.above == at:
            seats[one.seat] = Seat(one.aggregator, p4.SUMWIRE_PORT, workers[one.aggregator], is_lower=True)
        if one.aggregator == at:
            above = Above(one.above, one.seat)
    return Part(job, at, seats, above)


def _unnamed(job: JobConfig, names: Sequence[str], aggregator: str | None) -> ConfigError:
    where, listed = f"job {job.name}", ", ".join(names)
    if aggregator is None:
        rule = f"must name one of the job's aggregators: {listed}"
        return ConfigError("at", None, rule, where=where, cure="name this server's: sumwire-aggregator --at ADDRESS")
    cure = "name one of them: sumwire-aggregator --at ADDRESS, or write this one into `addresses` or `tree` of all"
    return ConfigError("at", aggregator, f"is no aggregator of the job, which has {listed}", where=where, cure=cure)
