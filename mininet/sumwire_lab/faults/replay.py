# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Frames of an earlier run, recorded on a link and sent again: late, in another order, and several times over.

Run as `python -m sumwire_lab.faults.replay record INTERFACE FILE SENT|RECEIVED` until it is killed, or as
`python -m sumwire_lab.faults.replay send INTERFACE FILE FRAMES_PER_SECOND SEED`, which repeats all frames for ever.
"""

from __future__ import annotations

import random
import select
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sumwire_protocol import constants as p4

_ALL: Final = 0x0003
_IPV4: Final = 0x0800
_UDP: Final = 17
_BUFFER_BYTES: Final = 16 << 20
_FRAME_MAX: Final = 2048
_LENGTH: Final = struct.Struct(">H")
# Every frame is sent once, and again with this probability, before the next pass over all of them.
_TWICE: Final = 0.3


def main(arguments: list[str]) -> None:
    what, interface, file, *more = arguments
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as link:
        if what == "record":
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
            link.bind((interface, _ALL))
            record(link, Path(file), sent=more[0] == "SENT")
        else:
            link.bind((interface, 0))
            send(link, frames_of(Path(file)), float(more[0]), int(more[1]))


def record(link: socket.socket, file: Path, *, sent: bool) -> None:
    """Append Sumwire's frames that this end of the link sends, or receives, to a file."""
    with file.open("ab", buffering=0) as out:
        while True:
            frame, (_, _, kind, *_) = link.recvfrom(_FRAME_MAX)
            if (kind == socket.PACKET_OUTGOING) == sent and is_sumwire(frame):
                out.write(_LENGTH.pack(len(frame)) + frame)


def is_sumwire(frame: bytes) -> bool:
    """Whether a frame is a UDP datagram to or from Sumwire's port."""
    if len(frame) < 42 or frame[12:14] != _IPV4.to_bytes(2, "big") or frame[23] != _UDP:
        return False
    at = 14 + (frame[14] & 0xF) * 4
    port = p4.SUMWIRE_PORT.to_bytes(2, "big")
    return port in (frame[at : at + 2], frame[at + 2 : at + 4])


def frames_of(file: Path) -> list[bytes]:
    """The frames of a recording; a last one that is incomplete is left out."""
    return list(_split(file.read_bytes()))


def _split(data: bytes) -> Iterator[bytes]:
    at = 0
    while at + _LENGTH.size <= len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if at + length <= len(data):
            yield data[at : at + length]
        at += length


def send(link: socket.socket, frames: list[bytes], per_second: float, seed: int) -> None:
    """Send all frames in a random order, some of them twice, again and again."""
    draw, nothing = random.Random(seed), select.poll()
    while frames:
        for frame in draw.sample(frames, len(frames)):
            for _ in range(1 + (draw.random() < _TWICE)):
                link.send(frame)
                nothing.poll(1000 / per_second)


if __name__ == "__main__":
    main(sys.argv[1:])
