# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The tree of a job: which switches take part, and which workers each of them has. Pure.

Contributions go up from the workers' switches to the lowest switch that is above all of them: the root, which makes
the results. Several switches may be equally low, such as two spines above the same leaves. Then each of them is the
root for a part of the slots.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sumwire_controller.model.config import Job
from sumwire_controller.model.topology import Topology


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
        """The seat of a host or a lower switch at `switch`."""
        return list(self.seats[switch]).index(worker)


def above(topology: Topology, name: str) -> frozenset[str]:
    """The switch and all switches above it, directly or not. The links must not form a circle."""
    return frozenset({name}).union(*(above(topology, upper) for upper in topology.uppers(name)))


def roots_of(topology: Topology, job: Job) -> tuple[str, ...]:
    """The lowest switches that are above all of a job's workers; empty if no switch is above all of them."""
    leaves = {topology.host(worker).switch for worker in job.workers}
    common = frozenset.intersection(*(above(topology, leaf) for leaf in leaves))
    higher = {name for switch in common for name in above(topology, switch) if name != switch}
    return tuple(node.name for node in topology.switches if node.name in common - higher)


def job_tree(topology: Topology, job: Job) -> JobTree:
    """The tree of a job. The topology must keep the rules of `rules/topology.py`."""
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
