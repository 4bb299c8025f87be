# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sends what others may not send, until SIGTERM: `python -m sumwire_lab.faults.forge HOW SPEC.json`.

HOW is `neighbour` (root on a host of another job: recorded frames with headers changed, under any name), `user` (a
program without rights on a worker's host: recorded packets, changed, from ports of its own), `replay` (frames of an
earlier run as they were), or `flood` (the same without a pause). It then writes how many frames and bytes it has
sent in how many seconds.
"""

from __future__ import annotations

import json
import random
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Final

from sumwire_protocol import constants as p4
from sumwire_protocol import privileges

from sumwire_lab.faults.replay import frames_of
from sumwire_lab.load.frames import ones_complement
from sumwire_lab.system.processes import end_with_parent

_HEADERS: Final = p4.ETHERNET_BYTES + p4.IPV4_BYTES + p4.UDP_BYTES
_IP: Final = p4.ETHERNET_BYTES
# Packets between two pauses.
_BATCH: Final = 20
_SOCKETS: Final = 8
_CHANGED: Final = 0.8


@dataclass(frozen=True)
class ForgeSpec:
    """`addresses`: MAC and IPv4, as text, of the attacker itself, the aggregator, and the workers, in this order."""

    interface: str
    recordings: list[str]
    addresses: list[tuple[str, str]]
    per_second: float
    seed: int
    result: str

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> ForgeSpec:
        return cls(**json.loads(path.read_text()))


class _StoppedError(Exception):
    """SIGTERM has come."""


def changed(frame: bytes, addresses: Sequence[tuple[str, str]], draw: random.Random) -> bytes:
    """A recorded frame under another name, to the aggregator or a worker, with some of its header's bits changed."""
    new = bytearray(frame)
    (source_mac, source_ip), (mac, ip) = draw.choice(addresses), draw.choice(addresses[1:])
    new[0:6], new[6:12] = _mac(mac), _mac(draw.choice((source_mac, addresses[0][0])))
    new[_IP + 12 : _IP + 20] = socket.inet_aton(source_ip) + socket.inet_aton(ip)
    if draw.random() < _CHANGED:
        _change(new, _IP, draw)
    new[_IP + 10 : _IP + 12] = bytes(2)
    new[_IP + 10 : _IP + 12] = struct.pack("!H", ones_complement(bytes(new[_IP : _IP + p4.IPV4_BYTES])))
    return bytes(new)


def _change(packet: bytearray, first: int, draw: random.Random) -> None:
    """Set one to three bytes of the headers from `first` on to something else."""
    last = min(len(packet), first + p4.IPV4_BYTES + p4.UDP_BYTES + p4.SUMWIRE_BYTES)
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(first, last)
        packet[at] = draw.choice((0, 1, 0x7F, 0xFF, packet[at] ^ 1 << draw.randrange(8), draw.randrange(256)))


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def _neighbour(spec: ForgeSpec, frames: list[bytes], draw: random.Random) -> Callable[[], int]:
    link = _raw(spec.interface)
    return lambda: link.send(changed(draw.choice(frames), spec.addresses, draw))


def _replay(spec: ForgeSpec, frames: list[bytes], draw: random.Random) -> Callable[[], int]:
    link = _raw(spec.interface)
    return lambda: link.send(draw.choice(frames))


def _user(spec: ForgeSpec, frames: list[bytes], draw: random.Random) -> Callable[[], int]:
    privileges.become(privileges.account_of("nobody"))
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(_SOCKETS)]

    def send() -> int:
        payload = bytearray(draw.choice(frames)[_HEADERS:])
        if draw.random() < _CHANGED:
            _change(payload, 0, draw)
        # A host that answers that nobody listens: the next one.
        with suppress(ConnectionError):
            return draw.choice(sockets).sendto(payload, (draw.choice(spec.addresses[1:])[1], p4.SUMWIRE_PORT))
        return 0

    return send


def _raw(interface: str) -> socket.socket:
    link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    link.bind((interface, 0))
    return link


_WAYS: Final = {"neighbour": _neighbour, "user": _user, "replay": _replay, "flood": _replay}


def main(arguments: list[str]) -> None:
    end_with_parent()
    how, spec = arguments[0], ForgeSpec.load(Path(arguments[1]))
    draw, nothing = random.Random(spec.seed), select.poll()
    frames = [frame for recording in spec.recordings for frame in frames_of(Path(recording))]
    sent = octets = 0
    pause_ms = 0.0 if how == "flood" else 1000 * _BATCH / spec.per_second

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise _StoppedError

    with Path(spec.result).open("w") as result:
        send = _WAYS[how](spec, frames, draw)
        signal.signal(signal.SIGTERM, stop)
        began = time.monotonic()
        try:
            while True:
                for _ in range(_BATCH):
                    octets += send()
                    sent += 1
                if pause_ms:
                    nothing.poll(pause_ms)
        except _StoppedError:
            result.write(json.dumps({"sent": sent, "bytes": octets, "seconds": time.monotonic() - began}))


if __name__ == "__main__":
    main(sys.argv[1:])
