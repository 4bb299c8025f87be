# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The rules on the configuration of one switch. Pure: a `Problem` for each broken rule.

The rules are checked on drafts, in which parts that could not be read are missing. So one error names both unreadable
parts and broken rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from sumwire_protocol.constants import DROP_PORT, JOB_WORKERS_MAX, JOBS_MAX, ROUTES_MAX, SUMWIRE_PORT, WORKERS_MAX
from sumwire_protocol.ops import COUNT_MAX

from sumwire_controller.errors import ConfigError, Problem
from sumwire_controller.model import AggregatorAddress, Config, Job, Parent, Switch, VirtualQueue, Worker
from sumwire_controller.rules.parts import (
    PARENTS,
    PORT_MAX,
    address_rules,
    below_fit,
    degrade_rules,
    divides_equally,
    either,
    fewer_rules,
    hosts_fit,
    jobs_distinct,
    lane_rules,
    multiple_for,
    name_rule,
    op_rules,
    overlaps,
    placed,
    port_rules,
    queue_rules,
    quorum_rules,
    repeated,
    slot_rules,
    slots_field,
    switch_rules,
    thc_rules,
)

SEATS_MAX: Final = WORKERS_MAX - 1
"""The most workers of all jobs together: the rows of the worker and replica tables, less one for the ledger."""
UPLINKS_MAX: Final = JOBS_MAX
"""The rows of the uplink table."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A `Config` in which parts that could not be read are None. Indices are those of the YAML text."""

    switch: Switch | None
    aggregator: AggregatorAddress | None
    ports: tuple[int, ...] | None
    workers: tuple[Worker | None, ...]
    jobs: tuple[Job | None, ...]
    names_unparsed: frozenset[str] = frozenset()
    queues: tuple[VirtualQueue | None, ...] = ()


def draft_of(config: Config) -> Draft:
    """Return the draft of a configuration, with nothing missing."""
    return Draft(config.switch, config.aggregator, config.ports, config.workers, config.jobs, queues=config.queues)


def validate(config: Config) -> None:
    """Checks a configuration made in Python.

    :raises ConfigError: with every broken rule.
    """
    problems = list(validate_draft(draft_of(config)))
    if problems:
        raise ConfigError("config", problems)


def validate_draft(draft: Draft) -> Iterator[Problem]:
    """Yield every broken rule of the parts that could be read, in the order of the file."""
    if draft.switch is not None:
        yield from switch_rules("switch", draft.switch)
    if draft.aggregator is not None:
        yield from address_rules("aggregator", draft.aggregator.ip, draft.aggregator.mac)
    if draft.ports is not None:
        yield from _ports(draft.ports)
    yield from _workers(draft)
    jobs = placed("jobs", draft.jobs)
    for path, job in jobs:
        yield from _job(path, job, draft)
    yield from _jobs_together(draft, jobs)
    if draft.queues:
        yield from _queues(draft)


def _ports(ports: tuple[int, ...]) -> Iterator[Problem]:
    if not ports:
        yield Problem("", "ports", [], "must name at least one port")
    for i, port in enumerate(ports):
        if not 0 < port <= PORT_MAX:
            yield Problem("ports", f"[{i}]", port, f"must be 1..{PORT_MAX} ({DROP_PORT} is the drop port)")
    yield from repeated([("ports", f"[{i}]", port) for i, port in enumerate(ports)], "port")


def _workers(draft: Draft) -> Iterator[Problem]:
    workers = placed("workers", draft.workers)
    if len(draft.workers) > ROUTES_MAX:
        yield Problem(
            "",
            "workers",
            f"{len(draft.workers)} workers",
            f"the forward table has {ROUTES_MAX} rows: must be at most as many",
        )
    for path, worker in workers:
        yield from _worker(path, worker, draft)
    yield from repeated([(path, "name", worker.name) for path, worker in workers], "name")
    yield from repeated([(path, "ip", str(worker.ip)) for path, worker in workers], "address")
    yield from _macs(workers)


def _worker(path: str, worker: Worker, draft: Draft) -> Iterator[Problem]:
    yield from name_rule(path, worker.name)
    yield from address_rules(path, worker.ip, worker.mac)
    if not 0 < worker.udp_port < 1 << 16:
        yield Problem(path, "udp_port", worker.udp_port, "must be 1..65535")
    if worker.is_switch and worker.udp_port != SUMWIRE_PORT:
        yield Problem(path, "udp_port", worker.udp_port, f"must be {SUMWIRE_PORT} at a switch")
    if not 1 <= worker.weight <= COUNT_MAX:
        yield Problem(path, "stands_for", worker.weight, f"must be 1..{COUNT_MAX} hosts")
    if draft.ports is not None and worker.port not in draft.ports:
        yield Problem(path, "port", worker.port, f"must be one of the switch's ports {list(draft.ports)}")
    if draft.aggregator is not None and worker.ip == draft.aggregator.ip:
        yield Problem(path, "ip", str(worker.ip), "must not be the aggregator's address")
    if draft.aggregator is not None and worker.mac == draft.aggregator.mac:
        yield Problem(path, "mac", worker.mac, "must not be the aggregator's address")


def _macs(workers: list[tuple[str, Worker]]) -> Iterator[Problem]:
    """An interface (MAC address) may have several IPv4 addresses, but it is behind one port."""
    first: dict[str, tuple[str, Worker]] = {}
    for path, worker in workers:
        other_path, other = first.setdefault(worker.mac, (path, worker))
        if other.port != worker.port:
            rule = (
                f"is behind port {worker.port}, but {other_path} has the same address behind port {other.port}: must "
                "be one port"
            )
            yield Problem(path, "mac", worker.mac, rule)


def _job(path: str, job: Job, draft: Draft) -> Iterator[Problem]:
    members = _members(job, draft)
    below = next((worker.name for worker in members.values() if worker.is_switch), "")
    elsewhere = "a switch above" if job.parents else below
    yield from name_rule(path, job.name)
    yield from lane_rules(path, job)
    yield from op_rules(path, job)
    yield from _job_workers(path, job, draft)
    yield from port_rules(path, job, [(w.name, w.udp_port) for w in members.values() if not w.is_switch])
    yield from quorum_rules(path, job, elsewhere)
    yield from fewer_rules(path, job, elsewhere)
    yield from degrade_rules(path, job, elsewhere)
    yield from slot_rules(f"{path}.slots", job)
    yield from _parents(path, job, draft)
    yield from _weights(path, job, members)
    hosts = sum(job.stands_for) if job.stands_for else sum(worker.weight for worker in members.values())
    yield from [*hosts_fit(path, job, hosts)] or _partial_results_fit(path, job, members, hosts)
    if job.thc is not None:
        yield from thc_rules(f"{path}.thc", job.thc, hosts)


def _members(job: Job, draft: Draft) -> dict[str, Worker]:
    """The job's workers that are known, by name."""
    return {worker.name: worker for worker in filter(None, draft.workers) if worker.name in job.workers}


def _partial_results_fit(path: str, job: Job, members: dict[str, Worker], hosts: int) -> Iterator[Problem]:
    """What this switch sends up, and what each lower switch sends to it."""
    if job.parents:
        yield from below_fit(path, "workers", job, hosts, "this switch")
    for k, name in enumerate(job.workers):
        if name in members and members[name].is_switch:
            yield from below_fit(path, f"workers[{k}]", job, _hosts_behind(job, k, members[name]), name)


def _hosts_behind(job: Job, k: int, worker: Worker) -> int:
    """The number of hosts behind the job's worker k. A list `stands_for` of the wrong length is reported elsewhere."""
    return job.stands_for[k] if len(job.stands_for) == len(job.workers) else worker.weight


def _weights(path: str, job: Job, members: dict[str, Worker]) -> Iterator[Problem]:
    if not job.stands_for:
        return
    if len(job.stands_for) != len(job.workers):
        rule = f"must have one number for each of the {len(job.workers)} workers"
        yield Problem(path, "stands_for", list(job.stands_for), rule)
        return
    for k, (name, hosts) in enumerate(zip(job.workers, job.stands_for, strict=True)):
        if name in members and not 1 <= hosts <= members[name].weight:
            rule = f"must be 1..{members[name].weight}, what {name} stands for"
            yield Problem(path, f"stands_for[{k}]", hosts, rule)


def _parents(path: str, job: Job, draft: Draft) -> Iterator[Problem]:
    parents = [(f"{path}.parents[{i}]", parent) for i, parent in enumerate(job.parents)]
    if parents and len(parents) not in PARENTS:
        yield Problem(path, "parents", f"{len(parents)} parents", f"must be {either(PARENTS)}, or none for the root")
    elif parents and not divides_equally(job, len(parents)):
        multiple = multiple_for(job, len(parents))
        rule = f"must be a multiple of {multiple}, the number of parents, so that each has equally many slots"
        yield Problem(f"{path}.slots", slots_field(job), job.slots.count, rule)
    ports = {worker.port: worker.name for worker in _members(job, draft).values()}
    for parent_path, parent in parents:
        yield from _parent(parent_path, parent, draft)
        if parent.port in ports:
            yield Problem(parent_path, "port", parent.port, f"must not be the port of a worker, {ports[parent.port]}")
    yield from repeated(((where, "ip", str(parent.ip)) for where, parent in parents), "address")


def _parent(path: str, parent: Parent, draft: Draft) -> Iterator[Problem]:
    yield from address_rules(path, parent.ip, parent.mac)
    if draft.ports is not None and parent.port not in draft.ports:
        yield Problem(path, "port", parent.port, f"must be one of the switch's ports {list(draft.ports)}")
    if draft.aggregator is not None and parent.ip == draft.aggregator.ip:
        yield Problem(path, "ip", str(parent.ip), "must not be this switch's own aggregator")
    if not 0 <= parent.worker < JOB_WORKERS_MAX:
        yield Problem(path, "worker", parent.worker, f"must be 0..{JOB_WORKERS_MAX - 1}")


def _job_workers(path: str, job: Job, draft: Draft) -> Iterator[Problem]:
    known = {worker.name for worker in filter(None, draft.workers)} | draft.names_unparsed
    if not 1 <= len(job.workers) <= JOB_WORKERS_MAX:
        shown = f"{len(job.workers)} workers"
        yield Problem(path, "workers", shown, f"must be 1..{JOB_WORKERS_MAX} workers, the width of the contributors")
    for i, name in enumerate(job.workers):
        if name not in known:
            yield Problem(path, f"workers[{i}]", name, "no worker of that name: add it to `workers`, or name another")
    yield from repeated([(f"{path}.workers", f"[{i}]", name) for i, name in enumerate(job.workers)], "worker")


def _jobs_together(draft: Draft, jobs: list[tuple[str, Job]]) -> Iterator[Problem]:
    rows = len(draft.jobs) + sum(_more_lanes(job) for _, job in jobs)
    if rows > JOBS_MAX:
        shown = f"{rows} jobs" if rows == len(draft.jobs) else f"{rows} lanes of all jobs"
        yield Problem("", "jobs", shown, f"at most {JOBS_MAX}: the job table has no more rows")
    seats = sum(len(job.workers) * (_more_lanes(job) + 1) for _, job in jobs)
    if seats > SEATS_MAX:
        yield Problem("", "jobs", f"{seats} workers in all jobs", f"at most {SEATS_MAX}: the tables have no more rows")
    uplinks = sum(len(job.parents) * (_more_lanes(job) + 1) for _, job in jobs)
    if uplinks > UPLINKS_MAX:
        yield Problem(
            "", "jobs", f"{uplinks} parents in all jobs", f"at most {UPLINKS_MAX}: the table has no more rows"
        )
    yield from jobs_distinct(jobs)
    for _, _, problem in overlaps(jobs):
        yield replace(problem, rule=f"{problem.rule}: give it others")


def _more_lanes(job: Job) -> int:
    """The number of lanes after the first; 0 if the number of lanes is wrong."""
    return max(job.lanes, 1) - 1


def _queues(draft: Draft) -> Iterator[Problem]:
    queues = placed("queues", draft.queues)
    for path, queue in queues:
        if draft.ports is not None and queue.port not in draft.ports:
            yield Problem(path, "port", queue.port, f"must be one of the switch's ports {list(draft.ports)}")
        yield from queue_rules(path, queue)
    yield from repeated([(path, "port", queue.port) for path, queue in queues], "port")
