# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Windows of several workers, a switch's slots and a bad network in one thread, on a clock that only events move.

The slots are written from the protocol's table alone; a chunk's payload is one integer, a sum is a sum.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
from sumwire.errors import SumwireError
from sumwire.transport.congestion import WindowLimit
from sumwire.transport.options import Turn, WindowOptions
from sumwire.transport.retransmission import Budget, RttEstimator, SendKind, allowance
from sumwire.transport.window import NOTHING, Window

ROUNDS = 1 << 32


class Up(NamedTuple):
    """``least`` not None: with FLUSH, which closes from so many contributions on."""

    worker: int
    slot: int
    round: int
    payload: int
    kind: str = "contribute"
    least: int | None = None


class Down(NamedTuple):
    """``contributors``: who is in the sum; ``closed``, ``flagged``: of the slot, or that contributions are missing."""

    kind: str
    slot: int
    round: int
    payload: int = 0
    contributors: frozenset[int] = frozenset()
    closed: bool = False
    flagged: bool = False


@dataclass
class Slot:
    round: int
    total: int = 0
    contributors: frozenset[int] = frozenset()
    closed: bool = False
    flagged: bool = False


@dataclass
class Slots:
    """The switch of one job. ``overwritten`` is told (slot, old round) before a slot is used again."""

    workers: int
    overwritten: Callable[[int, int], None]
    quorum: int
    slots: dict[int, Slot] = field(default_factory=dict)
    # Who was in the sum of (slot, round) when it closed.
    sums: dict[tuple[int, int], frozenset[int]] = field(default_factory=dict)
    results: dict[tuple[int, int], Down] = field(default_factory=dict)

    def receive(self, packet: Up) -> list[tuple[int, Down]]:
        if packet.kind == "probe":
            return [(packet.worker, self.inform(packet))]
        slot = self.slots.get(packet.slot)
        ahead = 1 if slot is None else (packet.round - slot.round) % ROUNDS
        if slot is None or 0 < ahead < ROUNDS // 2:
            if slot is not None:
                self.overwritten(packet.slot, slot.round)
            slot = self.slots[packet.slot] = Slot(packet.round)
        elif ahead:
            return [(packet.worker, Down("stale", packet.slot, slot.round))]
        if slot.closed:
            return [(packet.worker, self.result(packet, slot))]
        if packet.worker in slot.contributors:
            if packet.least is None or len(slot.contributors) < packet.least:
                return []
            assert packet.least > 0, "no partial results are asked for here"
            slot.flagged = True
        else:
            slot.total += packet.payload
            slot.contributors |= {packet.worker}
            if len(slot.contributors) < self.quorum:
                return []
        slot.closed = True
        self.sums[packet.slot, packet.round] = slot.contributors
        self.results[packet.slot, packet.round] = self.result(packet, slot)
        return [(worker, self.result(packet, slot)) for worker in range(self.workers)]

    def inform(self, packet: Up) -> Down:
        slot = self.slots.get(packet.slot)
        ahead = 1 if slot is None else (packet.round - slot.round) % ROUNDS
        if slot is None or 0 < ahead < ROUNDS // 2:
            return Down("inform", packet.slot, packet.round)
        if ahead:
            return Down("stale", packet.slot, slot.round)
        return self.result(packet, slot)._replace(kind="inform", payload=0)

    @staticmethod
    def result(packet: Up, slot: Slot) -> Down:
        return Down("result", packet.slot, slot.round, slot.total, slot.contributors, slot.closed, slot.flagged)


@dataclass(frozen=True)
class Weather:
    """Shares of packets, each way; ``late`` ones arrive up to ``late_s`` seconds after the others."""

    drop: float = 0.0
    duplicate: float = 0.0
    late: float = 0.0
    late_s: float = 3.0
    delay_s: tuple[float, float] = (0.001, 0.02)
    # Packets of one worker, also each way.
    worker_drop: tuple[int, float] | None = None
    # Runs of lost packets: how many runs begin, as a share of packets, and their mean length.
    bursts: float = 0.0
    burst_packets: float = 8.0


@dataclass(frozen=True)
class Terms:
    """How all windows behave: what sumwire.transport.udp makes of a job's delivery. ``quorum`` None: all workers."""

    adaptive: bool = False
    loss_bound: float = 0.0
    probes: bool = True
    quorum: int | None = None
    congestion: bool = False
    paths: int = 1


class Worker:
    """One window and the results it collected; does the exchanges ``lengths`` one after the other."""

    def __init__(self, world: World, number: int, lengths: Sequence[int]) -> None:
        self.world = world
        self.number = number
        self.lengths = list(lengths)
        terms, workers = world.terms, world.switch.workers
        options = WindowOptions(
            adaptive_retries=terms.adaptive,
            probes=terms.probes,
            early_closing=world.loses,
            quorum_below_workers=world.switch.quorum < workers,
            paths=terms.paths,
            turn=Turn(number, workers),
            workers=workers,
        )
        limit = WindowLimit(world.slots_count // 2) if terms.congestion else None
        self.window = Window(world.slots_count, RttEstimator(), job=1, options=options, limit=limit)
        self.results: list[list[int]] = []
        # Of the current exchange, by chunk.
        self.budget: Budget | None = None
        self.flagged: dict[int, bool] = {}
        self.sent_probes = 0
        self.error: SumwireError | None = None
        self.inbox: list[Down] = []
        self.filled_at = 0.0

    @property
    def finished(self) -> bool:
        return self.error is not None or (self.window.done and len(self.results) == len(self.lengths))

    def begin_next(self) -> None:
        while self.window.done and len(self.results) < len(self.lengths):
            chunks = self.lengths[len(self.results)]
            self.results.append([-1] * chunks)
            self.flagged = {}
            terms, workers = self.world.terms, self.world.switch.workers
            first = self.window.base + self.window.chunks
            if terms.loss_bound and self.world.switch.quorum > 1:
                allowed = allowance(terms.loss_bound, chunks, workers, worker=self.number, sequence=first)
                self.budget = Budget(allowed)
            self.window.begin(chunks, self.world.now, filled=min(self.world.part, chunks), budget=self.budget)
        self.work()

    def fill(self) -> None:
        """The payload of the next part is there."""
        self.window.filled = min(self.window.filled + self.world.part, self.window.chunks)
        self.work()

    def work(self) -> None:
        """Send what may go, and ask to be woken."""
        window, now = self.window, self.world.now
        try:
            while (outgoing := window.take(now, self.world.batch)) is not None:
                chunks, kind = outgoing
                assert window.in_flight <= window.slots // 2
                assert kind == SendKind.RECOVER or chunks.max() < window.filled, "the payload is not there yet"
                for chunk in chunks.tolist():
                    self.send(chunk, kind)
            if not window.done and now - window.progress_at >= self.world.deadline_s:
                raise window.deadline_error(now, window.oldest())
        except SumwireError as error:
            self.error = error
            return
        if window.filled < window.chunks and self.filled_at <= now:
            self.filled_at = now + self.world.part_s
            self.world.at(self.filled_at, self.fill)
        if not window.done:
            self.world.at(max(self.wake_at(), now + 1e-6), self.timer)

    def send(self, chunk: int, kind: SendKind) -> None:
        place, world = self.window.place(chunk), self.world
        payload = world.payload(self.number, len(self.results) - 1, chunk)
        if kind == SendKind.RECOVER:
            world.ask_peers(self, self.window.base + chunk, place)
        elif kind == SendKind.PROBE:
            self.sent_probes += 1
            world.send_up(Up(self.number, *place, 0, "probe"))
        else:
            least = world.switch.quorum - 1 if kind == SendKind.FLUSH else None
            world.send_up(Up(self.number, *place, payload, least=least))

    def wake_at(self) -> float:
        return min(self.window.wake_at(), self.window.progress_at + self.world.deadline_s)

    def timer(self) -> None:
        if not self.finished and self.world.now >= self.wake_at():
            self.work()

    def hear(self, packet: Down) -> None:
        """Packets that come within ``collect_s`` of a first are taken in together."""
        if not self.inbox:
            self.world.at(self.world.now + self.world.collect_s, self.listen)
        self.inbox.append(packet)

    def listen(self) -> None:
        packets, self.inbox = self.inbox, []
        if self.error is not None:
            return
        try:
            self.take_in([packet for packet in packets if packet.kind == "result"])
            for packet in packets:
                if packet.kind == "stale":
                    self.window.on_stale(packet.slot, packet.round)
                elif packet.kind == "inform":
                    send = self.number not in packet.contributors or packet.closed
                    self.window.on_inform(packet.slot, packet.round, send=send)
        except SumwireError as error:
            self.error = error
            return
        if self.window.done:
            self.begin_next()
        else:
            self.work()

    def take_in(self, packets: list[Down]) -> None:
        places = np.array([(packet.slot, packet.round) for packet in packets], np.int64).reshape(-1, 2)
        chunks = self.window.find(*places.T)
        for packet, chunk in zip(packets, chunks.tolist(), strict=True):
            if chunk != NOTHING:
                assert self.results[-1][chunk] == -1, f"chunk {chunk} is completed twice"
                self.results[-1][chunk] = packet.payload
                self.flagged[chunk] = packet.flagged
        self.window.complete(chunks[chunks != NOTHING], self.world.now)
        self.window.settle(lambda chunk: self.flagged[chunk])

    def has_result(self, sequence: int) -> bool:
        return self.result(sequence) != -1

    def result(self, sequence: int) -> int:
        """The result of a chunk, by its number in the job, or -1."""
        for length, results in zip(self.lengths, self.results, strict=False):
            if sequence < length:
                return results[sequence]
            sequence -= length
        return -1


class World:
    """Everything; :meth:`run` plays it to its end. The same seed plays the same.

    ``batch``: most chunks of a take. ``collect_s``: how long a worker lets results pile up. ``part``: chunks whose
    payload becomes ready at a time, a part each ``part_s`` seconds.
    """

    def __init__(
        self,
        seed: int,
        *,
        workers: int,
        slots: int,
        lengths: Sequence[int],
        weather: Weather | None = None,
        deadline_s: float = 1000.0,
        skew_s: float = 0.5,
        batch: int = 7,
        collect_s: float = 0.0,
        part: int = 1 << 20,
        part_s: float = 0.01,
        terms: Terms | None = None,
    ) -> None:
        self.rng = random.Random(seed)
        self.now = 0.0
        self.slots_count = slots
        self.deadline_s = deadline_s
        self.batch = batch
        self.collect_s = collect_s
        self.part = part
        self.part_s = part_s
        self.weather = weather or Weather()
        self.terms = terms or Terms()
        self.switch = Slots(workers, self.check_overwrite, self.terms.quorum or workers)
        self.loses = self.terms.loss_bound > 0 or self.switch.quorum < workers
        self.asked = 0
        self.burst_left: dict[str, int] = {}
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.order = 0
        self.packets = 0
        self.lengths = list(lengths)
        self.salt = self.rng.randrange(1 << 30)
        self.filter: Callable[[str, int, Up | Down], bool] = lambda way, worker, packet: True
        self.workers = [Worker(self, number, lengths) for number in range(workers)]
        for worker in self.workers:
            self.at(self.rng.uniform(0, skew_s), worker.begin_next)

    def at(self, time: float, action: Callable[[], None]) -> None:
        self.order += 1
        heapq.heappush(self.events, (time, self.order, action))

    def payload(self, worker: int, exchange: int, chunk: int) -> int:
        return hash((self.salt, worker, exchange, chunk)) % 1_000_003

    def check_overwrite(self, slot: int, old_round: int) -> None:
        """Only a worker that was left out since may lack the result of a slot that is used again."""
        sequence = old_round * self.slots_count + slot
        after = sequence + self.slots_count - self.slots_count // 2
        place = after % self.slots_count, after // self.slots_count % ROUNDS
        for worker in self.workers:
            left_out = self.loses and worker.number not in self.switch.sums[place]
            assert left_out or worker.has_result(sequence), f"worker {worker.number} lacks chunk {sequence}"

    def missing(self) -> list[int]:
        """Contributions that are missing from the sums of each exchange."""
        counts, first = [], 0
        for length in self.lengths:
            places = [(k % self.slots_count, k // self.slots_count) for k in range(first, first + length)]
            counts.append(sum(self.switch.workers - len(self.switch.sums[place]) for place in places))
            first += length
        return counts

    def sums(self) -> list[list[int]]:
        """Golden sums of those who are in them."""
        golden, sequence = [], 0
        for exchange, length in enumerate(self.lengths):
            golden.append([])
            for chunk in range(length):
                inside = self.switch.sums[sequence % self.slots_count, sequence // self.slots_count]
                golden[-1].append(sum(self.payload(worker, exchange, chunk) for worker in inside))
                sequence += 1
        return golden

    def ask_peers(self, worker: Worker, sequence: int, place: tuple[int, int]) -> None:
        """Another worker that has a result gives it; that is a network of its own here, without loss."""
        self.asked += 1
        for other in self.workers:
            if other is not worker and other.has_result(sequence):
                self.at(self.now + 0.01, partial(worker.hear, self.switch.results[place]))
                return

    def send_up(self, packet: Up) -> None:
        if self.filter("up", packet.worker, packet):
            self.carry(packet.worker, "up", lambda: self.arrive(packet))

    def arrive(self, packet: Up) -> None:
        for worker, reply in self.switch.receive(packet):
            if self.filter("down", worker, reply):
                self.carry(worker, "down", partial(self.workers[worker].hear, reply))

    def carry(self, worker: int, way: str, action: Callable[[], None]) -> None:
        w, rng = self.weather, self.rng
        self.packets += 1
        if rng.random() < w.drop or self.in_burst(f"{way}{worker}"):
            return
        if w.worker_drop is not None and worker == w.worker_drop[0] and rng.random() < w.worker_drop[1]:
            return
        for _ in range(2 if rng.random() < w.duplicate else 1):
            late_s = rng.uniform(0, w.late_s) if rng.random() < w.late else 0.0
            self.at(self.now + rng.uniform(*w.delay_s) + late_s, action)

    def in_burst(self, link: str) -> bool:
        """Whether a run of lost packets is under way on a link."""
        if not self.weather.bursts:
            return False
        left = self.burst_left.get(link, 0)
        if not left and self.rng.random() < self.weather.bursts:
            left = 1 + int(self.rng.expovariate(1 / self.weather.burst_packets))
        self.burst_left[link] = max(left - 1, 0)
        return left > 0

    def run(self, until_s: float = 100_000.0) -> None:
        """Play until nothing is left to happen. Fails if a worker neither ends nor waits for anything."""
        while self.events and self.now < until_s:
            self.now, _, action = heapq.heappop(self.events)
            action()
        stuck = [worker.number for worker in self.workers if not worker.finished]
        assert not stuck, f"workers {stuck} hang at {self.now} s"
