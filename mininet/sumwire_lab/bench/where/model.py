# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Seconds of one all-reduce, from its bytes, processor time and round trips: the formula of docs/where-it-pays.md.

    seconds = steps x step_s + max(wire, processors) + apart x min(wire, processors)

All of it is arithmetic on numbers; nothing here measures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sumwire_protocol.ops import BY_NAME, ONE_TRIP_CHUNKS

from sumwire_lab.bench.where.grid import wire_s
from sumwire_lab.bench.wire import all_reduce_bytes
from sumwire_lab.options.recipes import BASELINE


@dataclass(frozen=True)
class Traffic:
    """What one all-reduce puts on a worker's link."""

    octets: float
    """In the busier direction, headers included."""
    steps: int
    """Messages that wait for each other."""


@dataclass(frozen=True)
class Costs:
    """What a system costs on one machine and one kind of switch; processor time includes the kernel's."""

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
class Setting:
    """One all-reduce: how many values, over which links, among how many workers on how many cores.

    The cores are those that the workers and the switch share. Each of them is one thread, so more cores than workers
    and one are of no use.
    """

    values: int
    link_mbit: float
    workers: int
    cores: int


def traffic(system: str, values: int, workers: int) -> Traffic:
    """By the wire's format alone: nothing of it is measured."""
    octets = all_reduce_bytes(system, values, workers)
    if system == BASELINE:
        return Traffic(octets, 2 * (workers - 1))
    packets = math.ceil(values / BY_NAME[system].values)
    asks = system != "sign" and packets > ONE_TRIP_CHUNKS
    return Traffic(octets, 2 if asks else 1)


def processors_s(costs: Costs, setting: Setting) -> float:
    """Seconds that the processors need: all work over all cores, but no process faster than its own work."""
    host = costs.operation_s + costs.host_s * setting.values
    switch = costs.switch_s * setting.workers * setting.values
    return max((setting.workers * host + switch) / setting.cores, host, switch) / costs.busy


def seconds(sent: Traffic, costs: Costs, setting: Setting) -> float:
    """Seconds of one all-reduce."""
    # A step's packet crosses two links one after the other. That is left out: the lab's links let two packets through
    # at once where nothing was sent for a while.
    shorter, longer = sorted((wire_s(sent.octets, setting.link_mbit), processors_s(costs, setting)))
    return sent.steps * costs.step_s + longer + costs.apart * shorter
