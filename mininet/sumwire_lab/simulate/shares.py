# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Max-min fair shares of links: the rates at which nobody can get more without taking from somebody who has less.

A flow uses links in fixed proportions. A TCP connection takes as much of each of its links as of any other. A job that
sums in switches takes U bytes of every worker's link upward for each chunk, and D bytes of every link downward. Flows
are compared by their bits a second on the link that they use most.

Example: links of 10 and 4 Gbit/s. Flow 0 is on the first, flow 1 on both, flow 2 on the second. Flows 1 and 2 share the
second link with 2 Gbit/s each, so flow 0 gets 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sumwire_lab.errors import OptionError
from sumwire_lab.options.fabric import Fabric

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
_NEAR: Final = 1e-12


@dataclass(frozen=True)
class Uses:
    """What flows use, as three arrays of equal length: flow ``flows[e]`` puts ``bits[e]`` on link ``links[e]`` for each
    unit that it sends."""

    flows: Whole
    links: Whole
    bits: Floats

    @staticmethod
    def joined(parts: Sequence[Uses]) -> Uses:
        """Return all flows of the parts. Numbers of flows go on from part to part."""
        firsts = np.cumsum([0, *(part.count for part in parts)])
        return Uses(
            np.concatenate([part.flows + first for part, first in zip(parts, firsts[:-1], strict=True)]),
            np.concatenate([part.links for part in parts]),
            np.concatenate([part.bits for part in parts]),
        )

    @property
    def count(self) -> int:
        """Number of flows."""
        return int(self.flows.max(initial=-1)) + 1


def fair_rates(capacity: ArrayLike, uses: Uses, most: ArrayLike | None = None) -> Floats:
    """Return the units a second of each flow, shape (flows,). ``capacity``: bits a second of each link. ``most``: the
    most units a second that a flow sends, shape (flows,); None for no limit.

    By water filling: all rates rise together until a link is full or a flow has its most; those flows keep their rate,
    and the others rise on. A flow without links and without a limit has the rate infinity.
    """
    capacity = np.asarray(capacity, np.float64)
    count = uses.count if most is None else len(np.asarray(most))
    peak = np.zeros(count)
    np.maximum.at(peak, uses.flows, uses.bits)
    limit = np.full(count, np.inf) if most is None else np.asarray(most, np.float64) * np.where(peak > 0, peak, 1.0)
    # A flow's bits a second on a link, for each bit on the link that it uses most.
    weight = uses.bits / peak[uses.flows]
    level = np.where(peak > 0, np.nan, limit)
    left = capacity.copy()
    entries = np.arange(len(weight))
    while len(entries):
        links, flows = uses.links[entries], uses.flows[entries]
        load = np.bincount(links, weight[entries], minlength=len(capacity))
        used = load > 0
        room = np.full(len(capacity), np.inf)
        room[used] = np.maximum(left[used], 0.0) / load[used]
        waiting = np.unique(flows)
        reached = min(float(room.min()), float(limit[waiting].min()))
        if np.isinf(reached):
            level[waiting] = np.inf
            break
        full = room <= reached * (1 + _NEAR)
        done = np.zeros(count, bool)
        done[flows[full[links]]] = True
        done[waiting[limit[waiting] <= reached * (1 + _NEAR)]] = True
        level[done] = reached
        fixed = done[flows]
        left -= np.bincount(links[fixed], weight[entries[fixed]] * reached, minlength=len(capacity))
        entries = entries[~fixed]
    return level / np.where(peak > 0, peak, 1.0)


# -- links of a fabric ----------------------------------------------------------------------------------


def capacities(fabric: Fabric) -> Floats:
    """Return the bits a second of all links: level by level upward, then level by level downward. A node's links to
    several spines follow one another."""
    up = [np.full(fabric.nodes(level) * fabric.ways(level), fabric.rate(level)) for level in range(len(fabric.levels))]
    return np.concatenate([*up, *up])


def _first(fabric: Fabric, level: int) -> int:
    return sum(fabric.nodes(below) * fabric.ways(below) for below in range(level))


def flows_between(fabric: Fabric, sources: ArrayLike, targets: ArrayLike, bits: float = 1.0) -> Uses:
    """Return flows of messages from each source to its target, both shape (flows,), whose unit has so many bits.

    They take the lowest way, and are spread over all spines. Raises OptionError for a number that is no worker's.
    """
    ends = (np.asarray(sources, np.int64), np.asarray(targets, np.int64))
    for end in ends:
        if end.size and (int(end.min()) < 0 or int(end.max()) >= fabric.workers):
            wrong = int(end.min() if end.min() < 0 else end.max())
            raise OptionError(f"host={wrong}: must be 0 to {fabric.workers - 1}, a worker of the fabric")
    flows: list[Whole] = []
    links: list[Whole] = []
    loads: list[Floats] = []
    downward = _first(fabric, len(fabric.levels))
    for level in range(len(fabric.levels)):
        unit, ways = fabric.unit(level), fabric.ways(level)
        (apart,) = np.nonzero(ends[0] // unit != ends[1] // unit)
        for direction, end in enumerate(ends):
            at = _first(fabric, level) + direction * downward + end[apart] // unit * ways
            for way in range(ways):
                flows.append(apart)
                links.append(at + way)
                loads.append(np.full(len(apart), bits / ways))
    return Uses(np.concatenate(flows), np.concatenate(links), np.concatenate(loads))


def job_uses(fabric: Fabric, hosts: ArrayLike, bits: tuple[float, float, float], *, summed: bool = True) -> Uses:
    """Return one flow: a job of these hosts, whose unit is a chunk. ``bits``: of a host's contribution, of a partial
    result between switches, and of a result.

    The switches sum a chunk on its way up, and the job's tree ends at the lowest switch that has all hosts below it.
    With ``summed=False`` a server at the top sums: a link between switches has the contributions of all hosts below it,
    and as many results. The server's own link is not among the fabric's.
    """
    hosts = np.unique(np.asarray(hosts, np.int64))
    links: list[Whole] = []
    loads: list[Floats] = []
    downward = _first(fabric, len(fabric.levels))
    for level in range(len(fabric.levels)):
        nodes, below = np.unique(hosts // fabric.unit(level), return_counts=True)
        if summed and level > 0 and len(nodes) == 1:
            break
        ways = fabric.ways(level)
        at = (_first(fabric, level) + (nodes * ways)[:, None] + np.arange(ways)).ravel()
        up, down = bits[1 if summed and level else 0], bits[2]
        times = np.ones(len(nodes)) if summed else below.astype(np.float64)
        links += [at, at + downward]
        loads += [np.repeat(times * part / ways, ways) for part in (up, down)]
    joined = np.concatenate(links)
    return Uses(np.zeros(len(joined), np.int64), joined, np.concatenate(loads))
