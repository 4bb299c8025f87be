# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The tree of a job: which switches take part, who is a worker of whom, and where the results are made. Pure.

From each worker's switch the way goes up until all ways have met. Where several switches are directly above all of
them (two spines, say) they share the job's slots, and each is the root of its share.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sumwire_controller.model.config import Job
from sumwire_controller.model.topology import Topology


@dataclass(frozen=True, slots=True)
class JobTree:
    """`seats[s]` are the workers of the job at switch s in the order of their worker numbers, with the hosts each
    stands for; `parents[s]` the switches above s, none for a root.
    """

    roots: tuple[str, ...]
    seats: dict[str, dict[str, int]]
    parents: dict[str, tuple[str, ...]]

    def seat(self, switch: str, worker: str) -> int:
        """The worker number at a switch of a host or a lower switch."""
        return list(self.seats[switch]).index(worker)


def above(topology: Topology, name: str) -> frozenset[str]:
    """The switch and all that are above it, directly or not. The links must have no circle."""
    return frozenset({name}).union(*(above(topology, upper) for upper in topology.uppers(name)))


def roots_of(topology: Topology, job: Job) -> tuple[str, ...]:
    """The lowest switches that are above all of a job's workers; none if the ways up never meet."""
    leaves = {topology.host(worker).switch for worker in job.workers}
    common = frozenset.intersection(*(above(topology, leaf) for leaf in leaves))
    higher = {name for switch in common for name in above(topology, switch) if name != switch}
    return tuple(node.name for node in topology.switches if node.name in common - higher)


def job_tree(topology: Topology, job: Job) -> JobTree:
    """The tree of a job that keeps the rules of `topology_rules.py`."""
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
    """Level by level; only the last may be several switches, the roots."""
    level: tuple[str, ...] = (leaf,)
    while True:
        yield level
        if level[0] in roots:
            return
        uppers = topology.uppers(level[0])
        level = roots if set(roots) <= set(uppers) else uppers
