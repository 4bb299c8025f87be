# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Computes the entries that a switch should hold from its Config. Pure: no switch, no clock."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from ipaddress import IPv4Address
from itertools import cycle
from typing import Final

from sumwire_protocol import constants as p4
from sumwire_protocol.authentication import tag_keys
from sumwire_protocol.digest import NO_DIGEST, job_digest

from sumwire_controller.derive.anf import coefficients
from sumwire_controller.derive.entries import (
    AGGREGATOR,
    DEGRADE,
    FORWARD,
    JOB,
    REPLICA,
    SOURCE,
    THC_HIGH,
    THC_LOW,
    UPLINK,
    VIRTUAL_QUEUE,
    WORD_PLANES_LOW,
    WORKER,
    Entry,
    MulticastGroup,
    TableEntry,
    budget_args,
    degrade_args,
    group_of,
    ledger_entry,
    queue_args,
)
from sumwire_controller.model import OP_CODES, Config, Job, WholeJob, Worker, mac_number


def hosts_behind(config: Config, job: Job) -> tuple[int, ...]:
    """Return the number of hosts behind each worker of a job."""
    return job.stands_for or tuple(config.worker(name).weight for name in job.workers)


def upper_first(configs: Sequence[Config]) -> tuple[Config, ...]:
    """Return the configurations in an order in which every switch comes after those above it.

    They must keep the rules of `rules/agreement.py`.
    """
    levels = levels_of(configs)
    return tuple(sorted(configs, key=lambda config: levels[config.aggregator.ip]))


def levels_of(configs: Sequence[Config]) -> dict[IPv4Address, int]:
    """Return, by the aggregator's address, the number of switches on the longest path up. In a circle it is the number
    of all switches."""
    levels = {config.aggregator.ip: 0 for config in configs}
    for _ in configs:
        for config in configs:
            above = [levels.get(parent.ip, 0) for job in config.jobs for parent in job.parents]
            levels[config.aggregator.ip] = min(max(above, default=-1) + 1, len(configs))
    return levels


ALL_ONES: Final = (1 << p4.WORD_BITS) - 1
"""A coefficient that is set: a mask over a whole plane."""
ADDRESS_BITS: Final = 32
UPLINK_PRIORITY: Final = 1
"""A packet matches at most one of a job's uplink rows, so all have the same priority."""


def desired_entries(config: Config, generations: Mapping[int, int], last: int) -> frozenset[Entry]:
    """Return every entry that the switch should hold. Each lane is a job here (`derive/jobs.py`).

    :param generations: job id -> generation, for every job of the configuration.
    :param last: the highest generation ever given on this switch; 0 if none was given.
    """
    found: set[Entry] = set(_common(config))
    for job in config.jobs:
        found.update(job_entries(config, job, generations[job.id]))
    if last:
        found.add(ledger_entry(last))
    return frozenset(found)


def _common(config: Config) -> Iterator[Entry]:
    """The entries that belong to no job."""
    yield TableEntry(AGGREGATOR.name, (int(config.aggregator.ip),), (mac_number(config.aggregator.mac),))
    for worker in config.workers:
        yield TableEntry(FORWARD.name, (int(worker.ip), ADDRESS_BITS), (worker.port,))
        for port in worker.ports_in:
            yield TableEntry(SOURCE.name, (port, mac_number(worker.mac), int(worker.ip)), ())
    for queue in config.queues:
        yield TableEntry(VIRTUAL_QUEUE.name, (queue.port,), queue_args(queue))


def job_entries(config: Config, job: Job, generation: int) -> Iterator[Entry]:
    """Return all entries of one job."""
    workers = [config.worker(name) for name in job.workers]
    yield _admission(config, job, generation)
    yield MulticastGroup(group_of(job), frozenset((worker.port, k + 1) for k, worker in enumerate(workers)))
    for k, worker in enumerate(workers):
        yield from _seat(job, k, worker)
    yield from uplinks(job)
    if job.thc is not None:
        yield from _thc(job.id, job.thc.table)
    if job.degrade is not None:
        yield TableEntry(DEGRADE.name, (job.id,), degrade_args(job.degrade, job.lane))


def _admission(config: Config, job: Job, generation: int) -> TableEntry:
    allowed = sum(1 << OP_CODES[op] for op in job.ops)
    slots = (job.slots.base, job.slots.count)
    last = (_spray(config, job), job.quorum_least, digest_of(config, job))
    keys = None if job.key is None else tag_keys(job.key, job.id)
    derived = () if keys is None else (*keys.words, *keys.sip)
    return TableEntry(JOB.name, (job.id,), (generation, *slots, job.quorum, group_of(job), allowed, *last, *derived))


def _spray(config: Config, job: Job) -> int:
    """Which of the program's SPRAY_ codes the job has at this switch."""
    if job.spray == "hash":
        return p4.SPRAY_HASH
    has_lower = not job.parents and any(config.worker(name).is_switch for name in job.workers)
    return p4.SPRAY_ROOT if has_lower else p4.SPRAY_SLOT


def digest_of(config: Config, job: Job) -> int:
    """Return the digest that hosts compare with that of their job file.

    It is NO_DIGEST if the job has parts at other switches, which only the topology knows.
    """
    whole = job.whole
    if whole is None:
        if job.parents or any(config.worker(name).is_switch for name in job.workers):
            return NO_DIGEST
        whole = WholeJob(len(job.workers), job.quorum)
    table = None if job.thc is None else job.thc.table
    return job_digest(job.id, job.ops, whole.workers, whole.quorum, job.slots.count, table, job.quorum_least)


def _seat(job: Job, number: int, worker: Worker) -> Iterator[Entry]:
    key = (job.id, number)
    weight = job.stands_for[number] if job.stands_for else worker.weight
    ip, mac = int(worker.ip), mac_number(worker.mac)
    udp_port = worker.udp_port if worker.is_switch else worker.udp_port + job.lane
    admitted = (worker.port, ip, 1 << number, weight, int(worker.is_switch), mac, udp_port, *budget_args(job))
    yield TableEntry(WORKER.name, key, admitted)
    yield TableEntry(REPLICA.name, key, (mac, ip, udp_port))


def uplinks(job: Job, gone: Collection[IPv4Address] = ()) -> Iterator[TableEntry]:
    """Yield the job's uplink rows: the lowest bits of a slot's number (or of the chunk's hash) select the parent.

    :param gone: addresses of parents to leave out; at least one parent must be left. Their rows name the remaining
        parents in turn, all other rows stay as they are. Every switch with the same parents derives the same rows.
    """
    mask = len(job.parents) - 1
    substitutes = cycle([parent for parent in job.parents if parent.ip not in gone])
    for low_bits, named in enumerate(job.parents):
        parent = next(substitutes) if named.ip in gone else named
        args = (parent.port, mac_number(parent.mac), int(parent.ip), parent.worker, 1 << parent.worker)
        yield TableEntry(UPLINK.name, (job.id, low_bits, mask, UPLINK_PRIORITY), args)


def _thc(job_id: int, table: tuple[int, ...]) -> Iterator[Entry]:
    planes = coefficients(table)
    yield TableEntry(THC_LOW.name, (job_id,), _masks(planes[:WORD_PLANES_LOW]))
    if max(table) >> WORD_PLANES_LOW:
        yield TableEntry(THC_HIGH.name, (job_id,), _masks(planes[WORD_PLANES_LOW:]))


def _masks(planes: Sequence[Sequence[int]]) -> tuple[int, ...]:
    return tuple(ALL_ONES if c else 0 for plane in planes for c in plane)
