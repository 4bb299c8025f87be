# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The configuration of a job for one worker (number, slots, ops, addresses, lanes), and the rules for a tree of
software aggregators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from sumwire_protocol import constants as p4
from sumwire_protocol.digest import job_digest
from sumwire_protocol.ops import BY_NAME, CODES, COUNT_MAX, OPS

from sumwire.errors import ConfigError

OP_CODES: Final[Mapping[str, int]] = CODES
OP_NAMES: Final[Mapping[int, str]] = {op.code: op.name for op in OPS}
# Most workers of a job that uses the op, in the whole tree.
OP_WORKERS_MAX: Final[Mapping[str, int]] = {op.name: op.workers_max for op in OPS if op.workers_max < COUNT_MAX}
# With fewer slots, no chunk could be in flight while the one before it is still kept for repeats.
SLOTS_MIN: Final = 2
WORKERS_MAX: Final = COUNT_MAX
# A packet's priority has three bits.
LANES_MAX: Final = 8
# How many paths between a leaf and the root a job's packets may use.
PATHS: Final = (1, 2, 4)
# Most workers below a lower aggregator, by op: a partial result has room for so many.
_BELOW_MAX: Final[Mapping[str, int]] = {op.name: op.workers_below_max for op in OPS}


@dataclass(frozen=True)
class Address:
    """A worker's own address, the address of its switch (``aggregator``), and its number there (``seat``)."""

    ip: str
    udp_port: int
    aggregator: str
    seat: int


@dataclass(frozen=True)
class Branch:
    """A lower aggregator, the address of its parent, and its seat there."""

    aggregator: str
    above: str
    seat: int


@dataclass(frozen=True)
class ThcParameters:
    """THC's lookup table: ``bits`` per index, the clipped share ``p``, and 2**bits integers that rise strictly from 0.

    Only the last may be repeated.
    """

    bits: int
    p: float
    table: tuple[int, ...]

    @property
    def granularity(self) -> int:
        """The largest value of the table."""
        return self.table[-1]


@dataclass(frozen=True)
class Lane:
    """One priority lane of a job: the job number in its packets, and its slots. Lane 0 is the most urgent."""

    job: int
    slots: int


@dataclass(frozen=True)
class JobConfig:
    """One job as one worker sees it. ``job`` is the number in the packets; ``name`` is for humans.

    ``worker`` is this worker's number in the whole job. Packets carry the ``seat``, its number at its own switch.
    ``lanes``: the job's priority lanes. ``job`` and ``slots`` are those of lane 0; see :meth:`for_lane` for the others.
    ``paths``: paths between leaf and root that packets may use. With more than one, results can arrive out of order.
    ``workers_min``: the fewest workers that a run may have; by default all of them. ``job_workers``, ``job_quorum``:
    those of the whole job, where ``workers`` and ``quorum`` are those of a smaller run (:meth:`for_run`). ``blind``:
    contributions are masked (:mod:`sumwire.blind`). ``key``: 32 bytes, with which packets get authentication tags
    (:mod:`sumwire.wire.authentication`); None for none. ``tree``: the lower ones of several software aggregators; empty
    for one aggregator, and for switches, whose tree the controller knows.

    Example: with two lanes, jobs 7 and 8, lane 1 sends as job 8 and from the UDP port after lane 0's.
    """

    name: str
    job: int
    worker: int
    workers: int
    quorum: int
    slots: int
    ops: tuple[str, ...]
    addresses: tuple[Address, ...]
    thc: ThcParameters | None
    lanes: tuple[Lane, ...] = ()
    paths: int = 1
    workers_min: int = 0
    job_workers: int = 0
    job_quorum: int = 0
    blind: bool = False
    key: bytes | None = field(default=None, repr=False)
    tree: tuple[Branch, ...] = ()

    def __post_init__(self) -> None:
        if not self.lanes:
            object.__setattr__(self, "lanes", (Lane(self.job, self.slots),))
        if not self.workers_min:
            object.__setattr__(self, "workers_min", self.workers)
        if not self.job_workers:
            object.__setattr__(self, "job_workers", self.workers)
            object.__setattr__(self, "job_quorum", self.quorum)

    @cached_property
    def longest_bytes(self) -> int:
        """The bytes of the longest payload that a packet of the job's ops has, without an authentication tag."""
        ops = [BY_NAME[name] for name in self.ops]
        return p4.WORD_BYTES * max(p4.SLOT_WORDS, *(op.down.words for op in ops))

    def for_lane(self, lane: int) -> JobConfig:
        """Return one lane as a job with a number, slots and UDP ports of its own. Raises ConfigError if there is
        none."""
        if not 0 <= lane < len(self.lanes):
            rule = f"must be in 0..{len(self.lanes) - 1}"
            raise ConfigError("lane", lane, rule, where=f"job {self.name}", cure="add to `lanes` in its job file")
        if len(self.lanes) == 1:
            return self
        own = self.lanes[lane]
        return replace(
            self,
            name=f"{self.name}/{lane}",
            job=own.job,
            slots=own.slots,
            addresses=tuple(replace(address, udp_port=address.udp_port + lane) for address in self.addresses),
            lanes=(own,),
        )

    def for_run(self, workers: int) -> JobConfig:
        """Return the job as a run of its first ``workers`` workers sees it.

        Raises ConfigError if the job has no such run, or this worker is not in it.
        """
        where = f"job {self.name}"
        if not self.workers_min <= workers <= self.job_workers:
            rule = f"must be in {self.workers_min}..{self.job_workers}: workers_min and workers of the job"
            cure = (
                f"start so many, or set `workers_min` of the job in the configuration, then `sumwire-controller apply "
                f"CONFIG`, and write the job file again: `sumwire-controller job-file CONFIG --job {self.name}`"
            )
            raise ConfigError("workers", workers, rule, where=where, cure=cure)
        if self.worker >= workers:
            rule = f"must be in 0..{workers - 1} in a run of {workers}"
            raise ConfigError("worker", self.worker, rule, where=where, cure="start workers 0, 1 ... without a gap")
        return self.among(range(workers))

    def among(self, members: Sequence[int]) -> JobConfig:
        """Return the job as a run of these workers of it sees it, numbered in the order of ``members``, of which this
        worker is one. Each keeps its address and its seat. :meth:`for_run` has the rules for their number.

        Example: without worker 1 of four, workers 0, 2 and 3 make a run of three, as workers 0, 1 and 2.
        """
        return replace(
            self,
            worker=members.index(self.worker),
            workers=len(members),
            quorum=min(self.job_quorum, len(members)),
            addresses=tuple(self.addresses[member] for member in members),
        )

    @property
    def quorum_least(self) -> int:
        """Return the smallest quorum of a run that a contribution may name; 0 if every run has all workers."""
        return self.workers_min if self.workers_min < self.job_workers else 0

    @cached_property
    def run_quorum(self) -> int:
        """Return the quorum that contributions name for their run; 0 stands for the job's."""
        return self.quorum if self.quorum < self.job_quorum else 0

    @property
    def digest(self) -> int:
        """Return the digest of the job that the switch must have, see :func:`sumwire_protocol.digest.job_digest`."""
        table = None if self.thc is None else self.thc.table
        return job_digest(self.job, self.ops, self.job_workers, self.job_quorum, self.slots, table, self.quorum_least)

    @cached_property
    def tag_bytes(self) -> int:
        """Bytes of the authentication tag behind every packet."""
        return 0 if self.key is None else p4.TAG_BYTES

    @cached_property
    def own_address(self) -> Address:
        """This worker's entry in ``addresses``."""
        return self.addresses[self.worker]

    @cached_property
    def aggregator(self) -> str:
        """Address of this worker's own switch."""
        return self.own_address.aggregator

    @cached_property
    def seat(self) -> int:
        """This worker's number at its own switch. It is in the worker's packets, and is its bit in ``contributors``."""
        return self.own_address.seat

    @cached_property
    def seats(self) -> dict[int, int]:
        """Seat -> worker number, for the workers at this worker's switch."""
        return {a.seat: number for number, a in enumerate(self.addresses) if a.aggregator == self.aggregator}

    @cached_property
    def all_seats(self) -> int:
        """The bitmap of all workers at this worker's switch."""
        return sum(1 << seat for seat in self.seats)


class TreeError(ValueError):
    """A tree of aggregators breaks a rule. ``value`` is what breaks it."""

    def __init__(self, value: object, rule: str) -> None:
        super().__init__(rule)
        self.value, self.rule = value, rule


def workers_below(tree: Sequence[Branch], addresses: Sequence[Address]) -> Counter[str]:
    """Return how many workers each aggregator stands for: its own, and those of the aggregators below it."""
    above = {one.aggregator: one.above for one in tree}
    found: Counter[str] = Counter()
    for address in addresses:
        at: str | None = address.aggregator
        while at is not None:
            found[at] += 1
            at = above.get(at)
    return found


def check_tree(tree: Sequence[Branch], addresses: Sequence[Address], ops: Sequence[str]) -> None:
    """Raise TreeError unless the aggregators form a tree with one root in which every worker has a place."""
    above = {one.aggregator: one.above for one in tree}
    if len(above) != len(tree):
        raise TreeError([one.aggregator for one in tree], "must name each lower aggregator once, with the one above it")
    roots = {_root(aggregator, above) for aggregator in (*above, *(address.aggregator for address in addresses))}
    if len(roots) > 1:
        raise TreeError(sorted(roots), "must lead every aggregator of `addresses` up to one and the same root")
    seats = [(one.above, one.seat) for one in tree] + [(one.aggregator, one.seat) for one in addresses]
    twice = next((seat for seat in seats if seats.count(seat) > 1), None)
    if twice is not None:
        raise TreeError(twice, "must give each worker and lower aggregator a seat of its own at the one above it")
    workers = workers_below(tree, addresses)
    for aggregator in above:
        _check_below(aggregator, workers[aggregator], ops)


def _root(aggregator: str, above: Mapping[str, str]) -> str:
    way = [aggregator]
    while way[-1] in above:
        way.append(above[way[-1]])
        if len(way) > len(above) + 1:
            raise TreeError(aggregator, "must lead up to a root, not back to an aggregator on the way")
    return way[-1]


def _check_below(aggregator: str, workers: int, ops: Sequence[str]) -> None:
    if not workers:
        raise TreeError(aggregator, "must have workers below each lower aggregator")
    for op in ops:
        if workers > _BELOW_MAX[op]:
            rule = f"{op} is for at most {_BELOW_MAX[op]} workers below a lower aggregator, this one has {workers}"
            raise TreeError(aggregator, rule)
