# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Config -> the entries a switch should hold. Pure: no switch, no clock.

Generations. A job's slots are never cleared; state left in them is harmless because its owner, the job's generation,
is another number. So a generation is never given twice on a switch. One row of the replica table, of a job that no
configuration may have, so that no packet ever looks it up, remembers the highest one given: the ledger.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from itertools import cycle
from typing import Final

from sumwire_protocol.constants import WORD_BITS

from sumwire_controller.derive.anf import coefficients
from sumwire_controller.derive.program import (
    AGGREGATOR,
    DEGRADE,
    FORWARD,
    JOB,
    REPLICA,
    TABLES,
    THC_HIGH,
    THC_LOW,
    UPLINK,
    VIRTUAL_QUEUE,
    WORD_PLANES_LOW,
    WORKER,
    TableShape,
)
from sumwire_controller.model.config import OP_CODES, Config, Job, Worker, mac_number, mac_text
from sumwire_controller.parse.degrade import degrade_args
from sumwire_controller.parse.queues import queue_args

ALL_ONES: Final = (1 << WORD_BITS) - 1
"""A coefficient that is set: a mask over a whole plane."""
LEDGER_KEY: Final = ((1 << 16) - 1, (1 << 8) - 1)
"""(job, worker) of the ledger row. No configuration may use that job (job ids end far below)."""
ADDRESS_BITS: Final = 32
UPLINK_PRIORITY: Final = 1
"""A job's uplink rows exclude each other, so one priority does for all."""


@dataclass(frozen=True, slots=True)
class TableEntry:
    """One row: `key` and `args` are numbers in the order of `program.py`'s keys and parameters."""

    table: str
    key: tuple[int, ...]
    args: tuple[int, ...]

    @property
    def identity(self) -> tuple[object, ...]:
        """What two rows of which only one can exist have in common."""
        return (self.table, self.key)

    def arg(self, name: str) -> int:
        """The action's argument of that name."""
        return self.args[TABLES[self.table].parameters.index(name)]

    def __str__(self) -> str:
        shape = TABLES[self.table]
        if is_ledger(self):
            return f"{self.table}[{', '.join(map(str, self.key))}] ledger: last generation {self.arg('ip')}"
        key = ", ".join(f"{name}={_shown(name, value)}" for name, value in zip(shape.keys, self.key, strict=True))
        return f"{self.table}[{key}] {shape.action}({_arguments(shape, self.args)})"


@dataclass(frozen=True, slots=True)
class MulticastGroup:
    """A group of (port, instance) replicas."""

    group: int
    replicas: frozenset[tuple[int, int]]

    @property
    def identity(self) -> tuple[object, ...]:
        return ("multicast group", self.group)

    def __str__(self) -> str:
        return f"group {self.group}: " + ", ".join(f"{port}#{instance}" for port, instance in sorted(self.replicas))


Entry = TableEntry | MulticastGroup


def _arguments(shape: TableShape, args: tuple[int, ...]) -> str:
    if shape.name in (THC_LOW.name, THC_HIGH.name):  # masks: the names of those that are set say it all
        return " ".join(name for name, value in zip(shape.parameters, args, strict=True) if value)
    return ", ".join(f"{name}={_shown(name, value)}" for name, value in zip(shape.parameters, args, strict=True))


def _shown(name: str, value: int) -> str:
    if name == "mac":
        return mac_text(value)
    if name in ("dst", "address", "ip"):
        return ".".join(str(byte) for byte in value.to_bytes(4, "big"))
    return f"{value:#x}" if name in ("job_ops", "worker_bit") else str(value)


def group_of(job: Job) -> int:
    """The job's multicast group; never 0, which means no group."""
    return job.id + 1


def desired_entries(config: Config, generations: Mapping[int, int], last: int) -> frozenset[Entry]:
    """Everything the switch should hold. Lanes are jobs here: see `lanes.py`.

    :param generations: job id -> its generation, for every job of the config.
    :param last: the highest generation ever given on this switch; 0 if none was.
    """
    found: set[Entry] = set(_common(config))
    for job in config.jobs:
        found.update(job_entries(config, job, generations[job.id]))
    if last:
        found.add(ledger_entry(last))
    return frozenset(found)


def _common(config: Config) -> Iterator[Entry]:
    """Entries of no job."""
    yield TableEntry(AGGREGATOR.name, (int(config.aggregator.ip),), (mac_number(config.aggregator.mac),))
    for worker in config.workers:
        yield TableEntry(FORWARD.name, (int(worker.ip), ADDRESS_BITS), (worker.port,))
    for queue in config.queues:
        yield TableEntry(VIRTUAL_QUEUE.name, (queue.port,), queue_args(queue))


def job_entries(config: Config, job: Job, generation: int) -> Iterator[Entry]:
    """All entries of one job."""
    workers = [config.worker(name) for name in job.workers]
    yield _admission(job, generation)
    yield MulticastGroup(group_of(job), frozenset((worker.port, k + 1) for k, worker in enumerate(workers)))
    for k, worker in enumerate(workers):
        yield from _seat(job, k, worker)
    yield from uplinks(job)
    if job.thc is not None:
        yield from _thc(job.id, job.thc.table)
    if job.degrade is not None:
        yield TableEntry(DEGRADE.name, (job.id,), degrade_args(job.degrade, job.lane))


def _admission(job: Job, generation: int) -> TableEntry:
    ops = sum(1 << OP_CODES[op] for op in job.ops)
    args = (generation, job.slots.base, job.slots.count, job.quorum, group_of(job), ops, int(job.spray == "hash"))
    return TableEntry(JOB.name, (job.id,), args)


def _seat(job: Job, number: int, worker: Worker) -> Iterator[Entry]:
    key = (job.id, number)
    weight = job.stands_for[number] if job.stands_for else worker.weight
    yield TableEntry(WORKER.name, key, (worker.port, int(worker.ip), 1 << number, weight, int(worker.is_switch)))
    udp_port = worker.udp_port if worker.is_switch else worker.udp_port + job.lane
    yield TableEntry(REPLICA.name, key, (mac_number(worker.mac), int(worker.ip), udp_port))


def uplinks(job: Job, gone: Collection[IPv4Address] = ()) -> Iterator[TableEntry]:
    """The slots shared out among the parents by their lowest bits.

    :param gone: parents, by address, whose shares go to the others; at least one must be left. Shares of the others
        stay where they are, and every switch with these parents comes to the same.
    """
    mask = len(job.parents) - 1
    heirs = cycle([parent for parent in job.parents if parent.ip not in gone])
    for share, named in enumerate(job.parents):
        parent = next(heirs) if named.ip in gone else named
        args = (parent.port, mac_number(parent.mac), int(parent.ip), parent.worker, 1 << parent.worker)
        yield TableEntry(UPLINK.name, (job.id, share, mask, UPLINK_PRIORITY), args)


def _thc(job_id: int, table: tuple[int, ...]) -> Iterator[Entry]:
    masks = [tuple(ALL_ONES if c else 0 for c in plane) for plane in coefficients(table)]
    yield TableEntry(THC_LOW.name, (job_id,), sum(masks[:WORD_PLANES_LOW], ()))
    if max(table) >> WORD_PLANES_LOW:
        yield TableEntry(THC_HIGH.name, (job_id,), sum(masks[WORD_PLANES_LOW:], ()))


def ledger_entry(last_generation: int) -> TableEntry:
    """The row that remembers the highest generation, where other rows of its table have an IPv4 address."""
    return TableEntry(REPLICA.name, LEDGER_KEY, (0, last_generation, 0))


def is_ledger(entry: Entry) -> bool:
    return isinstance(entry, TableEntry) and entry.table == REPLICA.name and entry.key == LEDGER_KEY


def job_of(entry: Entry) -> int | None:
    """The job id an entry belongs to; None for forwarding, the aggregator, virtual queues and the ledger."""
    if isinstance(entry, MulticastGroup):
        return entry.group - 1
    if entry.table in (FORWARD.name, AGGREGATOR.name, VIRTUAL_QUEUE.name) or is_ledger(entry):
        return None
    return entry.key[0]


def admits(entry: Entry) -> bool:
    """Is this the row that admits a job?"""
    return isinstance(entry, TableEntry) and entry.table == JOB.name


def admissions(entries: Iterable[Entry]) -> dict[int, TableEntry]:
    """The rows of the job table by job id."""
    rows = (entry for entry in entries if isinstance(entry, TableEntry) and admits(entry))
    return {row.key[0]: row for row in rows}


def last_generation(entries: Collection[Entry]) -> int:
    """The highest generation the entries know of; 0 if none."""
    in_use = [row.arg("generation") for row in admissions(entries).values()]
    noted = [entry.arg("ip") for entry in entries if isinstance(entry, TableEntry) and is_ledger(entry)]
    return max(in_use + noted, default=0)
