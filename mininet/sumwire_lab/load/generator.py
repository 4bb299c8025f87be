# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Load generator: sends the packets of several workers to one switch, as fast as the switch takes them.

One process acts as all workers, so that on a small machine the switch, not the generator, gets the processors. Frames
are made beforehand; numpy writes the rounds of a whole batch of slots, and one system call sends a worker's frames of
the batch, or a train of them. The generator counts the results that reach worker 0 and keeps at most `window` slots
open. Without that limit a switch would drop contributions, and the benchmark would measure rejects and retransmissions
instead of sums.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray
from sumwire.wire.batch import BatchSocket
from sumwire.wire.packets import HEADER_BYTES, WORD_BYTES, Header
from sumwire_protocol import constants as p4

from sumwire_lab.errors import OptionError
from sumwire_lab.load import malformed
from sumwire_lab.load.malformed import Endpoints
from sumwire_lab.network.control_plane import JOB_ID

HEADS_BYTES: Final = p4.ETHERNET_BYTES + p4.IPV4_BYTES + p4.UDP_BYTES
_RECEIVE_FRAMES: Final = 64
_SO_SNDBUFFORCE: Final = 32
_SO_RCVBUFFORCE: Final = 33
_BUFFER_BYTES: Final = 8 << 20
_SOL_PACKET: Final = 263
_PACKET_VNET_HDR: Final = 15
# struct virtio_net_hdr: flags, GSO type, bytes of headers, payload of a packet, where the checksum is summed from and
# where in that it lies.
_TOLD: Final = struct.Struct("=BBHHHH")
_NEEDS_CHECKSUM: Final = 1
_UDP_TRAIN: Final = 5
_MOST_BYTES: Final = 65536 + _TOLD.size


class FrameSender(Protocol):
    """Sends a worker's frames of some slots."""

    def send(self, first: int, last: int) -> None:
        """Send the frames of slots first to last - 1, and wait while there is no room."""

    def close(self) -> None: ...


class ResultReceiver(Protocol):
    """Receives on an interface."""

    def fileno(self) -> int: ...

    def receive(self) -> NDArray[np.uint8] | None:
        """Return the headers of all Sumwire packets that arrived together, one per row; None if there are none."""

    def close(self) -> None: ...


def _packet_socket(interface: str, protocol: int, *, trains: bool) -> socket.socket:
    # Protocol 0 only sends.
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(protocol))
    for option in (_SO_SNDBUFFORCE, _SO_RCVBUFFORCE):
        raw.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
    if trains:
        raw.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
    raw.bind((interface, protocol))
    return raw


class SingleLink:
    """Sends packets one by one: `rows` are whole frames, of which a system call takes `batch`."""

    def __init__(self, interface: str, rows: NDArray[np.uint8], batch: int) -> None:
        self._socket = BatchSocket(_packet_socket(interface, 0, trains=False), row_bytes=HEADS_BYTES, batch=batch)
        self._socket.load(rows, joined=1)
        self._slots = np.arange(len(rows))

    def send(self, first: int, last: int) -> None:
        while first < last:
            try:
                first += self._socket.send(self._slots[first:last])
            except BlockingIOError:
                select.select([], [self._socket], [])

    def close(self) -> None:
        self._socket.close()


class TrainLink:
    """Sends trains of up to `packets` packets: `rows` are UDP payloads, which change between calls."""

    def __init__(self, interface: str, ends: Endpoints, rows: NDArray[np.uint8], packets: int) -> None:
        self._socket = _packet_socket(interface, 0, trains=True)
        self._rows = rows
        self._packets = packets
        size = rows.shape[1]
        self._heads = [head(ends, size, count) for count in range(1, packets + 1)]

    def send(self, first: int, last: int) -> None:
        for begin in range(first, last, self._packets):
            end = min(begin + self._packets, last)
            self._socket.sendmsg([self._heads[end - begin - 1], self._rows[begin:end].data])

    def close(self) -> None:
        self._socket.close()


def head(ends: Endpoints, size: int, count: int) -> bytes:
    """Return the bytes before the payloads of a train, each of `size` bytes: the offload request, and the headers of
    the whole."""
    whole = malformed.ethernet(ends, malformed.ipv4(ends, malformed.udp(bytes(size * count))))[:HEADS_BYTES]
    length = p4.UDP_BYTES + size * count
    addresses = socket.inet_aton(ends.src_ip) + socket.inet_aton(ends.dst_ip)
    pseudo = addresses + struct.pack("!HH", p4.IP_PROTOCOL_UDP, length)
    partial = 0xFFFF & ~malformed.ones_complement(pseudo)
    kind, each = (_UDP_TRAIN, size) if count > 1 else (0, 0)
    told = _TOLD.pack(_NEEDS_CHECKSUM, kind, HEADS_BYTES, each, HEADS_BYTES - p4.UDP_BYTES, p4.UDP_BYTES - 2)
    return told + whole[:-2] + struct.pack("!H", partial)


class SingleResults:
    """Results that arrived one by one."""

    def __init__(self, interface: str) -> None:
        raw = _packet_socket(interface, p4.ETHERTYPE_IPV4, trains=False)
        self._socket = BatchSocket(raw, row_bytes=HEADS_BYTES + HEADER_BYTES, batch=_RECEIVE_FRAMES)

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self) -> NDArray[np.uint8] | None:
        came = self._socket.receive()
        return self._socket.received[:came, HEADS_BYTES:] if came > 0 else None

    def close(self) -> None:
        self._socket.close()


class TrainResults:
    """Results that arrived one frame at a time, mostly as trains."""

    def __init__(self, interface: str) -> None:
        self._socket = _packet_socket(interface, p4.ETHERTYPE_IPV4, trains=True)
        self._socket.setblocking(False)
        self._frame = np.zeros(_MOST_BYTES, np.uint8)

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self) -> NDArray[np.uint8] | None:
        try:
            length = self._socket.recv_into(self._frame.data)
        except BlockingIOError:
            return None
        return rows_of(self._frame, length)

    def close(self) -> None:
        self._socket.close()


def rows_of(frame: NDArray[np.uint8], length: int) -> NDArray[np.uint8]:
    """Return the Sumwire headers in a frame of `length` bytes, one per row. The frame begins with the offload
    information."""
    size = _TOLD.unpack(frame[: _TOLD.size].tobytes())[3]
    begin = _TOLD.size + HEADS_BYTES
    starts = np.arange(begin, length - HEADER_BYTES + 1, size or _MOST_BYTES)
    return frame[starts[:, None] + np.arange(HEADER_BYTES)]


_SLOT_OFFSET: Final = 4
_ROUND_OFFSET: Final = malformed.ROUND_OFFSET - HEADS_BYTES
_RESULT: Final = p4.SUMWIRE_VERSION << 4 | p4.KIND_RESULT
# After so long without a result, something was lost and all open slots are sent again.
_LOST_SECONDS: Final = 0.2


@dataclass(frozen=True)
class LoadSpec:
    """The load to send. Without `listen` the generator waits for no results, to measure itself."""

    interfaces: list[str]
    ends: list[Endpoints]
    op: int
    words: int
    """Words in a contribution of the op."""
    slots: int
    """Slots of the job; a multiple of `batch`."""
    window: int
    """Most slots that are open at a time; at least `batch`."""
    batch: int
    """Slots that are sent together: frames of each worker in one system call, or in trains."""
    seconds: float
    listen: bool
    train: int = 1
    """Packets of a train; 1: frames go one by one."""

    def __post_init__(self) -> None:
        if self.batch < 1 or self.slots % self.batch:
            raise OptionError(f"batch={self.batch}: must be at least 1 and divide the {self.slots} slots")
        if not self.batch <= self.window <= self.slots:
            raise OptionError(f"window={self.window}: must be {self.batch} (a batch) to {self.slots} (all slots)")
        if not 1 <= self.train <= self.batch:
            raise OptionError(f"train={self.train}: must be 1 to {self.batch} (a batch)")


@dataclass
class LoadCount:
    """Counts of packets sent, results received (without repeated ones), and slots sent again."""

    sent: int = 0
    results: int = 0
    resent: int = 0
    seconds: float = 0.0


def templates(spec: LoadSpec) -> NDArray[np.uint8]:
    """Return frames of round 0, uint8 (workers, slots, bytes), with a different payload from each worker."""
    size = spec.words * WORD_BYTES
    payloads = [bytes((37 * k + 11 * worker) % 256 for k in range(size)) for worker in range(len(spec.ends))]

    def one(worker: int, slot: int) -> NDArray[np.uint8]:
        header = Header(p4.KIND_CONTRIBUTE, spec.op, JOB_ID, slot, worker, words=spec.words)
        return np.frombuffer(malformed.frame(spec.ends[worker], header, payloads[worker]), np.uint8)

    return np.stack([np.stack([one(worker, slot) for slot in range(spec.slots)]) for worker in range(len(spec.ends))])


def results_of(headers: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return slots and rounds of the results among these Sumwire headers, one per row."""
    told = headers[headers[:, 0] == _RESULT]

    def field(offset: int, form: str) -> NDArray[np.int64]:
        size = np.dtype(form).itemsize
        return np.ascontiguousarray(told[:, offset : offset + size]).view(form)[:, 0].astype(np.int64)

    return field(_SLOT_OFFSET, ">u2"), field(_ROUND_OFFSET, ">u4")


class OpenSlots:
    """Keeps track of the slots that wait for a result, and of their rounds. Batches take the slots in turn."""

    def __init__(self, slots: int, window: int, batch: int) -> None:
        self._window = window
        self._batch = batch
        self._open = np.zeros(slots, np.bool_)
        self._rounds = np.full(slots, -1, np.int64)
        self._next = 0
        self.count = 0

    def take(self) -> tuple[int, int] | None:
        """Open the next batch and return its first slot and round; None if the window is full."""
        first = self._next
        if self.count + self._batch > self._window or self._open[first : first + self._batch].any():
            return None
        return self.take_blindly()

    def take_blindly(self) -> tuple[int, int]:
        """Open the next batch even if earlier ones have no results yet."""
        part = slice(self._next, self._next + self._batch)
        self._open[part] = True
        self._rounds[part] += 1
        self.count += self._batch
        self._next = part.stop % len(self._open)
        return part.start, int(self._rounds[part.start])

    def close(self, slots: NDArray[np.int64], rounds: NDArray[np.int64]) -> int:
        """Close the slots of these results. Returns how many were open; repeated and late results are not."""
        before = self.count
        inside = slots < len(self._open)
        slots, rounds = slots[inside], rounds[inside]
        self._open[slots[self._rounds[slots] == rounds]] = False
        self.count = int(np.count_nonzero(self._open))
        return before - self.count

    def waiting(self) -> NDArray[np.int64]:
        """Return the open slots."""
        return np.flatnonzero(self._open)


def _links(spec: LoadSpec, rows: NDArray[np.uint8]) -> list[FrameSender]:
    """One for each worker, for its rows of whole frames, or of UDP payloads in trains."""
    if spec.train == 1:
        return [SingleLink(name, mine, spec.batch) for name, mine in zip(spec.interfaces, rows, strict=True)]
    workers = zip(spec.interfaces, spec.ends, rows, strict=True)
    return [TrainLink(name, ends, mine, spec.train) for name, ends, mine in workers]


class Generator:
    """One sending socket per worker, and one on worker 0's interface that receives the results."""

    def __init__(self, spec: LoadSpec) -> None:
        self._spec = spec
        heads = 0 if spec.train == 1 else HEADS_BYTES
        rows = np.ascontiguousarray(templates(spec)[:, :, heads:])
        self._rounds = rows[:, :, malformed.ROUND_OFFSET - heads :][:, :, :4]
        self._links = _links(spec, rows)
        first = spec.interfaces[0]
        self._results: ResultReceiver = SingleResults(first) if spec.train == 1 else TrainResults(first)
        self._open = OpenSlots(spec.slots, spec.window, spec.batch)
        self.count = LoadCount()

    def close(self) -> None:
        for link in self._links:
            link.close()
        self._results.close()

    def run(self) -> LoadCount:
        """Send for the given time. Then, not timed, receive the results of the slots that are still open."""
        step = self._step if self._spec.listen else self._step_blindly
        poll = select.poll()
        poll.register(self._results, select.POLLIN)
        began = time.perf_counter()
        end = began + self._spec.seconds
        while time.perf_counter() < end:
            step(poll)
        self.count.seconds = time.perf_counter() - began
        while self._spec.listen and self._open.count and poll.poll(_LOST_SECONDS * 1000):
            self._take_results()
        return self.count

    def _step_blindly(self, poll: select.poll) -> None:
        self._send_batch(self._open.take_blindly())

    def _step(self, poll: select.poll) -> None:
        """Send a batch if the window has room; else receive results, or wait for one."""
        batch = self._open.take()
        if batch is not None:
            self._send_batch(batch)
        elif not self._take_results() and not poll.poll(_LOST_SECONDS * 1000):
            self._send_again()

    def _send_batch(self, batch: tuple[int, int]) -> None:
        first, round_ = batch
        last = first + self._spec.batch
        self._rounds[:, first:last] = np.frombuffer(round_.to_bytes(4, "big"), np.uint8)
        self._send(first, last)

    def _send(self, first: int, last: int) -> None:
        """Send the frames of all workers for slots first to last - 1."""
        for link in self._links:
            link.send(first, last)
        self.count.sent += (last - first) * len(self._links)

    def _send_again(self) -> None:
        for slot in self._open.waiting().tolist():
            self._send(slot, slot + 1)
            self.count.resent += 1

    def _take_results(self) -> bool:
        """Receive all frames that are there. Returns whether there was any."""
        any_came = False
        while (headers := self._results.receive()) is not None:
            any_came = True
            self.count.results += self._open.close(*results_of(headers))
        return any_came


def generate(spec: LoadSpec) -> LoadCount:
    """Generate the whole load, as the process does."""
    generator = Generator(spec)
    try:
        return generator.run()
    finally:
        generator.close()
