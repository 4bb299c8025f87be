# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Seconds of one all-reduce, from its bytes, processor time and round trips: the formula of docs/where-it-pays.md.

    seconds = steps x step_s + max(wire, processors) + apart x min(wire, processors)

The module only computes. `sumwire pays` and the lab's `bench where` supply the numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from sumwire_protocol.ops import ONE_TRIP_CHUNKS


@dataclass(frozen=True)
class WireTraffic:
    """Bytes that one all-reduce puts on a worker's link."""

    octets: float
    """In the busier direction, headers included."""
    steps: int
    """Messages that wait for each other."""


@dataclass(frozen=True)
class Costs:
    """The cost of a system on one machine and one kind of switch. Processor time includes the kernel's."""

    host_s: float
    """CPU seconds of a host per value."""
    switch_s: float
    """CPU seconds of the switch per value and worker."""
    operation_s: float
    """CPU seconds of a host per all-reduce, however small."""
    step_s: float
    """Seconds of one step that neither bytes nor processor time explain: waking up, and the way there."""
    busy: float
    """Share of the cores' time that is used where they are the limit; above 1 where one process uses several cores."""
    apart: float
    """Share of the shorter of wire and processors that is not hidden behind the longer, 0 to 1."""


@dataclass(frozen=True)
class OneAllReduce:
    """One all-reduce: the number of values, the links, the workers, and the cores.

    The cores are shared by the workers and the switch. Each of these is one thread, so more cores than workers + 1 do
    not help.
    """

    values: float
    link_mbit: float
    workers: int
    cores: int


def ring_steps(workers: int) -> int:
    """Return how many messages of a ring all-reduce follow one after another."""
    return 2 * (workers - 1)


def round_trips(packets: float, *, asks: bool) -> int:
    """Return the round trips of an all-reduce over a switch. ``asks``: the workers agree on norms or exponents, in the
    same round trip for few packets, and before them for many."""
    return 2 if asks and packets > ONE_TRIP_CHUNKS else 1


def wire_s(octets: float, link_mbit: float) -> float:
    """Return the seconds that a link needs for ``octets`` bytes."""
    return 8 * octets / (link_mbit * 1e6)


def processors_s(costs: Costs, setting: OneAllReduce) -> float:
    """Return the seconds that the processors need: all work divided by all cores, but at least the work of the busiest
    process."""
    host = costs.operation_s + costs.host_s * setting.values
    switch = costs.switch_s * setting.workers * setting.values
    return max((setting.workers * host + switch) / setting.cores, host, switch) / costs.busy


def seconds(sent: WireTraffic, costs: Costs, setting: OneAllReduce) -> float:
    """Return the seconds of one all-reduce."""
    # A step's packet crosses two links one after the other. That is left out: the lab's links let two packets through
    # at once where nothing was sent for a while.
    shorter, longer = sorted((wire_s(sent.octets, setting.link_mbit), processors_s(costs, setting)))
    return sent.steps * costs.step_s + longer + costs.apart * shorter
