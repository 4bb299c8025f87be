# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Records, replays and forges frames on a link, for `faults.repeated_runs` and `experiments.hostile_hosts`.

`python -m sumwire_lab.faults.frames record INTERFACE FILE SENT|RECEIVED` records until it is killed; `... send
INTERFACE FILE FRAMES_PER_SECOND SEED` repeats all frames for ever: late, in another order, and some of them several
times.

`... HOW SPEC.json` sends forged frames until SIGTERM. HOW is `neighbour` (root on a host of another job: recorded
frames with changed headers and any source address), `user` (a program without rights on a worker's host: changed
recorded packets, from its own ports), `replay` (frames of an earlier run, unchanged), or `flood` (the same without a
pause). It then writes how many frames and bytes it has sent in how many seconds.
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Final

from commonlib import privileges
from sumwire_protocol import constants as p4

from sumwire_lab.load.malformed import ones_complement
from sumwire_lab.system.processes import end_with_parent

_ALL: Final = 0x0003
_IPV4: Final = 0x0800
_UDP: Final = 17
_BUFFER_BYTES: Final = 16 << 20
_FRAME_MAX: Final = 2048
_LENGTH: Final = struct.Struct(">H")
# Every frame is sent once, and again with this probability, before the next pass over all of them.
_TWICE: Final = 0.3


def _recorded(arguments: list[str]) -> None:
    what, interface, file, *more = arguments
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as link:
        if what == "record":
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
            link.bind((interface, _ALL))
            record(link, Path(file), sent=more[0] == "SENT")
        else:
            link.bind((interface, 0))
            send_again(link, frames_of(Path(file)), float(more[0]), int(more[1]))


def record(link: socket.socket, file: Path, *, sent: bool) -> None:
    """Append the Sumwire frames that this end of the link sends (``sent``) or receives to a file."""
    with file.open("ab", buffering=0) as out:
        while True:
            frame, (_, _, kind, *_) = link.recvfrom(_FRAME_MAX)
            if (kind == socket.PACKET_OUTGOING) == sent and is_sumwire(frame):
                out.write(_LENGTH.pack(len(frame)) + frame)


def is_sumwire(frame: bytes) -> bool:
    """Return whether a frame is a UDP datagram to or from Sumwire's port."""
    if len(frame) < 42 or frame[12:14] != _IPV4.to_bytes(2, "big") or frame[23] != _UDP:
        return False
    at = 14 + (frame[14] & 0xF) * 4
    port = p4.SUMWIRE_PORT.to_bytes(2, "big")
    return port in (frame[at : at + 2], frame[at + 2 : at + 4])


def frames_of(file: Path) -> list[bytes]:
    """Return the frames of a recording, without an incomplete last one."""
    return list(_split(file.read_bytes()))


def _split(data: bytes) -> Iterator[bytes]:
    at = 0
    while at + _LENGTH.size <= len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if at + length <= len(data):
            yield data[at : at + length]
        at += length


def send_again(link: socket.socket, frames: list[bytes], per_second: float, seed: int) -> None:
    """Send all frames in a random order, some of them twice, in an endless loop."""
    draw, nothing = random.Random(seed), select.poll()
    while frames:
        for frame in draw.sample(frames, len(frames)):
            for _ in range(1 + (draw.random() < _TWICE)):
                link.send(frame)
                nothing.poll(1000 / per_second)


_HEADERS: Final = p4.ETHERNET_BYTES + p4.IPV4_BYTES + p4.UDP_BYTES
_IP: Final = p4.ETHERNET_BYTES
# Packets between two pauses.
_BATCH: Final = 20
_SOCKETS: Final = 8
_CHANGED: Final = 0.8


@dataclass(frozen=True)
class ForgeSpec:
    """The input of a forger. `addresses`: MAC and IPv4, as text, of the attacker itself, the aggregator, and the
    workers, in this order."""

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


class _TerminatedError(Exception):
    """SIGTERM has come."""


def changed(frame: bytes, addresses: Sequence[tuple[str, str]], draw: random.Random) -> bytes:
    """Return a recorded frame with another source, to the aggregator or a worker, and with some header bits changed."""
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


def _as_recorded(spec: ForgeSpec, frames: list[bytes], draw: random.Random) -> Callable[[], int]:
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


_ATTACKS: Final = {"neighbour": _neighbour, "user": _user, "replay": _as_recorded, "flood": _as_recorded}


def _forged(arguments: list[str]) -> None:
    end_with_parent()
    how, spec = arguments[0], ForgeSpec.load(Path(arguments[1]))
    draw, nothing = random.Random(spec.seed), select.poll()
    frames = [frame for recording in spec.recordings for frame in frames_of(Path(recording))]
    sent = octets = 0
    pause_ms = 0.0 if how == "flood" else 1000 * _BATCH / spec.per_second

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise _TerminatedError

    with Path(spec.result).open("w") as result:
        send = _ATTACKS[how](spec, frames, draw)
        signal.signal(signal.SIGTERM, stop)
        began = time.monotonic()
        try:
            while True:
                for _ in range(_BATCH):
                    octets += send()
                    sent += 1
                if pause_ms:
                    nothing.poll(pause_ms)
        except _TerminatedError:
            result.write(json.dumps({"sent": sent, "bytes": octets, "seconds": time.monotonic() - began}))


def main(arguments: list[str]) -> None:
    if arguments[0] in _ATTACKS:
        _forged(arguments)
    else:
        _recorded(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
