# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Background traffic of one host: paced TCP flows to the next host, and bursts that all hosts send to one (incast).

One process per host calls :func:`work`. It prints `ready:` once its flows are connected, sends until SIGTERM, and then
returns how much its host has received in how many seconds.
"""

from __future__ import annotations

import selectors
import signal
import socket
import struct
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sumwire_lab.options.conditions import BACKGROUND_BUFFER, BACKGROUND_FLOWS
from sumwire_lab.study.workers import Rank
from sumwire_lab.system.barrier import Participant

PORT: Final = 29600
READY: Final = "ready:"
BURST_SECONDS: Final = 0.5
_SO_MAX_PACING_RATE: Final = 47
_PIECE: Final = 16 << 10
_CONNECT_SECONDS: Final = 20.0


@dataclass(frozen=True)
class TrafficSpec:
    """What one host is told to send, as its process gets it."""

    address: str
    """The host's own address."""
    barrier: str
    """Socket at which the processes of all hosts wait for each other before they connect."""
    peer: str | None = None
    """Address that its flows go to; None: no flows."""
    flow_bytes_per_s: int = 0
    """Pace of each flow."""
    victim: str | None = None
    """Address that its bursts go to; None: no bursts."""
    burst_bytes: int = 0


class TrafficSink:
    """Receives and counts what other hosts send."""

    def __init__(self, address: str) -> None:
        self.received = 0
        self._listener = socket.create_server((address, PORT), backlog=64)
        threading.Thread(target=self._serve, name="sink", daemon=True).start()

    def _serve(self) -> None:
        buffer = bytearray(_PIECE)
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj is self._listener:
                        selector.register(self._listener.accept()[0], selectors.EVENT_READ)
                        continue
                    assert isinstance(key.fileobj, socket.socket)
                    self._take(selector, key.fileobj, buffer)

    def _take(self, selector: selectors.BaseSelector, flow: socket.socket, buffer: bytearray) -> None:
        try:
            count = flow.recv_into(buffer)
        except ConnectionError:
            count = 0
        self.received += count
        if count == 0:
            selector.unregister(flow)
            flow.close()


def connect(peer: str, bytes_per_s: int | None = None) -> socket.socket:
    """Return a TCP connection to a peer's sink, paced by the kernel if a pace is given."""
    flow = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if bytes_per_s is not None:
        flow.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, struct.pack("=Q", bytes_per_s))
    flow.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BACKGROUND_BUFFER)
    flow.settimeout(_CONNECT_SECONDS)
    flow.connect((peer, PORT))
    flow.settimeout(None)
    return flow


def send_for_ever(flow: socket.socket) -> None:
    """Send without a pause until the connection breaks."""
    piece = bytes(_PIECE)
    try:
        while True:
            flow.sendall(piece)
    except OSError:
        flow.close()


def burst_for_ever(flow: socket.socket, size: int) -> None:
    """Send `size` bytes at every full half second. All hosts have the same clock, so they send together."""
    piece, nobody = bytes(size), threading.Event()
    try:
        while True:
            nobody.wait(BURST_SECONDS - time.monotonic() % BURST_SECONDS)
            flow.sendall(piece)
    except OSError:
        flow.close()


def start(spec: TrafficSpec) -> TrafficSink:
    """Connect and start sending, on threads that end with the process."""
    sink = TrafficSink(spec.address)
    barrier = Participant(Path(spec.barrier))
    barrier.wait()
    jobs: list[threading.Thread] = []
    if spec.peer is not None:
        flows = [connect(spec.peer, spec.flow_bytes_per_s) for _ in range(BACKGROUND_FLOWS)]
        jobs += [threading.Thread(target=send_for_ever, args=(flow,), daemon=True) for flow in flows]
    if spec.victim is not None:
        args = (connect(spec.victim), spec.burst_bytes)
        jobs.append(threading.Thread(target=burst_for_ever, args=args, daemon=True))
    barrier.wait()
    for job in jobs:
        job.start()
    return sink


def work(spec: TrafficSpec, rank: Rank) -> dict[str, float]:
    """The process of one host. Its threads, which are in the middle of a call, end with it."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: ended.set())
    sink = start(spec)
    began, before = time.monotonic(), sink.received
    rank.say(f"{READY} traffic of {spec.address}")
    ended.wait()
    return {"received_bytes": sink.received - before, "seconds": time.monotonic() - began}
