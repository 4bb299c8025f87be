# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The tree of a job: the switches that take part, and the workers of each. Pure functions.

Contributions go up from the workers' switches to the root, the lowest switch that is above all of them, which makes the
results. Several switches may be equally low, such as two spines above the same leaves. Then each of them is the root
for a part of the slots.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations
from typing import TypeAlias

from sumwire_controller.model import Config, Host, Job, Parent, SwitchLink, SwitchNode, Topology, WholeJob, Worker


@dataclass(frozen=True, slots=True)
class JobTree:
    """A job's tree, with switches and workers by name.

    `seats[s]` has the workers at switch s in the order of their seats, each with the number of hosts it stands for.
    `parents[s]` are the switches above s; a root has none.
    """

    roots: tuple[str, ...]
    seats: dict[str, dict[str, int]]
    parents: dict[str, tuple[str, ...]]

    def seat(self, switch: str, worker: str) -> int:
        """Return the seat of a host or a lower switch at `switch`."""
        return list(self.seats[switch]).index(worker)


def above(topology: Topology, name: str) -> frozenset[str]:
    """Return the switch and all switches above it, directly or not. The links must not form a circle."""
    return frozenset({name}).union(*(above(topology, upper) for upper in topology.uppers(name)))


def roots_of(topology: Topology, job: Job) -> tuple[str, ...]:
    """Return the lowest switches that are above all of a job's workers; empty if no switch is above all of them."""
    leaves = {topology.host(worker).switch for worker in job.workers}
    common = frozenset.intersection(*(above(topology, leaf) for leaf in leaves))
    higher = {name for switch in common for name in above(topology, switch) if name != switch}
    return tuple(node.name for node in topology.switches if node.name in common - higher)


def job_tree(topology: Topology, job: Job) -> JobTree:
    """Return the tree of a job. The topology must keep the rules of `rules/topology.py`."""
    roots = roots_of(topology, job)
    seats: dict[str, dict[str, int]] = {}
    parents: dict[str, tuple[str, ...]] = {}
    for worker in job.workers:
        child, levels = worker, list(_way_up(topology, topology.host(worker).switch, roots))
        for level, higher in zip(levels, [*levels[1:], ()], strict=True):
            for switch in level:
                held = seats.setdefault(switch, {})
                held[child] = held.get(child, 0) + 1
                parents[switch] = higher
            child = level[0]
    return JobTree(roots, seats, parents)


def _way_up(topology: Topology, leaf: str, roots: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The switches from a leaf up to the roots, level by level. Only the last level may have several switches."""
    level: tuple[str, ...] = (leaf,)
    while True:
        yield level
        if level[0] in roots:
            return
        uppers = topology.uppers(level[0])
        level = roots if set(roots) <= set(uppers) else uppers


NextPorts: TypeAlias = dict[str, dict[str, int]]
"""Switch -> name of another switch -> the port that leads there."""
EntryPorts: TypeAlias = dict[str, dict[str, set[int]]]
"""Switch -> name of another switch -> ports at which frames from there come in."""


def configs_of(topology: Topology) -> tuple[Config, ...]:
    """Return one configuration for each switch, in the order of `topology.switches`.

    The topology must keep the rules of `rules/topology.py`.
    """
    trees = [(job, job_tree(topology, job)) for job in topology.jobs]
    ports = {node.name: next_ports(topology, node.name) for node in topology.switches}
    ports_in = entry_ports(topology, ports)
    return tuple(_config(topology, node, trees, ports, ports_in) for node in topology.switches)


def _config(
    topology: Topology, node: SwitchNode, trees: list[tuple[Job, JobTree]], ports: NextPorts, ports_in: EntryPorts
) -> Config:
    own = [(job, tree) for job, tree in trees if node.name in tree.seats]
    hosts = [_host(host, node.name, ports, ports_in) for host in topology.hosts]
    workers = {worker.name: worker for worker in (*hosts, *_lower(topology, node.name, own))}
    return Config(
        switch=node.switch,
        aggregator=node.aggregator,
        ports=tuple(sorted({port for port, _ in topology.ports(node.name)})),
        workers=tuple(workers.values()),
        jobs=tuple(_job(topology, node.name, job, tree, workers) for job, tree in own),
        queues=tuple(at.queue for at in topology.queues if at.switch == node.name),
    )


def _host(host: Host, switch: str, ports: NextPorts, ports_in: EntryPorts) -> Worker:
    """A host of the network, with the port that leads to it from a switch."""
    if host.switch == switch:
        return Worker(host.name, host.ip, host.mac, host.port, host.udp_port)
    port = ports[switch][host.switch]
    others = ports_in[switch].get(host.switch, set()) - {port}
    return Worker(host.name, host.ip, host.mac, port, host.udp_port, other_ports_in=tuple(sorted(others)))


def next_ports(topology: Topology, switch: str) -> dict[str, int]:
    """Return, by the name of another switch, the port that leads to it over the fewest links.

    Among equally short paths it takes the one over the neighbour that comes first in the topology.
    """
    order = [node.name for node in topology.switches]
    neighbours = sorted(((order.index(name), port) for port, name in topology.ports(switch) if name in order))
    found: dict[str, int] = {}
    for goal in order:
        if goal != switch:
            away = topology.distances(goal)
            found[goal] = next(port for k, port in neighbours if away[order[k]] < away[switch])
    return found


def entry_ports(topology: Topology, ports: NextPorts) -> EntryPorts:
    """Return, for each switch and each other switch, the ports at which frames of the other's hosts come in, whatever
    their destination.

    Usually it is the port that leads to the other switch, but the two directions may use different paths of the same
    length.
    """
    neighbours = {node.name: dict(topology.ports(node.name)) for node in topology.switches}
    arrivals = {name: {there: port for port, there in beside.items()} for name, beside in neighbours.items()}
    found: EntryPorts = {name: {} for name in ports}
    for start, goal in permutations(ports, 2):
        at = start
        while at != goal:
            last, at = at, neighbours[at][ports[at][goal]]
            found[at].setdefault(start, set()).add(arrivals[at][last])
    return found


def _lower(topology: Topology, switch: str, own: list[tuple[Job, JobTree]]) -> list[Worker]:
    """The lower switches that are workers here. Each stands for the largest number of hosts it has in any job."""
    most: dict[str, int] = {}
    for job, tree in own:
        for name, hosts in tree.seats[switch].items():
            if name not in job.workers:
                most[name] = max(hosts, most.get(name, 0))
    found = []
    for name, hosts in most.items():
        aggregator, port = topology.node(name).aggregator, topology.link(name, switch).upper_port
        found.append(Worker(name, aggregator.ip, aggregator.mac, port, stands_for=hosts))
    return found


def _job(topology: Topology, switch: str, job: Job, tree: JobTree, workers: dict[str, Worker]) -> Job:
    """A job as one switch sees it.

    In a tree of several switches each one waits for all its workers: a smaller quorum at one switch would not say how
    many hosts a result contains.
    """
    seats = tree.seats[switch]
    as_they_say = all(workers[name].weight == hosts for name, hosts in seats.items())
    alone = len(tree.seats) == 1
    return replace(
        job,
        workers=tuple(seats),
        quorum=job.quorum if alone else len(seats),
        workers_min=job.workers_min if alone else None,
        whole=None if alone else WholeJob(len(job.workers), job.quorum),
        parents=tuple(_parent(topology, topology.link(switch, upper), tree) for upper in tree.parents[switch]),
        stands_for=() if as_they_say else tuple(seats.values()),
    )


def _parent(topology: Topology, link: SwitchLink, tree: JobTree) -> Parent:
    aggregator = topology.node(link.upper).aggregator
    return Parent(link.lower_port, aggregator.ip, aggregator.mac, tree.seat(link.upper, link.lower))
