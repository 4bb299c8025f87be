# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Processes of a job that start, are killed and start again, on one clock that only events move.

Each process runs the library's own code in a thread; one thread runs at a time, and gives way only where the real one
would sleep in its socket. The switch is the golden model. The network delays, loses, duplicates and replays packets, by
a seed. The same seed plays the same.
"""

from __future__ import annotations

import heapq
import math
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from golden import model
from helpers.transport.udp_bridge import configs, golden_switch, host
from numpy.typing import NDArray
from sumwire.config import JobConfig
from sumwire.errors import SumwireError, SwitchLostError
from sumwire.job.handshake import JoinedRun, join
from sumwire.transport.stats import JobStats
from sumwire.transport.udp import Transport
from sumwire.wire.packets import headers, heads
from sumwire_protocol import constants as p4

BUCKET: Final = 7
_BATCH: Final = 64
_ROW_BYTES: Final = 2200
_MOST_CHUNKS: Final = 24


_LOCAL: Final = threading.local()


class KilledError(BaseException):
    """kill -9: nothing of the process runs on."""


class Endless:
    """A time-out policy that waits for everything."""

    def waiting(self, waited_s: float, missing: Any) -> None:
        pass

    def switch_lost(self, error: SwitchLostError) -> None:
        pass


@dataclass(frozen=True)
class Trouble:
    """Shares of packets, each way. ``late`` ones come up to ``late_s`` seconds later, and ``replay`` ones again so."""

    drop: float = 0.0
    duplicate: float = 0.0
    late: float = 0.0
    replay: float = 0.0
    late_s: float = 20.0


class FakeLink:
    """What a transport needs of :class:`sumwire.transport.link.Link`, in the world of the process that opens it."""

    def __init__(self, process: Process, stats: JobStats) -> None:
        self.received = np.zeros((_BATCH, _ROW_BYTES), np.uint8)
        self.records, self.heads = headers(self.received), heads(self.received)
        self.sizes = np.zeros(_BATCH, np.uint32)
        self.last_failure = ""
        # Its datagrams lie in rows: numpy takes them in.
        self.places = None
        self.drained, self.marked = True, False
        self.asked_at = -math.inf
        self._process = process
        self._stats = stats
        self._packets = np.zeros((0, 0), np.uint8)

    def close(self) -> None:
        pass

    def load(self, packets: NDArray[np.uint8], tos: Any, first_slot: int) -> None:
        self._packets = packets

    def send(self, chunks: NDArray[np.int64], train: int) -> int:
        for chunk in chunks:
            self.send_one(self._packets[chunk], None)
        return len(chunks)

    def send_one(self, packet: NDArray[np.uint8], tos: int | None) -> None:
        self._stats.packets_sent += 1
        self._process.world.send_up(self._process.worker, packet.tobytes())

    def receive(self, wanted: int = 0) -> int:
        return self.take_apart() if self.collect(wanted) else 0

    def collect(self, wanted: int = 0) -> int:
        return min(len(self._process.inbox), _BATCH)

    def take_apart(self) -> int:
        inbox = self._process.inbox
        count = min(len(inbox), _BATCH)
        for row, datagram in enumerate(inbox[:count]):
            self.received[row, : len(datagram)] = np.frombuffer(datagram, np.uint8)
            self.sizes[row] = len(datagram)
        del inbox[:count]
        self._stats.packets_received += count
        return count

    def wait(self, milliseconds: int, *, room: bool) -> bool:
        if not self._process.inbox:
            self._process.sleep(milliseconds / 1000)
        return bool(self._process.inbox)


def fake_link(config: JobConfig, stats: JobStats, *, reads_marks: bool) -> FakeLink:
    """The link of the process that is running. Its network has no queues, so it marks nothing."""
    return FakeLink(_LOCAL.process, stats)


class Process:
    """One worker's process, from its start to its end."""

    def __init__(self, world: World, worker: int, number: int) -> None:
        self.world = world
        self.worker = worker
        self.number = number
        self.inbox: list[bytes] = []
        self.run: JoinedRun | None = None
        self.sums = 0
        self.ended = False
        self.error: SumwireError | None = None
        self.failure: BaseException | None = None
        self._asleep = False
        self._naps = 0
        self._killed = False
        self._go = threading.Semaphore(0)
        self._gave_way = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()

    def resume(self) -> None:
        """Let the process run until it sleeps or ends."""
        self._asleep = False
        self._go.release()
        self._gave_way.acquire()

    def kill(self) -> None:
        if not self.ended:
            self._killed = True
            self.resume()
        self._thread.join()

    def hear(self, datagram: bytes) -> None:
        if not self.ended:
            self.inbox.append(datagram)
            if self._asleep:
                self.resume()

    def sleep(self, seconds: float) -> None:
        self._naps += 1
        self.world.at(self.world.now + seconds, partial(self._wake, self._naps))
        self._asleep = True
        self._give_way()

    def _wake(self, nap: int) -> None:
        if self._asleep and nap == self._naps and not self.ended:
            self.resume()

    def _give_way(self) -> None:
        self._gave_way.release()
        self._go.acquire()
        if self._killed:
            raise KilledError

    def _live(self) -> None:
        self._go.acquire()
        _LOCAL.process = self
        try:
            if not self._killed:
                self._work()
        except KilledError:
            pass
        except SumwireError as error:
            self.error = error
        except BaseException as error:  # noqa: BLE001 - raised again by the world, in the test's own thread
            self.failure = error
        self.ended = True
        self._gave_way.release()

    def _work(self) -> None:
        world, config = self.world, self.world.configs[self.worker]
        with Transport(config, clock=lambda: world.now) as transport:
            self.run = join(transport, config, {"settings": 1}, timeout_policy=Endless())
            world.joined(self, self.run)
            while True:
                number = self.sums
                chunks = world.chunks(self.run, number)
                payload = world.payload(self.number, number, chunks)
                results = transport.exchange(p4.OP_SUM32, payload.view(np.uint8).reshape(chunks, 8, 128), BUCKET)
                world.check(self, self.run, number, results.words)
                self.sums += 1
                self.sleep(world.pause_s)


class World:
    """A job's workers and their switch. ``members``: by a run's nonces, which process is which worker."""

    def __init__(self, seed: int, mapping: dict[str, Any], trouble: Trouble) -> None:
        self.rng = random.Random(seed)
        self.now = 0.0
        self.configs: list[JobConfig] = configs(mapping)
        self.mapping = mapping
        self.switch = golden_switch(mapping)
        self.trouble = trouble
        self.processes: dict[int, Process] = {}
        self.members: dict[tuple[int, ...], dict[int, int]] = {}
        # What a process does between two exchanges takes so long.
        self.pause_s = 0.1
        self.started = 0
        self.killed = 0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = 0

    def at(self, time: float, action: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._events, (time, self._order, action))

    # -- processes ---------------------------------------------------------------------------------

    def start(self, worker: int) -> None:
        old = self.processes.get(worker)
        if old is None or old.ended:
            self.started += 1
            self.processes[worker] = Process(self, worker, self.started)
            self.processes[worker].resume()

    def kill(self, worker: int, pause_s: float) -> None:
        process = self.processes.get(worker)
        if process is not None and not process.ended:
            self.killed += 1
            process.kill()
        self.at(self.now + pause_s, partial(self.start, worker))

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()

    def joined(self, process: Process, run: JoinedRun) -> None:
        self.members.setdefault(run.nonces, {})[process.worker] = process.number

    def chunks(self, run: JoinedRun, number: int) -> int:
        return random.Random(f"{run.nonces} {number}").randrange(1, _MOST_CHUNKS)

    def payload(self, process: int, number: int, chunks: int) -> NDArray[Any]:
        values = random.Random(f"{process} {number}").randrange(1 << 20) + np.arange(chunks * 256)
        return values.astype(">i4")

    def check(self, process: Process, run: JoinedRun, number: int, words: NDArray[np.uint8]) -> None:
        """Every sum is that of the processes that are in the run: they all have sent before one gets a result."""
        members = self.members[run.nonces]
        chunks = self.chunks(run, number)
        assert sorted(members) == list(range(len(self.configs)))
        right = sum(self.payload(member, number, chunks).astype(np.int64) for member in members.values())
        got = words.reshape(-1).view(">i4").astype(np.int64)
        assert np.array_equal(got, right), f"process {process.number}, exchange {number}: a wrong sum"

    # -- network -----------------------------------------------------------------------------------

    def send_up(self, worker: int, datagram: bytes) -> None:
        own = self.mapping["addresses"][worker]
        sender = host(own["ip"], 1 + worker, own["udp_port"])
        frame = model.udp_frame(sender, self.switch.aggregator, datagram)
        self._carry(partial(self._arrive, sender.port, frame))

    def _arrive(self, port: int, frame: bytes) -> None:
        self.switch.now = int(self.now * 1e6)
        for out_port, out in self.switch.receive(port, frame):
            self._carry(partial(self._deliver, out_port - 1, out[42:]))

    def _deliver(self, worker: int, datagram: bytes) -> None:
        process = self.processes.get(worker)
        if process is not None:
            process.hear(datagram)

    def _carry(self, action: Callable[[], None]) -> None:
        trouble, rng = self.trouble, self.rng
        if rng.random() < trouble.replay:
            self.at(self.now + rng.uniform(0, trouble.late_s), action)
        if rng.random() < trouble.drop:
            return
        for _ in range(2 if rng.random() < trouble.duplicate else 1):
            late_s = rng.uniform(0, trouble.late_s) if rng.random() < trouble.late else 0.0
            self.at(self.now + rng.uniform(0.001, 0.01) + late_s, action)

    # -- play --------------------------------------------------------------------------------------

    def play(self, until: Callable[[], bool], limit_s: float) -> None:
        """Play until ``until``. A process that ends with an error starts again, as a launcher would do."""
        while not until():
            assert self._events, "nothing is left to happen"
            self.now, _, action = heapq.heappop(self._events)
            assert self.now < limit_s, f"no agreement: {self.describe()}"
            action()
            for worker, process in list(self.processes.items()):
                if process.failure is not None:
                    raise process.failure
                if process.error is not None:
                    process.error = None
                    self.at(self.now + self.rng.uniform(0, 2), partial(self.start, worker))

    def together(self, sums: int) -> bool:
        """Whether all workers are in one run, and have so many sums."""
        processes = list(self.processes.values())
        runs = {process.run for process in processes}
        return (
            len(processes) == len(self.configs)
            and len(runs) == 1
            and not any(process.ended for process in processes)
            and all(process.sums >= sums for process in processes)
        )

    def describe(self) -> str:
        return ", ".join(
            f"worker {worker}: process {one.number}, {one.run and one.run.first_round}, {one.sums} sums, "
            f"ended {one.ended}"
            for worker, one in sorted(self.processes.items())
        )
