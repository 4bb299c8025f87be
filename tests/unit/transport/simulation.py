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
from sumwire.rtt import RttEstimator
from sumwire.window import NOTHING, Window

ROUNDS = 1 << 32


class Up(NamedTuple):
    worker: int
    slot: int
    round: int
    payload: int


class Down(NamedTuple):
    kind: str
    slot: int
    round: int
    payload: int = 0


@dataclass
class Slot:
    round: int
    total: int = 0
    contributors: frozenset[int] = frozenset()


@dataclass
class Slots:
    """The switch of one job with a quorum of all workers. ``overwritten`` is told (slot, old round) before a slot
    is used again."""

    workers: int
    overwritten: Callable[[int, int], None]
    slots: dict[int, Slot] = field(default_factory=dict)

    def receive(self, packet: Up) -> list[tuple[int, Down]]:
        slot = self.slots.get(packet.slot)
        ahead = 1 if slot is None else (packet.round - slot.round) % ROUNDS
        if slot is None or 0 < ahead < ROUNDS // 2:
            if slot is not None:
                self.overwritten(packet.slot, slot.round)
            slot = self.slots[packet.slot] = Slot(packet.round)
        elif ahead:
            return [(packet.worker, Down("stale", packet.slot, slot.round))]
        result = Down("result", packet.slot, slot.round, slot.total)
        if len(slot.contributors) == self.workers:
            return [(packet.worker, result)]
        if packet.worker in slot.contributors:
            return []
        slot.total += packet.payload
        slot.contributors |= {packet.worker}
        if len(slot.contributors) < self.workers:
            return []
        return [(worker, result._replace(payload=slot.total)) for worker in range(self.workers)]


@dataclass(frozen=True)
class Weather:
    """Shares of packets, each way; ``late`` ones arrive up to ``late_s`` seconds after the others."""

    drop: float = 0.0
    duplicate: float = 0.0
    late: float = 0.0
    late_s: float = 3.0
    delay_s: tuple[float, float] = (0.001, 0.02)


class Worker:
    """One window and the results it collected; does the exchanges ``lengths`` one after the other."""

    def __init__(self, world: World, number: int, lengths: Sequence[int]) -> None:
        self.world = world
        self.number = number
        self.lengths = list(lengths)
        self.window = Window(world.slots_count, RttEstimator(), job=1, deadline_s=world.deadline_s)
        self.results: list[list[int]] = []
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
            self.window.begin(chunks, self.world.now, filled=min(self.world.part, chunks))
        self.work()

    def fill(self) -> None:
        """The payload of the next part is there."""
        self.window.filled = min(self.window.filled + self.world.part, self.window.chunks)
        self.work()

    def work(self) -> None:
        """Send what may go, and ask to be woken."""
        window, now = self.window, self.world.now
        try:
            while len(chunks := window.take(now, self.world.batch)):
                assert window.in_flight <= window.slots // 2
                assert chunks.max() < window.filled, "the payload is not there yet"
                for chunk in chunks.tolist():
                    payload = self.world.payload(self.number, len(self.results) - 1, chunk)
                    self.world.send_up(Up(self.number, *window.place(chunk), payload))
            window.check_deadline(now)
        except SumwireError as error:
            self.error = error
            return
        if window.filled < window.chunks and self.filled_at <= now:
            self.filled_at = now + self.world.part_s
            self.world.at(self.filled_at, self.fill)
        if not window.done:
            self.world.at(max(window.wake_at(), now + 1e-6), self.timer)

    def timer(self) -> None:
        if not self.finished and self.world.now >= self.window.wake_at():
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
        self.window.complete(chunks[chunks != NOTHING], self.world.now)

    def has_result(self, sequence: int) -> bool:
        for length, results in zip(self.lengths, self.results, strict=False):
            if sequence < length:
                return results[sequence] != -1
            sequence -= length
        return False


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
        self.switch = Slots(workers, self.check_overwrite)
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

    def golden(self) -> list[list[int]]:
        return [
            [sum(self.payload(w, exchange, chunk) for w in range(len(self.workers))) for chunk in range(length)]
            for exchange, length in enumerate(self.lengths)
        ]

    def check_overwrite(self, slot: int, old_round: int) -> None:
        sequence = old_round * self.slots_count + slot
        for worker in self.workers:
            assert worker.has_result(sequence), f"slot {slot} is reused, worker {worker.number} lacks chunk {sequence}"

    def send_up(self, packet: Up) -> None:
        if self.filter("up", packet.worker, packet):
            self.carry(lambda: self.arrive(packet))

    def arrive(self, packet: Up) -> None:
        for worker, reply in self.switch.receive(packet):
            if self.filter("down", worker, reply):
                self.carry(partial(self.workers[worker].hear, reply))

    def carry(self, action: Callable[[], None]) -> None:
        w, rng = self.weather, self.rng
        self.packets += 1
        if rng.random() < w.drop:
            return
        for _ in range(2 if rng.random() < w.duplicate else 1):
            late_s = rng.uniform(0, w.late_s) if rng.random() < w.late else 0.0
            self.at(self.now + rng.uniform(*w.delay_s) + late_s, action)

    def run(self, until_s: float = 100_000.0) -> None:
        """Play until nothing is left to happen. Fails if a worker neither ends nor waits for anything."""
        while self.events and self.now < until_s:
            self.now, _, action = heapq.heappop(self.events)
            action()
        stuck = [worker.number for worker in self.workers if not worker.finished]
        assert not stuck, f"workers {stuck} hang at {self.now} s"
