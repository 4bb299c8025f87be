# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Training steps packet by packet: the tasks of all workers on the C engine's network.

A step of a worker is its forward pass, its backward pass bucket by bucket, and the exchange of each bucket. The latter
begins when the bucket is ready and the exchange before it has ended. Systems without a switch send the messages of
their all-reduce over flows instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sumwire.config.jobfile import DEFAULT_SLOTS
from sumwire.systems.cost import TCP_FRAME, TCP_PAYLOAD
from sumwire.systems.formula import wire_s
from sumwire_protocol import constants as p4

from sumwire_lab.errors import LabError, OptionError
from sumwire_lab.options.conditions import BACKGROUND_BUFFER, BACKGROUND_FLOWS
from sumwire_lab.options.fabric import Fabric
from sumwire_lab.options.simulate_options import CONTROLS
from sumwire_lab.simulate import memory
from sumwire_lab.simulate.costs import Costs
from sumwire_lab.simulate.native import LEVELS_MOST, NONE
from sumwire_lab.simulate.network import EXCHANGE, MESSAGE, NEVER, PS, UNTIL_S, HostCosts, Network, Queues, Told
from sumwire_lab.simulate.systems import System, exchanges_of, tcp_frames
from sumwire_lab.simulate.workloads import Bucket

NUMBERS: Final = {name: number for number, name in enumerate(CONTROLS)}
"""Of congestion controls: those of native/flows.h."""
_TCP_HEADERS: Final = TCP_FRAME - TCP_PAYLOAD
# Long work gives way to a host's packets so often, where they share its cores.
_SLICE_S: Final = 0.003
_VARIES_FRAMES: Final = 2.0
_HALVES: Final = 2
_BITS: Final = 8


@dataclass(frozen=True)
class Passes:
    """A worker's passes and buckets. ``slow``: by step and worker, how much longer than these seconds they take.
    ``lanes``: of the job; those of front layers come first, and each has slots of its own. ``early``: a layer's next
    forward pass waits for the results of its own bucket alone."""

    forward_s: float
    backward_s: float
    sent: Sequence[Bucket]
    slow: NDArray[np.float64] | None = None
    lanes: int = 1
    early: bool = False

    def lane(self, bucket: int) -> int:
        """Return the lane of a bucket, by the middle of its values in the model. The last bucket has the front
        layers."""
        behind = sum(one.values for one in self.sent[bucket + 1 :])
        middle = behind + self.sent[bucket].values / 2
        return int(middle * self.lanes / sum(one.values for one in self.sent))


@dataclass(frozen=True)
class Simulated:
    """What a simulation measures. ``step_s``: seconds of each step. ``comm_s``: from a worker's first ready bucket to
    its last result, by step, the mean of the workers. ``wire_bytes``: on a worker's link, both directions, a step.
    ``resent``: packets sent again. ``events``, ``packets``: of the engine, and the most under way at once. ``busy``:
    seconds of all processors over those of the whole."""

    step_s: tuple[float, ...]
    comm_s: tuple[float, ...]
    wire_bytes: float
    resent: int
    events: int
    packets: int
    busy: float


def train(
    fabric: Fabric,
    system: System,
    passes: Passes,
    costs: Costs,
    *,
    steps: int = 1,
    slots: int = DEFAULT_SLOTS,
    seed: int = 1,
    queues: Queues = Queues(),  # noqa: B008 - frozen
    control: str = "cubic",
    limited: bool = False,
    background: float = 0.0,
    told: Told = lambda _seconds, _events: None,
) -> Simulated:
    """Simulate so many steps of all workers of the fabric.

    ``control``: of flows, see NUMBERS. ``limited``: marks and round trips limit windows. ``background``: share of each
    host's link that flows to the next host ask for. ``told``: see Network.run. Raises LabError if a step never ends,
    and OptionError where memory or numbers of chunks have no room for it.
    """
    if system.late:
        whole = Bucket(sum(one.values for one in passes.sent), passes.backward_s, passes.forward_s)
        # One exchange has no front layers.
        passes = replace(passes, sent=(whole,), lanes=1, early=False)
    _check_room(fabric, system, passes, costs, steps=steps, slots=slots)
    host, add_s = _costs_a_packet(fabric, system, costs, passes)
    server = system.way in ("server", "parameter server")
    # Where nothing varies, flows fall into step (Floyd and Jacobson, "On traffic phase effects", 1992).
    vary_s = 0.0 if system.op else _VARIES_FRAMES * wire_s(fabric.mtu, fabric.rate_bit_s / 1e6)
    network = Network(
        fabric,
        replace(costs, add_s=add_s),
        host,
        queues,
        seed=seed,
        server=server,
        vary_s=vary_s,
        waits=bool(system.op),
    )
    try:
        hosts = _Hosts(network, costs)
        reduce = (
            _Slots(hosts, system, slots, passes, limited) if system.op else _Messages(hosts, system, passes, control)
        )
        made = _Training(hosts, passes, reduce, steps)
        # Like all that is not tagged, behind the job's packets where links have levels.
        _add_background(network, background, control, level=LEVELS_MOST - 1 if system.op else 0)
        if not network.run(told=told):
            if network.totals().next != NEVER:
                cure = "give fewer steps, a smaller model, or links that are faster or lose less"
                raise LabError(f"system={system.name}: the training takes more than {UNTIL_S:g} simulated s; {cure}")
            raise LabError(f"system={system.name}: the simulated training never ends; its tasks wait for each other")
        return made.measured()
    finally:
        network.close()


def _flow(network: Network, ends: tuple[int, int], control: str, level: int = 0) -> int:
    """Add a TCP flow, or one of another control, in full frames."""
    header = _TCP_HEADERS + network.fabric.extra_bytes
    return network.flow(ends, NUMBERS[control], _segment(network.fabric), header, level)


def _segment(fabric: Fabric) -> int:
    """Bytes that a full frame carries."""
    return fabric.mtu + p4.ETHERNET_BYTES - _TCP_HEADERS


def _add_background(network: Network, share: float, control: str, level: int) -> None:
    """Add cross traffic as in the lab: flows from each host to the next, which ask for ``share`` (0 to 1) of its
    link."""
    fabric, segment = network.fabric, _segment(network.fabric)
    if not share:
        return
    # Frames fill the link, not the bytes in them.
    frame = segment + _TCP_HEADERS + fabric.extra_bytes
    pace = share * fabric.rate_bit_s / _BITS / BACKGROUND_FLOWS * segment / frame
    for host in range(fabric.workers):
        for _ in range(BACKGROUND_FLOWS):
            flow = _flow(network, (host, (host + 1) % fabric.workers), control, level)
            network.stream(flow, pace, segment, BACKGROUND_BUFFER)


# Chunks of a job are counted in 32 bits.
_CHUNKS_MOST: Final = (1 << 32) - 2


def _check_room(fabric: Fabric, system: System, passes: Passes, costs: Costs, *, steps: int, slots: int) -> None:
    """Raise OptionError where there is no room for all chunks or tasks."""
    count, buckets = fabric.workers, len(passes.sent)
    chunks = 0
    if system.op:
        chunks = sum(one.count for sent in passes.sent for one in exchanges_of(system, fabric, sent.values))
        messages = count * 4
    else:
        messages = count * (2 * _HALVES * (count - 1) if system.way == "ring" else 2 * count.bit_length())
    if chunks * steps > _CHUNKS_MOST:
        rule = f"system={system.name} would send {chunks * steps:.3g} chunks, at most {_CHUNKS_MOST:.3g}"
        raise OptionError(f"steps={steps}: {rule}; give fewer steps, or --engine flows")
    tasks = buckets * (messages * (1 + bool(costs.trip_s)) + 3 * count) + 4 * count
    if costs.cores:
        longest = 1.0 if passes.slow is None else float(passes.slow.max())
        tasks += count * round(longest * (passes.forward_s + passes.backward_s) / _SLICE_S)
    octets = memory.of_network(fabric, slots if system.op else 0) + steps * tasks * memory.TASK_BYTES
    memory.check(count, f"system={system.name} by packets", octets)


def _costs_a_packet(fabric: Fabric, system: System, costs: Costs, passes: Passes) -> tuple[HostCosts, float]:
    """Seconds of hosts, and of what adds packets."""
    if system.op is None:
        values = max(sum(one.values for one in passes.sent), 1)
        share = 2 * (fabric.workers - 1) / fabric.workers if system.way != "parameter server" else 1
        octets = tcp_frames(values * system.value_bytes * share, fabric)
        return HostCosts(byte_s=values * costs.plain_s / octets if octets else 0.0), 0.0
    packets = exchanges_of(system, fabric, max(one.values for one in passes.sent))[-1]
    values = packets.values
    host = HostCosts(costs.send_s + values * costs.encode_s, costs.receive_s + values * costs.decode_s)
    return host, costs.adding_s(values)


class _Hosts:
    """What all hosts do besides packets. With shared cores, each has a thread for its passes and operations."""

    def __init__(self, network: Network, costs: Costs) -> None:
        self.network, self._costs = network, costs
        count = network.fabric.workers
        self._threads = [network.thread() for _ in range(count)] if costs.cores else [NONE] * count

    def work(self, worker: int, seconds: float, after: tuple[int, ...]) -> int:
        """Add work of a host. Long work gives way to other threads, where they share cores."""
        tasks, thread = self.network.tasks, self._threads[worker]
        while thread != NONE and seconds > _SLICE_S:
            after, seconds = (tasks.work(_SLICE_S, after, thread),), seconds - _SLICE_S
        return tasks.work(max(seconds, 0.0), after, thread)

    def begin(self, worker: int, after: tuple[int, ...]) -> tuple[int, ...]:
        """Add what a host does before an operation."""
        return (self.work(worker, self._costs.operation_s, after),) if self._costs.operation_s else after

    def trip(self, after: tuple[int, ...]) -> tuple[int, ...]:
        """Add what a round trip or message takes besides."""
        return (self.network.tasks.work(self._costs.trip_s, after),) if self._costs.trip_s else after


def slowness(sigma: float, steps: int, workers: int, seed: int) -> NDArray[np.float64]:
    """Return how much longer than usual each worker computes, shape (steps, workers): lognormal, 1 in the median."""
    return np.exp(sigma * np.random.default_rng((seed, steps)).standard_normal((steps, workers)))


# -- how a bucket is reduced -------------------------------------------------------------------------------


class _Slots:
    """By the slots of switches or a server."""

    def __init__(self, hosts: _Hosts, system: System, slots: int, passes: Passes, limited: bool) -> None:
        self._hosts, self._listed = hosts, list[list[int]]()
        network = self._network = hosts.network
        ops: dict[tuple[int, int, int], int] = {}
        exchanges: list[tuple[int, int, int, bool]] = []
        self._lanes = [passes.lane(bucket) for bucket in range(len(passes.sent))]
        for bucket, lane in zip(passes.sent, self._lanes, strict=True):
            numbers = []
            for place, packets in enumerate(exchanges_of(system, network.fabric, bucket.values)):
                op = ops.setdefault((packets.up, packets.partial, packets.down), len(ops))
                numbers.append(len(exchanges))
                # The first exchange of an operation waits for slow workers, so it tells nothing of the path.
                exchanges.append((op, packets.count, lane, place > 0))
            self._listed.append(numbers)
        jobs = [network.job(slots // passes.lanes, list(ops), exchanges) for _ in range(passes.lanes)]
        self._workers = [network.workers(job, at_server=system.way == "server", limited=limited) for job in jobs]
        self._before: list[list[tuple[int, ...]]] = [[()] * network.fabric.workers for _ in jobs]

    def add(self, bucket: int, ready: Sequence[int]) -> list[int]:
        """Add the exchange of a bucket, behind those of its lane. ``ready``: by worker, the task after which the bucket
        is there. Returns each worker's last task."""
        lane, ends = self._lanes[bucket], []
        for place, (worker, own, before) in enumerate(zip(self._workers[lane], ready, self._before[lane], strict=True)):
            waits = self._hosts.begin(place, (own, *before))
            for number in self._listed[bucket]:
                waits = self._hosts.trip((self._network.tasks.add(EXCHANGE, worker, number, waits),))
            ends.append(waits[0])
        self._before[lane] = [(end,) for end in ends]
        return ends

    def resent(self) -> int:
        """Return how many packets were sent again."""
        windows = [self._network.window(worker) for lane in self._workers for worker in lane]
        return sum(one.resent_quick + one.resent_timeout for one in windows)


class _Messages:
    """By messages between hosts: a ring, halving-doubling or a parameter server."""

    def __init__(self, hosts: _Hosts, system: System, passes: Passes, control: str) -> None:
        self._hosts, self._system, self._control = hosts, system, control
        network = self._network = hosts.network
        self._sent = passes.sent
        self._flows: dict[tuple[int, int], int] = {}
        self._before: list[tuple[int, ...]] = [()] * network.fabric.workers

    def add(self, bucket: int, ready: Sequence[int]) -> list[int]:
        """See :meth:`_Slots.add`: all-reduces follow one another."""
        octets = round(self._sent[bucket].values * self._system.value_bytes)
        ways = {"ring": self._ring, "halving-doubling": self._halving, "parameter server": self._server}
        waits = [(own, *before) for own, before in zip(ready, self._before, strict=True)]
        ends = ways[self._system.way](octets, [self._hosts.begin(worker, of) for worker, of in enumerate(waits)])
        self._before = [(end,) for end in ends]
        return ends

    def _message(self, source: int, target: int, octets: int, after: tuple[int, ...]) -> int:
        network, key = self._network, (source, target)
        if key not in self._flows:
            self._flows[key] = _flow(network, key, self._control)
        return network.tasks.add(MESSAGE, self._flows[key], max(octets, 1), self._hosts.trip(after))

    def _ring(self, octets: int, after: Sequence[tuple[int, ...]]) -> list[int]:
        """2 (n - 1) steps; in each, a worker sends the part that it got in the step before to the next worker. As gloo
        does, in two halves, of which one travels while the other is added."""
        count = len(after)
        ends: list[tuple[int, ...]] = list(after)
        for _ in range(_HALVES):
            got = list(after)
            for _ in range(2 * (count - 1)):
                sent = [
                    self._message(worker, (worker + 1) % count, octets // count // _HALVES, got[worker])
                    for worker in range(count)
                ]
                got = [(sent[worker - 1],) for worker in range(count)]
            ends = [(*ends[worker], *got[worker]) for worker in range(count)]
        return [self._network.tasks.work(0.0, end) for end in ends]

    def _halving(self, octets: int, after: Sequence[tuple[int, ...]]) -> list[int]:
        """Pairs at distance 1, 2, 4, ... exchange a half, a quarter, ..., and then all of it backward. Workers beyond a
        power of two give theirs to a partner first."""
        count = len(after)
        power = 1 << count.bit_length() - 1
        got = [list(one) for one in after]
        for extra in range(power, count):
            got[extra - power].append(self._message(extra, extra - power, octets, after[extra]))
        rounds = [1 << k for k in range(power.bit_length() - 1)]
        for distance in (*rounds, *rounds[::-1]):
            part = octets // (2 * distance)
            sent = [self._message(w, w ^ distance, part, tuple(got[w])) for w in range(power)]
            for w in range(power):
                got[w] = [sent[w ^ distance], sent[w]]
        for extra in range(power, count):
            got[extra] = [self._message(extra - power, extra, octets, tuple(got[extra - power]))]
        return [self._network.tasks.work(0.0, (*got[w], *after[w])) for w in range(count)]

    def _server(self, octets: int, after: Sequence[tuple[int, ...]]) -> list[int]:
        """All send their values to a server, which sends the sums back when it has all of them."""
        server = self._network.server
        assert server is not None
        there = tuple(self._message(worker, server, octets, before) for worker, before in enumerate(after))
        summed = self._network.tasks.work(0.0, there)
        return [self._message(server, worker, octets, (summed,)) for worker in range(len(after))]

    def resent(self) -> int:
        """Return how many segments were sent again."""
        return sum(self._network.flow_counts(flow)[1] for flow in self._flows.values())


# -- the steps ---------------------------------------------------------------------------------------------


class _Training:
    def __init__(self, hosts: _Hosts, passes: Passes, reduce: _Slots | _Messages, steps: int) -> None:
        self._work, self._passes, self._reduce, self._steps = hosts.work, passes, reduce, steps
        self._network = hosts.network
        self._began: list[list[int]] = []
        self._first: list[list[int]] = []
        self._ended: list[list[int]] = []
        done: list[int] = []
        results: list[list[int]] = []
        for step in range(steps):
            done, results = self._add_step(step, done, results)

    def _add_step(
        self, step: int, done: Sequence[int], results: Sequence[list[int]]
    ) -> tuple[list[int], list[list[int]]]:
        """Add a step of all workers. ``done``: by worker, the task before it; ``results``: by bucket and worker, the
        last tasks of the exchanges before it. Returns the same of this step."""
        network, passes = self._network, self._passes
        count = network.fabric.workers
        slow = np.ones(count) if passes.slow is None else passes.slow[step]
        began, done = self._forward(slow, done, results)
        first: list[int] = []
        made: list[list[int]] = []
        at = 0.0
        for number, bucket in enumerate(passes.sent):
            length, at = bucket.ready_s - at, bucket.ready_s
            done = [self._work(worker, length * slow[worker], (task,)) for worker, task in enumerate(done)]
            first = first or done
            made.append(self._reduce.add(number, done))
        rest = passes.backward_s - at
        done = [self._work(worker, rest * slow[worker], (task,)) for worker, task in enumerate(done)]
        self._began.append(began)
        self._first.append(first)
        self._ended.append([network.tasks.work(0.0, tuple(of[worker] for of in made)) for worker in range(count)])
        return done, made

    def _forward(
        self, slow: NDArray[np.float64], done: Sequence[int], results: Sequence[list[int]]
    ) -> tuple[list[int], list[int]]:
        """Add the forward pass. Returns by worker the task with which it begins, and the one with which it ends."""
        network, passes = self._network, self._passes
        began, ended = [], []
        for worker in range(network.fabric.workers):
            own = tuple(done[worker : worker + 1])
            needed = [of[worker] for of in results]
            begin = network.tasks.work(0.0, own if passes.early else (*own, *needed))
            task = begin
            if passes.early:
                for number in reversed(range(len(passes.sent))):
                    waits = (task, *needed[number : number + 1])
                    task = self._work(worker, passes.sent[number].forward_s * slow[worker], waits)
            else:
                task = self._work(worker, passes.forward_s * slow[worker], (task,))
            began.append(begin)
            ended.append(task)
        return began, ended

    def measured(self) -> Simulated:
        """Read what was measured. A step ends for a worker when the next one begins."""
        times, network = self._network.task_times(), self._network
        began = np.array([[int(times[task].began) for task in step] for step in self._began], np.float64) / PS
        first = np.array([[int(times[task].ended) for task in step] for step in self._first], np.float64) / PS
        ended = np.array([[int(times[task].ended) for task in step] for step in self._ended], np.float64) / PS
        totals = network.totals()
        last = np.vstack([began[1:], np.full(began.shape[1], totals.now / PS)])
        workers = range(network.fabric.workers)
        octets = sum(int(network.uplink(w).bytes) + int(network.downlink(w).bytes) for w in workers)
        return Simulated(
            step_s=tuple((last - began).mean(axis=1).tolist()),
            comm_s=tuple((ended - first).mean(axis=1).tolist()),
            wire_bytes=octets / len(workers) / self._steps,
            resent=self._reduce.resent(),
            events=totals.events,
            packets=totals.most_in_flight,
            busy=network.worked_s() * PS / max(totals.now, 1),
        )
