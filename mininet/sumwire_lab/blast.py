# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Load generator: the packets of several workers at one switch, as fast as it takes them.

Run as `python -m sumwire_lab.blast SPEC.json`. One process plays all workers, so that on a small machine the
switch, not the generator, gets the processors; it only patches the round into frames made beforehand. It counts
the results that reach worker 0 and keeps at most `window` slots open: a switch that is offered more than it takes
would drop contributions, and then be measured on rejects and repeats instead of sums.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from sumwire import _p4 as p4
from sumwire.wire import WORD_BYTES, Header

from sumwire_lab import frames
from sumwire_lab.control import JOB_ID
from sumwire_lab.frames import Endpoints
from sumwire_lab.processes import end_with_parent

_ROUND: Final = struct.Struct("!I")
_KIND_OFFSET: Final = p4.ETHERNET_BYTES + p4.IPV4_BYTES + p4.UDP_BYTES
_SLOT_OFFSET: Final = _KIND_OFFSET + 4
_RESULT: Final = p4.SUMWIRE_VERSION << 4 | p4.KIND_RESULT
_RECEIVE_BYTES: Final = 2048
_ETH_P_IP: Final = p4.ETHERTYPE_IPV4
_SO_RCVBUFFORCE: Final = 33
_BUFFER_BYTES: Final = 8 << 20
# No result for so long: something was lost, all open slots are sent again.
_LOST_SECONDS: Final = 0.2


@dataclass(frozen=True)
class BlastSpec:
    """Who sends where, for how long. `listen` false: send blindly, to measure the generator alone."""

    interfaces: list[str]
    ends: list[Endpoints]
    op: int
    words: int
    """In a contribution of that op."""
    slots: int
    window: int
    seconds: float
    listen: bool
    result: str

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> BlastSpec:
        raw = json.loads(path.read_text())
        raw["ends"] = [Endpoints(**ends) for ends in raw["ends"]]
        return cls(**raw)


@dataclass
class Count:
    """What happened: packets sent, results seen, slots sent again."""

    sent: int = 0
    results: int = 0
    resent: int = 0
    seconds: float = 0.0


def templates(spec: BlastSpec) -> list[list[bytearray]]:
    """Frames by [slot][worker], round 0, with a different payload from each worker."""
    size = spec.words * WORD_BYTES
    payloads = [bytes((37 * k + 11 * worker) % 256 for k in range(size)) for worker in range(len(spec.ends))]

    def one(slot: int, worker: int) -> bytearray:
        header = Header(p4.KIND_CONTRIBUTE, spec.op, JOB_ID, slot, worker, words=spec.words)
        return bytearray(frames.frame(spec.ends[worker], header, payloads[worker]))

    return [[one(slot, worker) for worker in range(len(spec.ends))] for slot in range(spec.slots)]


class Blaster:
    """One socket per worker to send; one more, on worker 0's interface, to see the results."""

    def __init__(self, spec: BlastSpec) -> None:
        self._spec = spec
        self._frames = templates(spec)
        self._links = [socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) for _ in spec.interfaces]
        for link, name in zip(self._links, spec.interfaces, strict=True):
            link.bind((name, 0))
        self._results = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.htons(_ETH_P_IP))
        self._results.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
        self._results.bind((spec.interfaces[0], _ETH_P_IP))
        self._open: set[int] = set()
        self.count = Count()

    def close(self) -> None:
        for link in [*self._links, self._results]:
            link.close()

    def run(self) -> Count:
        """Send until the time is over, then see the open slots out."""
        spec, count = self._spec, self.count
        poll = select.poll()
        poll.register(self._results, select.POLLIN)
        began = time.perf_counter()
        end = began + spec.seconds
        sequence = 0
        while time.perf_counter() < end:
            while len(self._open) < spec.window or not spec.listen:
                self._send(sequence)
                sequence += 1
                if not spec.listen and time.perf_counter() >= end:
                    break
            self._wait(poll, sequence)
        count.seconds = time.perf_counter() - began
        return count

    def _send(self, sequence: int) -> None:
        """One slot's packets of all workers."""
        round_, slot = divmod(sequence, self._spec.slots)
        for link, data in zip(self._links, self._frames[slot], strict=True):
            _ROUND.pack_into(data, frames.ROUND_OFFSET, round_)
            link.send(data)
        self.count.sent += len(self._links)
        self._open.add(sequence)

    def _wait(self, poll: select.poll, sequence: int) -> None:
        """Take all results that are there, or the first that comes; after a while without any, send again."""
        if not self._spec.listen:
            return
        if not poll.poll(_LOST_SECONDS * 1000):
            for lost in sorted(self._open):
                self._send(lost)
                self.count.resent += 1
            return
        while True:
            try:
                data = self._results.recv(_RECEIVE_BYTES)
            except BlockingIOError:
                return
            if len(data) <= _SLOT_OFFSET + 8 or data[_KIND_OFFSET] != _RESULT:
                continue
            slot = int.from_bytes(data[_SLOT_OFFSET : _SLOT_OFFSET + 2], "big")
            round_ = _ROUND.unpack_from(data, frames.ROUND_OFFSET)[0]
            self._open.discard(round_ * self._spec.slots + slot)
            self.count.results += 1


def main(arguments: list[str]) -> None:
    end_with_parent()
    spec = BlastSpec.load(Path(arguments[0]))
    blaster = Blaster(spec)
    try:
        count = blaster.run()
    finally:
        blaster.close()
    Path(spec.result).write_text(json.dumps(asdict(count)))


if __name__ == "__main__":
    main(sys.argv[1:])
