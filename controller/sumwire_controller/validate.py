# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The rules a configuration must keep. Pure functions that yield a Problem for each broken rule."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address
from itertools import combinations
from typing import Final

from sumwire_controller._p4 import (
    DROP_PORT,
    JOB_WORKERS_MAX,
    JOBS_MAX,
    ROUTES_MAX,
    SLOT_WORDS,
    SLOTS_TOTAL,
    THC_INDEX_PLANES,
    WORKERS_MAX,
)
from sumwire_controller.config import (
    MAC_PATTERN,
    MAC_RULE,
    OP_CODES,
    Aggregator,
    Config,
    Job,
    Switch,
    Thc,
    Worker,
    mac_number,
)
from sumwire_controller.errors import ConfigError, Problem

PORT_MAX: Final = DROP_PORT - 1
SUM_MAX: Final = (1 << SLOT_WORDS) - 1
"""Largest sum that fits the planes of a slot."""
JOB_ID_MAX: Final = (1 << 15) - 2
"""The multicast group of a job is its id + 1, and bmv2's P4Runtime server keeps groups from 2^15 on for itself."""
SLOTS_MIN: Final = 2
"""A worker keeps half of the slots in flight, so one slot is none."""
SEATS_MAX: Final = WORKERS_MAX - 1
"""Workers of all jobs together: rows of the worker and replica tables, of which the ledger takes one (`entries.py`)."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_MAC_GROUP_BIT: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class Draft:
    """A configuration of which parts may have failed to parse (None); indices are those of the text."""

    switch: Switch | None
    aggregator: Aggregator | None
    ports: tuple[int, ...] | None
    workers: tuple[Worker | None, ...]
    jobs: tuple[Job | None, ...]
    names_unparsed: frozenset[str] = frozenset()

    def workers_at(self) -> list[tuple[str, Worker]]:
        return [(f"workers[{i}]", worker) for i, worker in enumerate(self.workers) if worker is not None]

    def jobs_at(self) -> list[tuple[str, Job]]:
        return [(f"jobs[{i}]", job) for i, job in enumerate(self.jobs) if job is not None]


def validate(config: Config) -> None:
    """Checks a configuration made in Python.

    :raises ConfigError: with every broken rule.
    """
    draft = Draft(config.switch, config.aggregator, config.ports, config.workers, config.jobs)
    problems = list(validate_draft(draft))
    if problems:
        raise ConfigError("config", problems)


def validate_draft(draft: Draft) -> Iterator[Problem]:
    """Every broken rule of the parts that are there, in the order of the file."""
    if draft.switch is not None:
        yield from _switch(draft.switch)
    if draft.aggregator is not None:
        yield from _address("aggregator", draft.aggregator.ip, draft.aggregator.mac)
    if draft.ports is not None:
        yield from _ports(draft.ports)
    yield from _workers(draft)
    for path, job in draft.jobs_at():
        yield from _job(path, job, draft)
    yield from _jobs_together(draft)


def _switch(switch: Switch) -> Iterator[Problem]:
    yield from _name("switch", switch.name)
    host, colon, port = switch.grpc.rpartition(":")
    if not (host and colon and port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        yield Problem("switch", "grpc", switch.grpc, "must be host:port with a port of 1..65535")
    if not 0 <= switch.device_id < 1 << 64:
        yield Problem("switch", "device_id", switch.device_id, "must be 0..2^64-1")


def _name(path: str, name: str) -> Iterator[Problem]:
    if not _NAME.fullmatch(name):
        yield Problem(path, "name", name, "must be letters, digits, '_', '.' and '-', beginning with a letter or digit")


def _address(path: str, ip: IPv4Address, mac: str) -> Iterator[Problem]:
    if ip.is_multicast or ip.is_unspecified or ip.is_loopback or ip.is_reserved:
        yield Problem(path, "ip", str(ip), "must be a unicast address of a host")
    if not MAC_PATTERN.fullmatch(mac):
        yield Problem(path, "mac", mac, MAC_RULE)
    elif mac_number(mac) == 0 or mac_number(mac) & _MAC_GROUP_BIT:
        yield Problem(path, "mac", mac, "must be a unicast address, not zero")


def _ports(ports: tuple[int, ...]) -> Iterator[Problem]:
    if not ports:
        yield Problem("", "ports", [], "must name at least one port")
    for i, port in enumerate(ports):
        if not 0 < port <= PORT_MAX:
            yield Problem("ports", f"[{i}]", port, f"must be 1..{PORT_MAX} ({DROP_PORT} is the drop port)")
    yield from _repeated((("ports", f"[{i}]", port) for i, port in enumerate(ports)), "port")


def _repeated(fields: Iterable[tuple[str, str, object]], what: str) -> Iterator[Problem]:
    first: dict[object, str] = {}
    for path, field, value in fields:
        if value in first:
            yield Problem(path, field, value, f"{what} is already that of {first[value]}")
        else:
            first[value] = path if not field.startswith("[") else path + field


def _workers(draft: Draft) -> Iterator[Problem]:
    workers = draft.workers_at()
    if len(draft.workers) > ROUTES_MAX:
        yield Problem("", "workers", f"{len(draft.workers)} workers", f"the forward table has {ROUTES_MAX} rows")
    for path, worker in workers:
        yield from _worker(path, worker, draft)
    yield from _repeated(((path, "name", worker.name) for path, worker in workers), "name")
    yield from _repeated(((path, "ip", str(worker.ip)) for path, worker in workers), "address")
    yield from _macs(workers)


def _worker(path: str, worker: Worker, draft: Draft) -> Iterator[Problem]:
    yield from _name(path, worker.name)
    yield from _address(path, worker.ip, worker.mac)
    if not 0 < worker.udp_port < 1 << 16:
        yield Problem(path, "udp_port", worker.udp_port, "must be 1..65535")
    if draft.ports is not None and worker.port not in draft.ports:
        yield Problem(path, "port", worker.port, f"must be one of the switch's ports {list(draft.ports)}")
    if draft.aggregator is not None and worker.ip == draft.aggregator.ip:
        yield Problem(path, "ip", str(worker.ip), "must not be the aggregator's address")
    if draft.aggregator is not None and worker.mac == draft.aggregator.mac:
        yield Problem(path, "mac", worker.mac, "must not be the aggregator's address")


def _macs(workers: list[tuple[str, Worker]]) -> Iterator[Problem]:
    """One interface may have several IPv4 addresses, but it is behind one port."""
    first: dict[str, tuple[str, Worker]] = {}
    for path, worker in workers:
        other_path, other = first.setdefault(worker.mac, (path, worker))
        if other.port != worker.port:
            rule = f"is behind port {worker.port}, but {other_path} has the same address behind port {other.port}"
            yield Problem(path, "mac", worker.mac, rule)


def _job(path: str, job: Job, draft: Draft) -> Iterator[Problem]:
    yield from _name(path, job.name)
    if not 0 <= job.id <= JOB_ID_MAX:
        yield Problem(path, "id", job.id, f"must be 0..{JOB_ID_MAX}")
    yield from _ops(path, job)
    yield from _job_workers(path, job, draft)
    if not 1 <= job.quorum <= len(job.workers):
        rule = f"must be 1..{len(job.workers)}, the number of workers"
        yield Problem(path, "quorum", job.quorum, rule)
    yield from _slots(path, job)
    if job.thc is not None:
        yield from _thc(f"{path}.thc", job.thc, len(job.workers))


def _ops(path: str, job: Job) -> Iterator[Problem]:
    if not job.ops:
        yield Problem(path, "ops", [], f"must name at least one of {', '.join(OP_CODES)}")
    for i, op in enumerate(job.ops):
        if op not in OP_CODES:
            yield Problem(path, f"ops[{i}]", op, f"unknown op; known are {', '.join(OP_CODES)}")
    yield from _repeated(((f"{path}.ops", f"[{i}]", op) for i, op in enumerate(job.ops)), "op")
    if "thc" in job.ops and job.thc is None:
        yield Problem(path, "thc", None, "is required with op thc")
    if "thc" not in job.ops and job.thc is not None:
        yield Problem(path, "thc", "{...}", "is only for op thc, which this job does not have")


def _job_workers(path: str, job: Job, draft: Draft) -> Iterator[Problem]:
    known = {worker.name for _, worker in draft.workers_at()} | draft.names_unparsed
    if not 1 <= len(job.workers) <= JOB_WORKERS_MAX:
        shown = f"{len(job.workers)} workers"
        yield Problem(path, "workers", shown, f"must be 1..{JOB_WORKERS_MAX} workers, the width of the contributors")
    for i, name in enumerate(job.workers):
        if name not in known:
            yield Problem(path, f"workers[{i}]", name, "no worker of that name")
    yield from _repeated(((f"{path}.workers", f"[{i}]", name) for i, name in enumerate(job.workers)), "worker")


def _slots(path: str, job: Job) -> Iterator[Problem]:
    path = f"{path}.slots"
    if job.slots.base < 0:
        yield Problem(path, "base", job.slots.base, "must be 0 or more")
    if job.slots.count < SLOTS_MIN:
        yield Problem(path, "count", job.slots.count, f"must be at least {SLOTS_MIN}: half of them are in flight")
    if job.slots.end > SLOTS_TOTAL:
        rule = f"slots {job.slots.base}..{job.slots.end - 1} end beyond the switch's {SLOTS_TOTAL}"
        yield Problem(path, "count", job.slots.count, rule)


def _thc(path: str, thc: Thc, workers: int) -> Iterator[Problem]:
    if not (math.isfinite(thc.p) and 0 < thc.p < 1):
        yield Problem(path, "p", thc.p, "must lie between 0 and 1, both excluded")
    if not 1 <= thc.bits <= THC_INDEX_PLANES:
        yield Problem(path, "bits", thc.bits, f"must be 1..{THC_INDEX_PLANES}")
    elif len(thc.table) != 1 << thc.bits:
        yield Problem(
            path, "table", list(thc.table), f"must have 2^bits = {1 << thc.bits} values, not {len(thc.table)}"
        )
    yield from _thc_table(path, thc.table)
    if thc.table and thc.granularity * workers > SUM_MAX:
        product = f"granularity {thc.granularity} * {workers} workers = {thc.granularity * workers}"
        rule = f"{product} overflows the sums of {SLOT_WORDS} planes (at most {SUM_MAX}); {_largest(thc.granularity)}"
        yield Problem(path, "granularity", thc.granularity, rule)


def _largest(granularity: int) -> str:
    fit = SUM_MAX // granularity
    return f"at most {fit} workers fit this table" if fit else "it fits no worker at all"


def _thc_table(path: str, table: tuple[int, ...]) -> Iterator[Problem]:
    for i, value in enumerate(table):
        if not 0 <= value <= SUM_MAX:
            yield Problem(path, f"table[{i}]", value, f"must be 0..{SUM_MAX}")
        if i == 0 and value != 0:
            yield Problem(path, "table[0]", value, "must be 0, the table's first value")
        if i > 0 and value <= table[i - 1]:
            yield Problem(path, f"table[{i}]", value, f"must be above the value before it, {table[i - 1]}")


def _jobs_together(draft: Draft) -> Iterator[Problem]:
    jobs = draft.jobs_at()
    if len(draft.jobs) > JOBS_MAX:
        yield Problem("", "jobs", f"{len(draft.jobs)} jobs", f"at most {JOBS_MAX}: the job table has no more rows")
    seats = sum(len(job.workers) for _, job in jobs)
    if seats > SEATS_MAX:
        yield Problem("", "jobs", f"{seats} workers in all jobs", f"at most {SEATS_MAX}: the tables have no more rows")
    yield from _repeated(((path, "name", job.name) for path, job in jobs), "name")
    yield from _repeated(((path, "id", job.id) for path, job in jobs), "id")
    for (path, job), (other_path, other) in combinations(reversed(jobs), 2):
        if job.slots.base < other.slots.end and other.slots.base < job.slots.end:
            shown = f"{job.slots.base}..{job.slots.end - 1}"
            rule = f"overlaps slots {other.slots.base}..{other.slots.end - 1} of {other_path} ({other.name})"
            yield Problem(path, "slots", shown, rule)
