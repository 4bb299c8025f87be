# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Seconds of a training step without single packets: by the rounds of the slot protocol and by shares of links.

Chunks of an exchange pass links and processors one after another, like work on a conveyor. The slowest part decides how
far apart they are (``gap_s``), the sum of all parts when the first one has its result (``first_s``). Chunk K is sent
when the result of chunk K - S/2 is there (docs/protocol.md), so with S slots no more than S/2 chunks pass in
``first_s``. This is exact where a chunk passes each part once. Where it passes a processor twice, the first chunks are
played one by one (:mod:`sumwire_lab.simulate.conveyor`). Where all share cores it is an approximation.

Not modelled: queues of other traffic, which has its max-min fair share of links instead; congestion control; what is
slow only at the beginning.

Example: a star of 1 Gbit/s with links of 1 us, THC. A contribution of 586 bytes takes 4.688 us, a result of 1098 bytes
8.784 us, so ``first_s`` is 15.472 us and ``gap_s`` 8.784 us. With 2 slots, one chunk is under way, and 1000 chunks take
15.472 ms. With 4 slots they take 15.472 us and 999 times 8.784 us, 8.79 ms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
from sumwire.config import SLOTS_MIN
from sumwire.config.jobfile import DEFAULT_SLOTS
from sumwire.transport.retransmission import REORDER_TOLERANCE, RttEstimator

from sumwire_lab.options.fabric import Fabric
from sumwire_lab.options.fields import Rule, at_least
from sumwire_lab.simulate.conveyor import Visit, passed_twice, seconds_of
from sumwire_lab.simulate.costs import Costs
from sumwire_lab.simulate.parts import at_server, at_switches
from sumwire_lab.simulate.plain import Plain, plain_reduce
from sumwire_lab.simulate.shares import Floats, Uses, capacities, fair_rates, flows_between, job_uses
from sumwire_lab.simulate.systems import Packets, System, exchanges_of
from sumwire_lab.simulate.workloads import Bucket, Workload, buckets

WINDOW: Final = "window"
_BYTE: Final = 8


@dataclass(frozen=True)
class Traffic:
    """Other traffic: connections from one worker's host to another. ``bit_s``: the most that all of them send together;
    infinity for as much as they get."""

    source: int
    target: int
    connections: int = 1
    bit_s: float = math.inf


@dataclass(frozen=True)
class Pace:
    """How fast chunks of an exchange pass. ``first_s``: seconds from a chunk's turn to its result where nothing is
    under way. ``gap_s``: seconds between chunks. ``limit``: the part that decides ``gap_s``. ``crossings``: links that
    a chunk's packets cross, each of which can lose it. ``links_s``, ``processors_s``: seconds between chunks for links
    and for processors alone. ``visits``: the parts in order, where they are known."""

    first_s: float
    gap_s: float
    limit: str
    crossings: int
    links_s: float = 0.0
    processors_s: float = 0.0
    visits: tuple[Visit, ...] = ()

    def seconds(self, chunks: int, slots: int) -> float:
        """Return the seconds of an exchange without losses, from the first chunk's turn to the last one's result."""
        window = slots // 2
        if passed_twice(self.visits):
            return seconds_of(self.visits, chunks, window)
        full, rest = divmod(chunks - 1, window)
        if window * self.gap_s >= self.first_s:
            return self.first_s + (chunks - 1) * self.gap_s
        return (full + 1) * self.first_s + rest * self.gap_s

    def seconds_with_losses(self, chunks: int, slots: int, loss: float, random: np.random.Generator) -> float:
        """Return the seconds of an exchange where every link loses this share of packets.

        A lost packet is sent again when later results have overtaken it, after a round trip and three chunks; where
        there are no later ones, by the timer, whose least is that of the library.
        """
        window = slots // 2
        draws = random.random(chunks)
        # The most often that one of the crossings has lost it: 1 - loss**times for each of them.
        lost = -np.expm1(np.log(draws) / self.crossings)
        times = np.maximum(np.ceil(np.log(lost) / math.log(loss)), 1.0) - 1
        overtaken = self.first_s + REORDER_TOLERANCE * self.gap_s
        again = np.full(chunks, overtaken if window > REORDER_TOLERANCE else self._timer_s())
        again[-REORDER_TOLERANCE:] = self._timer_s()
        late = times * again
        # In rounds of a window: chunk K of a round is sent when chunk K of the round before has its result.
        turns = np.arange(window) * self.gap_s
        sent_last, ended = -self.gap_s, np.zeros(window)
        end = 0.0
        for begin in range(0, chunks, window):
            count = min(window, chunks - begin)
            waits = ended[:count] - turns[:count]
            waits[0] = max(waits[0], sent_last + self.gap_s)
            sent = np.maximum.accumulate(waits) + turns[:count]
            sent_last = float(sent[-1])
            ended = sent + self.first_s + late[begin : begin + count]
            end = max(end, float(ended.max()))
        return end

    def _timer_s(self) -> float:
        timer = RttEstimator()
        for _ in range(_SAMPLES):
            timer.sample(self.first_s)
        return timer.timeout_s


# After so many equal round trips their variation is 0.
_SAMPLES: Final = 32


def pace_of(fabric: Fabric, system: System, packets: Packets, costs: Costs, traffic: Sequence[Traffic] = ()) -> Pace:
    """Return the pace of an exchange that all workers of the fabric make over switches or a server."""
    way = (at_server if system.way == "server" else at_switches)(fabric, packets, costs)
    host_s = costs.send_s + costs.receive_s + (costs.coding_s(packets.values) if packets.coded else 0.0)
    processors = {"host": host_s, **way.adders}
    if costs.cores:
        processors["cores"] = (fabric.workers * host_s + way.all_adders_s) / costs.cores
    links = dict(way.links)
    if traffic:
        links["shared link"] = 1 / _shared(fabric, system, packets, traffic)
    link, processor = max(links, key=lambda part: links[part]), max(processors, key=lambda part: processors[part])
    crossings = 2 * (fabric.workers + sum(fabric.nodes(level) for level in range(1, len(fabric.levels))))
    return Pace(
        way.first_s + host_s,
        costs.whole_s(links[link], processors[processor]),
        link if links[link] >= processors[processor] / costs.busy else processor,
        crossings,
        links[link],
        processors[processor],
        () if traffic or costs.cores or (costs.busy, costs.apart) != (1.0, 0.0) else way.visits(packets, costs),
    )


def _shared(fabric: Fabric, system: System, packets: Packets, traffic: Sequence[Traffic]) -> float:
    """Chunks a second, where other traffic has its share of the links."""
    bits = (float(_BYTE * packets.up), float(_BYTE * packets.partial), float(_BYTE * packets.down))
    own = job_uses(fabric, np.arange(fabric.workers), bits, summed=system.way != "server")
    return float(fair_rates(*with_traffic(fabric, own, traffic))[0])


def with_traffic(fabric: Fabric, own: Uses, traffic: Sequence[Traffic]) -> tuple[Floats, Uses, Floats]:
    """Return what `fair_rates` takes for flows and other traffic behind them, whose unit is a bit."""
    ends = [(one.source, one.target) for one in traffic for _ in range(one.connections)]
    sources, targets = np.array(ends, np.int64).reshape(-1, 2).T
    most = [one.bit_s / one.connections for one in traffic for _ in range(one.connections)]
    uses = Uses.joined([own, flows_between(fabric, sources, targets)])
    return capacities(fabric), uses, np.array([math.inf] * own.count + most)


def shared_paces(
    fabric: Fabric, jobs: Sequence[tuple[Sequence[int], System]], traffic: Sequence[Traffic] = ()
) -> Floats:
    """Return the share of its pace that each job has on its links while all send at once, shape (jobs,), 0 to 1.
    ``jobs``: the numbers of its hosts, and a system that switches or a server sum.

    Take a job's step alone, on a fabric of its own size, and give it this share (Step.at_pace).
    """
    uses = []
    for hosts, system in jobs:
        packets = exchanges_of(system, fabric, _LONG)[-1]
        bits = (float(_BYTE * packets.up), float(_BYTE * packets.partial), float(_BYTE * packets.down))
        uses.append(job_uses(fabric, hosts, bits, summed=system.way != "server"))
    alone = [float(fair_rates(capacities(fabric), one)[0]) for one in uses]
    together = fair_rates(*with_traffic(fabric, Uses.joined(uses), traffic))[: len(jobs)]
    shares: Floats = together / np.array(alone)
    return shares


# Values of a tensor that needs more than one round trip.
_LONG: Final = 1 << 24


# -- exchanges and steps --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Exchanged:
    """One tensor's exchange. ``up_bytes``, ``down_bytes``: on a worker's link, headers included, without what is sent
    again. ``limit``: what decided its length."""

    seconds: float
    up_bytes: float
    down_bytes: float
    limit: str


def exchange(
    fabric: Fabric,
    system: System,
    values: int,
    costs: Costs,
    slots: int = DEFAULT_SLOTS,
    *,
    traffic: Sequence[Traffic] = (),
    seed: int = 0,
) -> Exchanged:
    """Return the exchange of a tensor of so many values between all workers of the fabric.

    ``slots`` do not matter to an all-reduce among hosts. ``seed``: of losses. Raises OptionError for fewer than one
    value or fewer than two slots.
    """
    at_least(1).check("values", values)
    at_least(SLOTS_MIN).check("slots", slots)
    if system.op is None:
        others = None if not traffic else lambda own: fair_rates(*with_traffic(fabric, own, traffic))[: own.count]
        return _plainly(plain_reduce(fabric, system, values, costs, others))
    random = np.random.default_rng((seed, values))
    seconds = up = down = 0.0
    linked = worked = 0.0
    limit = ""
    for packets in exchanges_of(system, fabric, values):
        pace = pace_of(fabric, system, packets, costs, traffic)
        if fabric.loss:
            seconds += pace.seconds_with_losses(packets.count, slots, fabric.loss, random)
        else:
            seconds += pace.seconds(packets.count, slots)
        up, down = up + packets.count * packets.up, down + packets.count * packets.down
        seconds += costs.trip_s
        linked, worked = linked + packets.count * pace.links_s, worked + packets.count * pace.processors_s
        limit = WINDOW if slots // 2 * pace.gap_s < pace.first_s and packets.count > slots // 2 else pace.limit
    once = costs.operation_s * (fabric.workers / costs.cores if costs.cores else 1.0)
    seconds += costs.whole_s(linked, worked + once) - costs.whole_s(linked, worked)
    return Exchanged(seconds, up, down, limit)


def _plainly(found: Plain) -> Exchanged:
    return Exchanged(found.seconds, found.up_bytes, found.down_bytes, found.limit)


@dataclass(frozen=True)
class Step:
    """One step of training: passes, and exchanges that begin during the backward pass, one after another.

    ``ready_s``: when each exchange can begin, after the backward pass has begun; ``exchanged``: the exchanges.
    """

    forward_s: float
    backward_s: float
    ready_s: tuple[float, ...]
    exchanged: tuple[Exchanged, ...]

    @cached_property
    def seconds(self) -> float:
        """Seconds of the whole step."""
        return float(self.slowed(np.ones(1))[0])

    @property
    def exposed_s(self) -> float:
        """Seconds that the step takes longer than its passes."""
        return self.seconds - self.forward_s - self.backward_s

    @property
    def exchange_s(self) -> float:
        """Seconds of all exchanges together."""
        return math.fsum(one.seconds for one in self.exchanged)

    @property
    def comm_s(self) -> float:
        """Seconds from the first bucket that is ready to the last result."""
        end, left = 0.0, self.exchange_s
        for ready, one in zip(self.ready_s, self.exchanged, strict=True):
            end, left = max(end, ready + left), left - one.seconds
        return end - self.ready_s[0]

    @property
    def up_bytes(self) -> float:
        """Bytes that a worker sends."""
        return math.fsum(one.up_bytes for one in self.exchanged)

    @property
    def down_bytes(self) -> float:
        """Bytes that a worker gets."""
        return math.fsum(one.down_bytes for one in self.exchanged)

    @property
    def limit(self) -> str:
        """What decides the longest exchange."""
        return max(self.exchanged, key=lambda one: one.seconds).limit

    def at_pace(self, pace: float) -> Step:
        """Return it with exchanges at this share of their pace, as where others use the same links or slots. Raises
        OptionError unless the share is above 0."""
        Rule(lambda share: share > 0, "must be above 0").check("pace", pace)
        return replace(self, exchanged=tuple(replace(one, seconds=one.seconds / pace) for one in self.exchanged))

    def slowed(self, factors: Floats) -> Floats:
        """Return the seconds of steps whose slowest worker computes by these factors longer than the workload says.

        Every exchange needs all workers. A step ends when its last exchange has ended; each begins when its gradients
        are there and the one before has ended. So the step is the longest of: wait for exchange k, then make it and all
        later ones.
        """
        seconds = factors * (self.forward_s + self.backward_s)
        left = self.exchange_s
        for ready, one in zip(self.ready_s, self.exchanged, strict=True):
            seconds = np.maximum(seconds, factors * (self.forward_s + ready) + left)
            left -= one.seconds
        return seconds


def step(
    fabric: Fabric,
    system: System,
    workload: Workload,
    costs: Costs,
    slots: int = DEFAULT_SLOTS,
    *,
    sent: Sequence[Bucket] | None = None,
    traffic: Sequence[Traffic] = (),
    seed: int = 0,
) -> Step:
    """Return a step of a job of all workers of the fabric. ``sent``: its buckets, by default DDP's of the workload.

    Raises OptionError for fewer than two slots.
    """
    sent = buckets(workload) if sent is None else sent
    if system.late:
        sent = (Bucket(sum(one.values for one in sent), workload.backward_s),)
    known: dict[int, Exchanged] = {}
    made = []
    for number, one in enumerate(sent):
        if one.values not in known or fabric.loss:
            known[one.values] = exchange(
                fabric, system, one.values, costs, slots, traffic=traffic, seed=seed * len(sent) + number
            )
        made.append(known[one.values])
    return Step(workload.forward_s, workload.backward_s, tuple(one.ready_s for one in sent), tuple(made))
