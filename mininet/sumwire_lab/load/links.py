# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""How the load generator's frames get to an interface and from it: one by one, or as trains.

A train is sent as a host's kernel sends one that a UDP socket was given with UDP_SEGMENT: one frame with the headers of
the whole, and in front of it what the network card is left to do. Results are read from such frames too.
"""

from __future__ import annotations

import select
import socket
import struct
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray
from sumwire.wire.batch import BatchSocket
from sumwire.wire.header import HEADER_BYTES
from sumwire_protocol import constants as p4

from sumwire_lab.load import frames
from sumwire_lab.load.frames import Endpoints

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


class Link(Protocol):
    """Sends a worker's frames of some slots."""

    def send(self, first: int, last: int) -> None:
        """Send the frames of slots first to last - 1; wait where there is no room."""

    def close(self) -> None: ...


class Results(Protocol):
    """Receives on an interface."""

    def fileno(self) -> int: ...

    def receive(self) -> NDArray[np.uint8] | None:
        """The first bytes of all Sumwire headers that came together, one in each row; None if none is there."""

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
    """One by one: `rows` are whole frames, of which a system call takes `batch`."""

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
    """As trains of up to `packets`: `rows` are payloads of UDP, which change between calls."""

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
    """What goes in front of the payloads, each of `size` bytes: what is left to do, and the headers of the whole."""
    whole = frames.ethernet(ends, frames.ipv4(ends, frames.udp(bytes(size * count))))[:HEADS_BYTES]
    length = p4.UDP_BYTES + size * count
    addresses = socket.inet_aton(ends.src_ip) + socket.inet_aton(ends.dst_ip)
    pseudo = addresses + struct.pack("!HH", p4.IP_PROTOCOL_UDP, length)
    partial = 0xFFFF & ~frames.ones_complement(pseudo)
    kind, each = (_UDP_TRAIN, size) if count > 1 else (0, 0)
    told = _TOLD.pack(_NEEDS_CHECKSUM, kind, HEADS_BYTES, each, HEADS_BYTES - p4.UDP_BYTES, p4.UDP_BYTES - 2)
    return told + whole[:-2] + struct.pack("!H", partial)


class SingleResults:
    """Frames that came one by one."""

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
    """One frame at a time, mostly trains."""

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
    """The Sumwire headers in a frame of `length` bytes, with what is told of it in front, one in each row."""
    size = _TOLD.unpack(frame[: _TOLD.size].tobytes())[3]
    begin = _TOLD.size + HEADS_BYTES
    starts = np.arange(begin, length - HEADER_BYTES + 1, size or _MOST_BYTES)
    return frame[starts[:, None] + np.arange(HEADER_BYTES)]
