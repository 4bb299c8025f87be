# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Simulates what options say, with either engine, and returns rows of a study."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from sumwire.lowrank.fusion import Phase

from sumwire_lab.errors import OptionError
from sumwire_lab.options.fields import one_of
from sumwire_lab.options.priority_lanes import MARK_SHARE, LanedOptions
from sumwire_lab.options.recipes import TASKS
from sumwire_lab.options.simulate_options import FLOWS, ORDERS, SimulateOptions
from sumwire_lab.simulate import flows, memory, packets
from sumwire_lab.simulate.costs import COSTS, Costs, costs_of
from sumwire_lab.simulate.native import NONE
from sumwire_lab.simulate.network import Queues
from sumwire_lab.simulate.systems import System, system_of
from sumwire_lab.simulate.workloads import WORKLOADS, Bucket, Workload, buckets, low_rank_buckets, workload_of
from sumwire_lab.study.study import Column

COLUMNS: Final = (
    Column("step_s", "a step", "s"),
    Column("comm_s_per_step", "from a worker's first ready bucket to its last result", "s"),
    Column("exposed_s", "what a step takes longer than its passes", "s"),
    Column("wire_bytes_per_step", "on a worker's link, both directions", "bytes"),
    Column("retransmissions", "packets sent again", kind=int),
    Column("events", "of the engine of packets", kind=int),
    Column("limit", "what decides the longest exchange, by the engine of flows", kind=str),
)
"""What a simulation measures."""
LINE_S: Final = 10.0
"""Between two lines of progress."""
_HEADER_BYTES: Final = 64
# Of a worker's step in the arrays that make workers slow.
_SLOW_BYTES: Final = 24


def check(options: SimulateOptions) -> None:
    """Raise OptionError for a system, a model or costs that nobody knows, or that the engine does not."""
    for name in options.systems:
        system = system_of(name)
        if system.tagged:
            _tagged(options, system)
    one_of(tuple(WORKLOADS)).check("model", options.model)
    one_of(COSTS).check("costs", options.costs)


def rows(options: SimulateOptions, say: Callable[[str], None] = lambda _: None) -> list[dict[str, Any]]:
    """Simulate every system, and return a row for each. ``say``: gets a line every ten seconds. Raises OptionError and
    LabError."""
    systems = [system_of(name) for name in options.systems]
    work = _workload(options)
    count = options.fabric.workers
    memory.check(count, f"steps={options.steps} of slow workers", count * options.steps * _SLOW_BYTES)
    return [{"system": one.name, **_measured(options, one, work, say)} for one in systems]


class _Progress:
    """Says every ten seconds how far a simulation is. The clock decides nothing else."""

    def __init__(self, name: str, say: Callable[[str], None]) -> None:
        self._name, self._say, self._said_at = name, say, time.monotonic()

    def told(self, seconds: float, events: int) -> None:
        """See Network.run."""
        if time.monotonic() - self._said_at >= LINE_S:
            self._said_at = time.monotonic()
            self._say(f"{self._name}: {seconds:.6g} s simulated, {events} events")


def _workload(options: SimulateOptions) -> Workload:
    work = workload_of(options.model, options.batch)
    return work if options.passes_s is None else work.taking(options.passes_s)


def _costs(options: SimulateOptions, system: System) -> Costs:
    found = costs_of(options.costs, system, options.fabric)
    return replace(found, cores=options.cores) if options.cores else found


def _buckets(options: SimulateOptions, work: Workload) -> tuple[Bucket, ...]:
    """DDP's own first bucket is small. The lab tells DDP that all are alike."""
    return buckets(work, options.buffer_mb, options.buffer_mb if options.model in TASKS else None)


def _sent(options: SimulateOptions, system: System, work: Workload) -> list[tuple[Bucket, ...]]:
    """Return the buckets of a step, of each kind of step where they take turns."""
    if system.low_rank is None:
        return [_buckets(options, work)]
    p, q = (low_rank_buckets(work, options.rank, phase) for phase in Phase)
    if system.low_rank == "in turn":
        return [p, q]
    return [tuple(replace(one, ready_s=work.backward_s) for one in (*p, *q))]


def _measured(options: SimulateOptions, system: System, work: Workload, say: Callable[[str], None]) -> dict[str, Any]:
    if system.tagged:
        options = _tagged(options, system)
    if options.engine == FLOWS:
        found = [_by_flows(options, system, work, sent) for sent in _sent(options, system, work)]
    else:
        progress = _Progress(system.name, say)
        found = [_by_packets(options, system, work, sent, progress) for sent in _sent(options, system, work)]
    return {column.name: _both(column, [one[column.name] for one in found]) for column in COLUMNS}


def _tagged(options: SimulateOptions, system: System) -> SimulateOptions:
    """Return the options with what DLCP does where they say nothing: the lab's lanes and marks, priorities in queues,
    and early forward passes. Raises OptionError for engine=flows."""
    if options.engine == FLOWS:
        raise OptionError(f"systems={system.name}: engine=flows knows no lanes; take --engine packets")
    return replace(
        options,
        lanes=LanedOptions().lanes if options.lanes == 1 else options.lanes,
        early_forward=options.steps > 1,
        limited=True,
        order="levels" if options.order == ORDERS[0] else options.order,
        mark_bytes=int(MARK_SHARE * options.fabric.queue_bytes) if options.mark_bytes is None else options.mark_bytes,
    )


def _both(column: Column, values: Sequence[Any]) -> Any:
    """Return a column's value of steps that take turns: the mean, of counts the sum, and the first text."""
    if column.kind is str or None in values:
        return values[0]
    return sum(values) if column.kind is int else math.fsum(values) / len(values)


def _by_flows(options: SimulateOptions, system: System, work: Workload, sent: Sequence[Bucket]) -> dict[str, Any]:
    if options.fabric.loss and system.op is None:
        rule = f"engine=flows does not know what losses do to system={system.name}"
        raise OptionError(f"loss={options.fabric.loss:g}: {rule}; take --engine packets")
    found = flows.step(
        options.fabric, system, work, _costs(options, system), options.slots, sent=sent, seed=options.seed
    )
    slow = packets.slowness(options.slow, options.steps, options.fabric.workers, options.seed)
    steps = found.slowed(slow.max(axis=1))
    return {
        "step_s": float(steps.mean()),
        "comm_s_per_step": found.comm_s,
        "exposed_s": float(steps.mean()) - work.forward_s - work.backward_s,
        "wire_bytes_per_step": found.up_bytes + found.down_bytes,
        "retransmissions": None,
        "events": None,
        "limit": found.limit,
    }


def _by_packets(
    options: SimulateOptions, system: System, work: Workload, sent: Sequence[Bucket], progress: _Progress
) -> dict[str, Any]:
    passes = packets.Passes(
        work.forward_s, work.backward_s, sent,
        packets.slowness(options.slow, options.steps, options.fabric.workers, options.seed), options.lanes,
        options.early_forward,
    )  # fmt: skip
    marks = NONE if options.mark_bytes is None else options.mark_bytes
    queues = Queues(options.order, marks, _HEADER_BYTES if options.trim else 0)
    found = packets.train(
        options.fabric, system, passes, _costs(options, system), steps=options.steps, slots=options.slots,
        seed=options.seed, queues=queues, control=options.control, limited=options.limited,
        background=options.background, told=progress.told,
    )  # fmt: skip
    return {
        "step_s": float(np.mean(found.step_s)),
        "comm_s_per_step": float(np.mean(found.comm_s)),
        "exposed_s": float(np.mean(found.step_s)) - work.forward_s - work.backward_s,
        "wire_bytes_per_step": found.wire_bytes,
        "retransmissions": found.resent,
        "events": found.events,
        "limit": None,
    }
