# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The packet engine's network: the switches, hosts and links of a :class:`sumwire_lab.options.fabric.Fabric`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sumwire_lab.options.fabric import Fabric
from sumwire_lab.options.simulate_options import ORDERS
from sumwire_lab.simulate.costs import Costs
from sumwire_lab.simulate.native import NONE, engine

PS: Final = 1_000_000_000_000
"""Picoseconds of a second."""
UNTIL_S: Final = 1e6
"""No simulation is longer: picoseconds have 64 bits."""
SLICE_EVENTS: Final = 1 << 20
"""Between two looks at Ctrl-C: about a second."""
_ORDERS: Final = {name: number for number, name in enumerate(ORDERS)}
_HOST, _SWITCH = 0, 1
_ALL: Final = 1 << 32
# Bytes of a queue that never fills.
_ENDLESS: Final = NONE - 1
_ROOT: Final = (NONE, 1, 0)
Told = Callable[[float, int], None]
"""Takes simulated seconds and events so far."""
NEVER: Final = (1 << 64) - 1
WORK, MESSAGE, EXCHANGE = 0, 1, 2
"""Kinds of tasks: those of native/tasks.h."""


@dataclass(frozen=True)
class Queues:
    """What the queues of links do. ``mark_bytes``: a packet behind more bytes is marked; ``trim_bytes``: of a packet
    for which there is no room, what is left, 0 if it is lost."""

    order: str = "fifo"
    mark_bytes: int = NONE
    trim_bytes: int = 0


@dataclass(frozen=True)
class HostCosts:
    """Seconds of a host: for a packet sent, for one received, and for each received byte."""

    send_s: float = 0.0
    receive_s: float = 0.0
    byte_s: float = 0.0


class Tasks:
    """What hosts do, as a graph. Tasks are added one by one; each names those that it waits for."""

    def __init__(self) -> None:
        self._tasks: list[tuple[int, int, int]] = []
        self._edges: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._tasks)

    def add(self, kind: int, owner: int, amount: int, after: tuple[int, ...] = ()) -> int:
        """Add a task, and return its number. ``owner``, ``amount``: see native/tasks.h."""
        number = len(self._tasks)
        self._tasks.append((kind, owner, amount))
        self._edges += [(before, number) for before in after]
        return number

    def work(self, seconds: float, after: tuple[int, ...] = (), processor: int = NONE) -> int:
        """Add so many seconds of work."""
        return self.add(WORK, processor, round(min(seconds, 2 * UNTIL_S) * PS), after)

    def arrays(self, dtype: Any) -> tuple[NDArray[Any], NDArray[np.uint32]]:
        """Return the tasks as C has them, and the tasks that follow them."""
        edges = np.array(self._edges, np.uint32).reshape(-1, 2)
        edges = edges[np.argsort(edges[:, 0], kind="stable")]
        tasks = np.zeros(len(self._tasks), dtype)
        for place, name in enumerate(("kind", "owner", "amount")):
            tasks[name] = [task[place] for task in self._tasks]
        tasks["waits"] = np.bincount(edges[:, 1], minlength=len(tasks))
        tasks["nexts"] = np.bincount(edges[:, 0], minlength=len(tasks))
        tasks["next"] = np.concatenate([[0], np.cumsum(tasks["nexts"])[:-1]]) if len(tasks) else 0
        tasks["began"] = tasks["ended"] = np.iinfo(np.uint64).max
        return tasks, np.ascontiguousarray(edges[:, 1])


class Network:
    """A simulated network. Nodes: hosts have the numbers of their workers, then the switches level by level, then a
    server if there is one. ``vary_s``: by how much the delay of a host's sending varies. ``waits``: what a host sends
    in excess waits in its sockets, unmarked and not lost. To be closed."""

    def __init__(
        self,
        fabric: Fabric,
        costs: Costs,
        host: HostCosts,
        queues: Queues = Queues(),
        *,
        seed: int = 1,
        server: bool = False,
        vary_s: float = 0.0,
        waits: bool = False,
    ) -> None:
        self.fabric, self._costs, self._queues = fabric, costs, queues
        self._native = engine()
        self.sim = self._native.sim_new(seed)
        self.tasks = Tasks()
        self._group = self._native.sim_group(self.sim, costs.cores) if costs.cores else NONE
        self.levels = self._numbers()
        self.server = self.levels[-1][-1] + 1 if server else None
        nodes = self.levels[-1][-1] + 1 + server
        for number in range(nodes):
            self._native.sim_node(self.sim, _HOST if number < fabric.workers or number == self.server else _SWITCH)
        self.processors = [self._native.sim_processor(self.sim, self._group) for _ in range(nodes)]
        self._inboxes = [self._inbox(number, host) for number in range(nodes)]
        # By node: the first link towards those above, and the links to those below.
        self.up: dict[int, int] = {}
        self._down: dict[tuple[int, int], int] = {}
        # By worker: its link's two directions.
        self._wires: list[tuple[int, int]] = []
        self._connect(host, vary_s, waits=waits)
        self._set_routes(nodes)

    # -- making it ---------------------------------------------------------------------------------------

    def _numbers(self) -> list[range]:
        fabric, levels, first = self.fabric, [range(self.fabric.workers)], self.fabric.workers
        top = len(fabric.levels)
        for level in range(1, top + 1):
            count = fabric.spines if level == top else fabric.nodes(level)
            levels.append(range(first, first + count))
            first += count
        return levels

    def _link(self, rate: float, node: int, *, waits: bool = False) -> int:
        """A wire's one direction, with the fabric's queue and losses."""
        fabric, queues, inbox = self.fabric, self._queues, self._inboxes[node]
        link: int = self._native.sim_link(
            self.sim,
            round(rate),
            round(fabric.delay_s * PS),
            0,
            node if inbox == NONE else NONE,
            inbox,
            NONE,
            _ENDLESS if waits else fabric.queue_bytes,
            NONE,
            NONE if waits else queues.mark_bytes,
            queues.trim_bytes,
            _ORDERS[queues.order],
            min(round(fabric.loss * _ALL), _ALL - 1),
        )
        return link

    def _through(
        self, processor: int, seconds: float, byte_s: float = 0.0, *, node: int = NONE, then: int = NONE
    ) -> int:
        """A link through a processor."""
        rate = round(8 / byte_s) if byte_s else 0
        link: int = self._native.sim_link(
            self.sim, rate, 0, round(seconds * PS), node, then, processor, _ENDLESS, NONE, NONE, 0, 0, 0
        )
        return link

    def _inbox(self, node: int, host: HostCosts) -> int:
        if node < self.fabric.workers:
            seconds, byte_s = host.receive_s, host.byte_s
        else:
            seconds, byte_s = self._costs.add_s, 0.0
        return self._through(self.processors[node], seconds, byte_s, node=node) if seconds or byte_s else NONE

    def _leaving(self, node: int, wires: range, seconds: float) -> int:
        """The links by which packets leave a node for these wires: through its processor where that takes time."""
        if not seconds:
            return wires[0]
        made = [self._through(self.processors[node], seconds, then=wire) for wire in wires]
        return made[0]

    def _connect(self, host: HostCosts, vary_s: float, *, waits: bool) -> None:
        fabric, top = self.fabric, len(self.fabric.levels)
        for level in range(top):
            rate, ways = fabric.rate(level), fabric.ways(level)
            for index, node in enumerate(self.levels[level]):
                parent = index // fabric.levels[level]
                above = self.levels[level + 1] if level + 1 == top else self.levels[level + 1][parent : parent + 1]
                wires = [self._link(rate, one, waits=waits and level == 0) for one in above[:ways]]
                seconds = host.send_s if level == 0 else self._costs.copy_s
                self.up[node] = self._leaving(node, range(wires[0], wires[0] + ways), seconds)
                if level == 0:
                    self._native.sim_outbox(self.sim, node, self.up[node])
                for one in above[:ways]:
                    wire = self._link(rate, node)
                    self._down[one, node] = self._leaving(one, range(wire, wire + 1), self._costs.copy_s)
                if level == 0:
                    self._wires.append((wires[0], wire))
                    if vary_s:
                        self._native.sim_vary(self.sim, wires[0], round(vary_s * PS))
        if self.server is not None:
            wire = self._link(fabric.server, self.levels[-1][0])
            self.up[self.server] = self._leaving(self.server, range(wire, wire + 1), self._costs.copy_s)
            self._native.sim_outbox(self.sim, self.server, self.up[self.server])
            self._down[self.levels[-1][0], self.server] = self._link(fabric.server, self.server)

    def _set_routes(self, nodes: int) -> None:
        fabric, top = self.fabric, len(self.fabric.levels)
        for level in range(1, top + 1):
            unit, below = fabric.unit(level), fabric.unit(level - 1)
            for index, node in enumerate(self.levels[level]):
                routes = np.tile(np.array([NONE, 1], np.uint32), (nodes, 1))
                if level < top:
                    routes[:] = (self.up[node], fabric.ways(level))
                    if self.server is not None:
                        routes[self.server] = (self.up[node], 1)
                    if fabric.ways(level) > 1:
                        for way, root in enumerate(self.levels[top]):
                            routes[root] = (self.up[node] + way, 1)
                first = 0 if level == top else index * unit
                hosts = range(first, fabric.workers if level == top else min(first + unit, fabric.workers))
                for worker in hosts:
                    child = self.levels[level - 1][worker // below]
                    routes[worker] = (self._down[node, child], 1)
                for lower in range(1, level):
                    for place, target in enumerate(self.levels[lower]):
                        at = place * fabric.unit(lower)
                        if at in hosts:
                            routes[target] = (self._down[node, self.levels[level - 1][at // below]], 1)
                if level == top and self.server is not None:
                    routes[self.server] = (self._down.get((node, self.server), NONE), 1)
                self._native.sim_routes(self.sim, node, routes.ctypes.data)

    # -- what runs on it -----------------------------------------------------------------------------------

    def job(self, slots: int, ops: list[tuple[int, int, int]], exchanges: list[tuple[int, int, int, bool]]) -> int:
        """Add a job. ``ops``: bytes up, partial and down; ``exchanges``: op, chunks, level, and whether round trips are
        samples of the path."""
        sizes, listed = np.array(ops, np.uint32), np.array(exchanges, np.uint32)
        number: int = self._native.sim_job(
            self.sim, slots, len(ops), sizes.ctypes.data, len(exchanges), listed.ctypes.data
        )
        return number

    def workers(self, job: int, *, at_server: bool = False, limited: bool = False) -> list[int]:
        """Give the job slots in all switches, or at the server, and a worker at each host. Returns the workers."""
        fabric, top = self.fabric, len(self.fabric.levels)
        count, spines = fabric.workers, fabric.spines
        made = []
        for worker in range(count):
            seat = worker if at_server else worker % fabric.levels[0]
            above = self.levels[1][0 if top == 1 else worker // fabric.levels[0]]
            if at_server:
                assert self.server is not None
                above = self.server
            made.append(self._native.sim_worker(self.sim, job, worker, above, 1, seat, count, spines > 1, limited))
        if at_server:
            self._tree(job, above, list(enumerate(made)))
            return made
        for level in range(1, top + 1):
            for index, node in enumerate(self.levels[level]):
                size = fabric.levels[level - 1]
                children = self.levels[level - 1] if level == top else self.levels[level - 1][index * size :][:size]
                known = [(one, made[one] if level == 1 else place) for place, one in enumerate(children)]
                if level == top:
                    self._tree(job, node, known)
                    continue
                next_is_top = level + 1 == top
                parent = self.levels[level + 1][0 if next_is_top else index // fabric.levels[level]]
                seat = index if next_is_top else index % fabric.levels[level]
                self._tree(job, node, known, (parent, fabric.ways(level), seat))
        return made

    def _tree(self, job: int, node: int, children: list[tuple[int, int]], above: tuple[int, int, int] = _ROOT) -> None:
        """``above``: the first of the nodes above it, their number, and its seat there."""
        listed = np.array(children, np.uint32)
        self._native.sim_tree(self.sim, job, node, *above, len(children), listed.ctypes.data)

    def flow(self, ends: tuple[int, int], control: int, segment: int, header: int, level: int = 0) -> int:
        """Add a flow of bytes from one host to another (native/flows.h)."""
        source, target = ends
        rate = round(self.fabric.rate_bit_s)
        number: int = self._native.sim_flow(self.sim, source, target, control, segment, header, level, rate)
        return number

    def stream(self, flow: int, bytes_per_s: float, message: int, most: int) -> None:
        """Make a flow cross traffic, in messages of so many bytes, of which ``most`` are under way (native/flows.h)."""
        self._native.sim_stream(self.sim, flow, message, max(round(PS * message / bytes_per_s), 1), most)

    def thread(self) -> int:
        """Add a processor that shares the cores of all."""
        number: int = self._native.sim_processor(self.sim, self._group)
        return number

    def run(self, until_s: float = UNTIL_S, told: Told = lambda _seconds, _events: None) -> bool:
        """Begin, and run until all tasks have ended. Returns whether they have. ``told``: called about once a second.
        Ctrl-C ends it then."""
        tasks, following = self.tasks.arrays(np.dtype(self._native.task))
        self._native.sim_tasks(self.sim, len(tasks), tasks.ctypes.data, len(following), following.ctypes.data)
        self._native.sim_start(self.sim)
        before = 0
        while not self._native.sim_run(self.sim, round(until_s * PS), SLICE_EVENTS):
            totals = self.totals()
            if totals.events - before < SLICE_EVENTS:
                return False
            before = totals.events
            told(totals.now / PS, before)
        return True

    # -- what is read afterwards ---------------------------------------------------------------------------

    def task_times(self) -> NDArray[Any]:
        """Return the tasks with their times in picoseconds; NEVER is the largest number."""
        count = len(self.tasks)
        address = self._native.sim_task_array(self.sim)
        return np.ctypeslib.as_array(ctypes.cast(address, ctypes.POINTER(self._native.task)), (count,)).view(
            np.recarray
        )

    def uplink(self, worker: int) -> Any:
        """Return the counters of a worker's link to its switch."""
        return self._link_at(self._wires[worker][0])

    def downlink(self, worker: int) -> Any:
        """Return the counters of the link from its switch to a worker."""
        return self._link_at(self._wires[worker][1])

    def flow_counts(self, flow: int) -> list[int]:
        """Return a flow's segments sent, those of them sent again, time-outs, loss probes, and bytes received."""
        counts = np.zeros(5, np.uint64)
        self._native.sim_flow_counts(self.sim, flow, counts.ctypes.data)
        return [int(one) for one in counts]

    def _link_at(self, number: int) -> Any:
        return self._at(self._native.sim_link_array(self.sim), self._native.link, number)

    @staticmethod
    def _at(array: int, kind: Any, number: int) -> Any:
        return kind.from_address(array + number * ctypes.sizeof(kind))

    def window(self, worker: int) -> Any:
        """Return a worker's window."""
        return self._native.window.from_address(self._native.sim_window_of(self.sim, worker))

    def totals(self) -> Any:
        """Return the time, that of the next event, the number of events, and the most packets that were under way."""
        totals = self._native.totals()
        self._native.sim_totals(self.sim, totals)
        return totals

    def worked_s(self) -> float:
        """Return the seconds that all processors have worked."""
        array, count = self._native.sim_processor_array(self.sim), self._native.sim_processor_count(self.sim)
        return sum(int(self._at(array, self._native.processor, k).worked) for k in range(count)) / PS

    def close(self) -> None:
        """Free its memory."""
        self._native.sim_free(self.sim)
        self.sim = None
