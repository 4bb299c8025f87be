# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Other people's traffic, from one host: paced TCP flows to the next host, and bursts that all send to one at once.

Run as `python -m sumwire_lab.load.traffic SPEC.json`, a process per host. It says `ready:` once its flows are
connected,
goes on until SIGTERM and then writes what its host has received and in how many seconds.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import struct
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Final

from sumwire_lab.system.barrier import Participant
from sumwire_lab.system.processes import end_with_parent

PORT: Final = 29600
READY: Final = "ready:"
FLOWS: Final = 8
"""From a host to the next one, all of the same pace."""
BURST_SECONDS: Final = 0.5
_SO_MAX_PACING_RATE: Final = 47
_PIECE: Final = 16 << 10
# A sender's whole stock: a paced flow that fell behind must not make up for it at once.
_SEND_BUFFER: Final = 64 << 10
_CONNECT_SECONDS: Final = 20.0


@dataclass(frozen=True)
class TrafficSpec:
    """One host's part."""

    address: str
    """Its own."""
    barrier: str
    """Socket at which the processes of all hosts wait for each other before they connect."""
    result: str
    peer: str | None = None
    """Who gets its flows; None: no flows."""
    flow_bytes_per_s: int = 0
    """Pace of each flow."""
    victim: str | None = None
    """Who gets its bursts; None: no bursts."""
    burst_bytes: int = 0

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> TrafficSpec:
        return cls(**json.loads(path.read_text()))


class Sink:
    """Takes in whatever others send, and counts it."""

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
    """A flow to a peer's sink, paced by the kernel."""
    flow = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if bytes_per_s is not None:
        flow.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, struct.pack("=Q", bytes_per_s))
    flow.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
    flow.settimeout(_CONNECT_SECONDS)
    flow.connect((peer, PORT))
    flow.settimeout(None)
    return flow


def send_for_ever(flow: socket.socket) -> None:
    """Keep a flow full until the other end, or this process, is gone."""
    piece = bytes(_PIECE)
    try:
        while True:
            flow.sendall(piece)
    except OSError:
        flow.close()


def burst_for_ever(flow: socket.socket, size: int) -> None:
    """Send `size` bytes at every full half second of the machine's clock, which all hosts here share."""
    piece, nobody = bytes(size), threading.Event()
    try:
        while True:
            nobody.wait(BURST_SECONDS - time.monotonic() % BURST_SECONDS)
            flow.sendall(piece)
    except OSError:
        flow.close()


def start(spec: TrafficSpec) -> Sink:
    """Everything under way, on threads that end with the process."""
    sink = Sink(spec.address)
    barrier = Participant(Path(spec.barrier))
    barrier.wait()
    jobs: list[threading.Thread] = []
    if spec.peer is not None:
        flows = [connect(spec.peer, spec.flow_bytes_per_s) for _ in range(FLOWS)]
        jobs += [threading.Thread(target=send_for_ever, args=(flow,), daemon=True) for flow in flows]
    if spec.victim is not None:
        args = (connect(spec.victim), spec.burst_bytes)
        jobs.append(threading.Thread(target=burst_for_ever, args=args, daemon=True))
    barrier.wait()
    for job in jobs:
        job.start()
    return sink


def main(arguments: list[str]) -> None:
    end_with_parent()
    ended = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    signal.signal(signal.SIGTERM, end)
    spec = TrafficSpec.load(Path(arguments[0]))
    sink = start(spec)
    began, before = time.monotonic(), sink.received
    sys.stdout.write(f"{READY} traffic of {spec.address}\n")
    sys.stdout.flush()
    ended.wait()
    record = {"received_bytes": sink.received - before, "seconds": time.monotonic() - began}
    Path(spec.result).write_text(json.dumps(record))
    sys.stdout.flush()
    # The flows' threads are in the middle of a call and need not be asked.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
