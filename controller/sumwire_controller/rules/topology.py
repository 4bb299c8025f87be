# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The last step of a topology's rules: the trees of its jobs, and the sizes of each switch's tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sumwire_protocol.constants import DROP_PORT, JOB_WORKERS_MAX

from sumwire_controller.derive.topology import JobTree, configs_of, job_tree, roots_of
from sumwire_controller.errors import ConfigError, Problem
from sumwire_controller.model import Host, Job, QueueAt, SwitchLink, SwitchNode, Topology
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
from sumwire_controller.rules.switch_config import draft_of, validate_draft


@dataclass(frozen=True, slots=True)
class TopologyDraft:
    """A `Topology` in which parts that could not be read are None. Indices are those of the YAML text."""

    switches: tuple[SwitchNode | None, ...]
    links: tuple[SwitchLink | None, ...]
    hosts: tuple[Host | None, ...]
    jobs: tuple[Job | None, ...]
    switches_unparsed: frozenset[str] = frozenset()
    hosts_unparsed: frozenset[str] = frozenset()
    queues: tuple[QueueAt | None, ...] = ()

    def topology(self) -> Topology:
        """Return the topology of the parts that could be read."""
        return Topology(
            tuple(filter(None, self.switches)),
            tuple(filter(None, self.links)),
            tuple(filter(None, self.hosts)),
            tuple(filter(None, self.jobs)),
            tuple(filter(None, self.queues)),
        )


def tree_problems(topology: Topology) -> Iterator[Problem]:
    """Yield the broken rules of the jobs' trees. The network itself must keep its rules."""
    jobs = placed("jobs", topology.jobs)
    trees: dict[int, JobTree] = {}
    for path, job in jobs:
        problems = [*_roots(path, job, roots_of(topology, job))]
        yield from problems
        if not problems:
            tree = trees[job.id] = job_tree(topology, job)
            yield from _seats(path, tree)
            yield from _below(path, job, tree)
            yield from _needs_a_star(path, job, tree)
    for job, other, problem in overlaps(jobs):
        shared = trees.keys() >= {job.id, other.id} and trees[job.id].seats.keys() & trees[other.id].seats.keys()
        if shared:
            yield Problem(
                problem.path, problem.field, problem.value, f"{problem.rule} at {min(shared)}: give it others"
            )


def _roots(path: str, job: Job, roots: tuple[str, ...]) -> Iterator[Problem]:
    if not roots:
        yield Problem(path, "workers", list(job.workers), "no switch is above all of them: add links to one")
    elif len(roots) not in PARENTS:
        shown = f"{len(roots)} switches ({', '.join(roots)})"
        yield Problem(path, "workers", list(job.workers), f"{shown} are above all of them: must be {either(PARENTS)}")
    elif not divides_equally(job, len(roots)):
        rule = (
            f"must be a multiple of {multiple_for(job, len(roots))}, so that {', '.join(roots)} have equally many slots"
        )
        yield Problem(f"{path}.slots", slots_field(job), job.slots.count, rule)


def _seats(path: str, tree: JobTree) -> Iterator[Problem]:
    for switch, seats in tree.seats.items():
        if len(seats) > JOB_WORKERS_MAX:
            rule = f"at most {JOB_WORKERS_MAX}, the width of the contributors"
            yield Problem(path, "workers", f"{len(seats)} workers at {switch}", rule)


def _below(path: str, job: Job, tree: JobTree) -> Iterator[Problem]:
    """The partial results of every switch that is no root have room for the hosts below it."""
    for switch, seats in tree.seats.items():
        if tree.parents[switch]:
            yield from below_fit(path, "workers", job, sum(seats.values()), switch)


def _needs_a_star(path: str, job: Job, tree: JobTree) -> Iterator[Problem]:
    """Some settings need a job that only one switch has."""
    elsewhere = list(tree.seats)[1] if len(tree.seats) > 1 else ""
    if elsewhere:
        yield from quorum_rules(path, job, elsewhere)
        yield from fewer_rules(path, job, elsewhere)
        yield from degrade_rules(path, job, elsewhere)


def size_problems(topology: Topology) -> Iterator[Problem]:
    """Return the problems of switches whose tables have too few rows."""
    for i, config in enumerate(configs_of(topology)):
        for problem in validate_draft(draft_of(config)):
            yield Problem(f"switches[{i}]", problem.full_path, problem.value, problem.rule)


def validate_topology(topology: Topology) -> None:
    """Checks a topology made in Python.

    :raises ConfigError: with every broken rule.
    """
    draft = TopologyDraft(topology.switches, topology.links, topology.hosts, topology.jobs, queues=topology.queues)
    problems = topology_problems(draft)
    if problems:
        raise ConfigError("topology", problems)


def topology_problems(draft: TopologyDraft, *, shape_is_good: bool = True) -> list[Problem]:
    """Return the broken rules of the first step that finds any.

    :param shape_is_good: every part of the draft could be read.
    """
    problems = [*_parts(draft)]
    if problems or not shape_is_good:
        return problems
    topology = draft.topology()
    if not topology.switches:
        return [Problem("", "switches", [], "must name at least one switch")]
    return [*_network(topology)] or [*tree_problems(topology)] or [*size_problems(topology)]


# -- the parts ------------------------------------------------------------------------------------------


def _parts(draft: TopologyDraft) -> Iterator[Problem]:
    yield from _switches(draft)
    yield from _links(draft)
    yield from _hosts(draft)
    yield from _addresses_distinct(draft)
    yield from _ports_distinct(draft)
    for path, job in placed("jobs", draft.jobs):
        yield from _job(path, job, draft)
    yield from jobs_distinct(placed("jobs", draft.jobs))
    yield from _queues(draft)


def _switches(draft: TopologyDraft) -> Iterator[Problem]:
    for path, node in placed("switches", draft.switches):
        yield from switch_rules(path, node.switch)
        yield from address_rules(f"{path}.aggregator", node.aggregator.ip, node.aggregator.mac)
    servers = (
        (path, "grpc", f"{at.switch.grpc} device {at.switch.device_id}")
        for path, at in placed("switches", draft.switches)
    )
    yield from repeated(servers, "server and device")


def _links(draft: TopologyDraft) -> Iterator[Problem]:
    known = {node.name for _, node in placed("switches", draft.switches)} | draft.switches_unparsed
    for path, link in placed("links", draft.links):
        for field, (switch, port) in zip(("from", "to"), link.ends, strict=True):
            if switch not in known:
                yield Problem(path, field, switch, "no switch of that name: add it to `switches`, or name another")
            yield from _port(path, f"{field}_port", port)
        if link.lower == link.upper:
            yield Problem(path, "to", link.upper, "must be another switch than `from`")
    pairs = (
        (path, "to", " and ".join(sorted((link.lower, link.upper)))) for path, link in placed("links", draft.links)
    )
    yield from repeated(pairs, "pair of switches")


def _port(path: str, field: str, port: int) -> Iterator[Problem]:
    if not 0 < port <= PORT_MAX:
        yield Problem(path, field, port, f"must be 1..{PORT_MAX} ({DROP_PORT} is the drop port)")


def _hosts(draft: TopologyDraft) -> Iterator[Problem]:
    known = {node.name for _, node in placed("switches", draft.switches)} | draft.switches_unparsed
    for path, host in placed("hosts", draft.hosts):
        yield from name_rule(path, host.name)
        yield from address_rules(path, host.ip, host.mac)
        if host.switch not in known:
            yield Problem(path, "switch", host.switch, "no switch of that name: add it to `switches`, or name another")
        yield from _port(path, "port", host.port)
        if not 0 < host.udp_port < 1 << 16:
            yield Problem(path, "udp_port", host.udp_port, "must be 1..65535")


def _addresses_distinct(draft: TopologyDraft) -> Iterator[Problem]:
    aggregators = [(f"{path}.aggregator", node.aggregator) for path, node in placed("switches", draft.switches)]
    names = [(path, "name", node.name) for path, node in placed("switches", draft.switches)]
    addresses = [(path, "ip", str(aggregator.ip)) for path, aggregator in aggregators]
    yield from repeated([*names, *((path, "name", host.name) for path, host in placed("hosts", draft.hosts))], "name")
    yield from repeated(
        [*addresses, *((path, "ip", str(host.ip)) for path, host in placed("hosts", draft.hosts))], "address"
    )
    first: dict[str, tuple[str, object]] = {}
    for path, aggregator in aggregators:
        yield from _mac(path, aggregator.mac, path, first)
    for path, host in placed("hosts", draft.hosts):
        yield from _mac(path, host.mac, (host.switch, host.port), first)


def _mac(path: str, mac: str, place: object, first: dict[str, tuple[str, object]]) -> Iterator[Problem]:
    """An interface (MAC address) may have several IPv4 addresses, but it is in one place."""
    other_path, other_place = first.setdefault(mac, (path, place))
    if other_place != place:
        yield Problem(path, "mac", mac, f"is already that of {other_path}: give it another")


def _ports_distinct(draft: TopologyDraft) -> Iterator[Problem]:
    first: dict[tuple[str, int], tuple[str, str]] = {}
    for path, host in placed("hosts", draft.hosts):
        other_path, mac = first.setdefault((host.switch, host.port), (path, host.mac))
        if mac != host.mac:
            yield Problem(path, "port", host.port, f"is already that of {other_path}: give it another")
    for path, link in placed("links", draft.links):
        for field, end in zip(("from_port", "to_port"), link.ends, strict=True):
            other_path, _ = first.setdefault(end, (f"{path}.{field}", ""))
            if other_path != f"{path}.{field}":
                yield Problem(path, field, end[1], f"is already that of {other_path}: give it another")


def _job(path: str, job: Job, draft: TopologyDraft) -> Iterator[Problem]:
    known = {host.name for _, host in placed("hosts", draft.hosts)} | draft.hosts_unparsed
    yield from name_rule(path, job.name)
    yield from lane_rules(path, job)
    yield from op_rules(path, job)
    if not job.workers:
        yield Problem(path, "workers", [], "must name at least one host")
    for i, name in enumerate(job.workers):
        if name not in known:
            yield Problem(path, f"workers[{i}]", name, "no host of that name: add it to `hosts`, or name another")
    yield from repeated(((f"{path}.workers", f"[{i}]", name) for i, name in enumerate(job.workers)), "worker")
    yield from port_rules(
        path, job, [(h.name, h.udp_port) for _, h in placed("hosts", draft.hosts) if h.name in job.workers]
    )
    if job.workers:
        yield from quorum_rules(path, job, elsewhere="")
        yield from fewer_rules(path, job, elsewhere="")
    yield from degrade_rules(path, job, elsewhere="")
    yield from hosts_fit(path, job, len(job.workers))
    yield from slot_rules(f"{path}.slots", job)
    if job.thc is not None:
        yield from thc_rules(f"{path}.thc", job.thc, len(job.workers))


def _queues(draft: TopologyDraft) -> Iterator[Problem]:
    ports: dict[str, set[int]] = {}
    for _, host in placed("hosts", draft.hosts):
        ports.setdefault(host.switch, set()).add(host.port)
    for _, link in placed("links", draft.links):
        for switch, port in link.ends:
            ports.setdefault(switch, set()).add(port)
    known = {node.name for _, node in placed("switches", draft.switches)} | draft.switches_unparsed
    for path, at in placed("queues", draft.queues):
        if at.switch not in known:
            yield Problem(path, "switch", at.switch, "no switch of that name: add it to `switches`, or name another")
        elif at.queue.port not in ports.get(at.switch, ()):
            rule = (
                f"no host or link at this port of {at.switch}, which has {sorted(ports.get(at.switch, ()))}: name one"
            )
            yield Problem(path, "port", at.queue.port, rule)
        yield from queue_rules(path, at.queue)
    places = ((path, "port", f"{at.switch} port {at.queue.port}") for path, at in placed("queues", draft.queues))
    yield from repeated(places, "port")


# -- the network ----------------------------------------------------------------------------------------


def _network(topology: Topology) -> Iterator[Problem]:
    circle = _circle(topology)
    if circle:
        yield Problem(
            "", "links", " -> ".join(circle), "go up in a circle: no switch may be above itself; remove one of them"
        )
        return
    start = topology.switches[0].name
    reached = topology.distances(start)
    apart = [node.name for node in topology.switches if node.name not in reached]
    if apart:
        yield Problem("", "links", ", ".join(apart), f"no links lead there from {start}: add some")
    for i, node in enumerate(topology.switches):
        yield from _uppers(f"switches[{i}]", node.name, topology)


def _circle(topology: Topology) -> list[str]:
    """The switches on a circle by name, each directly below the next, ending with the first; empty if there is none."""
    done: set[str] = set()

    def search(way: list[str]) -> list[str]:
        for upper in topology.uppers(way[-1]):
            if upper in way:
                return [*way[way.index(upper) :], upper]
            found = [] if upper in done else search([*way, upper])
            if found:
                return found
        done.add(way[-1])
        return []

    return next((found for node in topology.switches if (found := search([node.name]))), [])


def _uppers(path: str, name: str, topology: Topology) -> Iterator[Problem]:
    uppers = topology.uppers(name)
    if not uppers:
        return
    if len(uppers) not in PARENTS:
        yield Problem(path, "name", name, f"has {len(uppers)} switches above it: must be {either(PARENTS)}, or none")
    middle = [upper for upper in uppers if topology.uppers(upper)]
    if len(uppers) > 1 and middle:
        rule = f"has several switches above it, so they must be at the top, but {middle[0]} is not"
        yield Problem(path, "name", name, rule)
