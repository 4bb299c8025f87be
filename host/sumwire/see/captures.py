# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Reads captures in the formats pcap and pcapng. Their content is not trusted.

Whatever is in a file, reading it takes bounded memory and ends: with frames, or with CaptureError. A file that ends in
the middle of a packet, like that of a killed tcpdump, yields the packets before. :func:`packets_of` parses frames into
packets of Sumwire.
"""

from __future__ import annotations

import socket
import struct
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import BinaryIO, Final, NamedTuple
from zlib import crc32

from commonlib.untrusted import escaped
from sumwire_protocol import constants as p4
from sumwire_protocol import layout

from sumwire.errors import CaptureError, UsageError

# tcpdump keeps at most so many bytes of a packet.
FRAME_MOST: Final = 1 << 18
# Bytes of a block of pcapng without packets, such as names of hosts. They are passed over in pieces.
_BLOCK_MOST: Final = 1 << 26
_INTERFACES_MOST: Final = 4096
_PIECE: Final = 1 << 16
_NAME_MOST: Final = 64

_PCAP: Final = {
    b"\xd4\xc3\xb2\xa1": ("<", 10**6),
    b"\xa1\xb2\xc3\xd4": (">", 10**6),
    b"\x4d\x3c\xb2\xa1": ("<", 10**9),
    b"\xa1\xb2\x3c\x4d": (">", 10**9),
}
_GZIP: Final = b"\x1f\x8b"
_CURE: Final = "give a capture in the format pcap or pcapng: tcpdump -i DEVICE -w run.pcap udp port 21335"
_SECTION: Final = 0x0A0D0D0A
_ORDERS: Final = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}
_INTERFACE, _SIMPLE, _ENHANCED = 1, 3, 6
_OPTION_NAME, _OPTION_UNIT, _OPTION_OFFSET = 2, 9, 14
_MICROSECOND: Final = 6
_ETHERNET: Final = 1
_ALL_PROTOCOLS: Final = 3
_ROOM_BYTES: Final = 1 << 24
# Of a frame's address, in linux/if_packet.h and linux/if_arp.h.
_OUTGOING: Final = 4
_LOOPBACK: Final = 772


class Frame(NamedTuple):
    """A captured frame: its time in seconds, its interface ("" if the file does not say), its link type, and its
    bytes."""

    at_s: float
    point: str
    link: int
    data: bytes


@dataclass
class _Interface:
    link: int
    kept: int
    name: str
    ticks: int = 10**_MICROSECOND
    offset_s: int = 0


class CaptureReader:
    """Iterates over the frames of one capture, in order. ``where`` begins the texts of errors.

    ``cut_short``: whether the capture has ended in the middle of a packet. Iterating raises CaptureError, and
    ``damage`` then says what is wrong, and at which byte.
    """

    def __init__(self, stream: BinaryIO, where: str) -> None:
        self.cut_short = False
        self.damage = ""
        self._stream = stream
        self._where = where
        self._at = 0
        self._interfaces: list[_Interface] = []

    def __iter__(self) -> Iterator[Frame]:
        magic = self._read(4)
        if magic is None:
            raise self._error("an empty file" if not self.cut_short else "fewer than four bytes")
        if magic in _PCAP:
            yield from self._pcap(*_PCAP[magic])
        elif int.from_bytes(magic) == _SECTION:
            yield from self._pcapng()
        elif magic.startswith(_GZIP):
            raise self._error("a compressed file", f"gunzip it, or: gunzip -c {self._where} | sumwire decode -")
        else:
            raise self._error(f"begins with {magic.hex()}")

    # -- bytes -------------------------------------------------------------------------------------------

    def _read(self, length: int) -> bytes | None:
        """So many bytes; None at the end, also one in their midst."""
        data = self._stream.read(length)
        while 0 < len(data) < length and (more := self._stream.read(length - len(data))):
            data += more
        self._at += len(data)
        if len(data) == length:
            return data
        self.cut_short = self.cut_short or bool(data)
        return None

    def _needed(self, length: int) -> bytes | None:
        """As :meth:`_read`, where the file must go on."""
        data = self._read(length)
        self.cut_short = self.cut_short or data is None
        return data

    def _skip(self, length: int) -> bool:
        while length:
            piece = self._needed(min(length, _PIECE))
            if piece is None:
                return False
            length -= len(piece)
        return True

    def _error(self, text: str, cure: str = _CURE) -> CaptureError:
        self.damage = f"byte {self._at}: {text}"
        return CaptureError(f"{self._where}: {self.damage}; {cure}")

    # -- the old format ----------------------------------------------------------------------------------

    def _pcap(self, order: str, ticks: int) -> Iterator[Frame]:
        head = self._needed(20)
        if head is None:
            raise self._error("ends within its header")
        # The upper bits say how frames are checked.
        link = struct.unpack(f"{order}HHiIII", head)[-1] & 0xFFFF
        record = struct.Struct(f"{order}IIII")
        while (head := self._read(record.size)) is not None:
            seconds, fraction, kept, _ = record.unpack(head)
            data = self._frame(kept)
            if data is None:
                return
            yield Frame(seconds + fraction / ticks, "", link, data)

    def _frame(self, kept: int) -> bytes | None:
        if kept > FRAME_MOST:
            raise self._error(f"a packet of {kept} bytes, at most {FRAME_MOST} are possible")
        return self._needed(kept)

    # -- the new format ----------------------------------------------------------------------------------

    def _pcapng(self) -> Iterator[Frame]:
        order = self._section()
        while order and (head := self._read(8)) is not None:
            kind, length = struct.unpack(f"{order}II", head)
            if kind == _SECTION:
                # Its own order of bytes, and its own interfaces.
                order = self._section(head[4:])
                continue
            body = self._block(order, kind, length)
            if body is None:
                return
            if kind == _INTERFACE:
                self._interfaces.append(self._interface(order, body))
            elif kind in (_SIMPLE, _ENHANCED):
                yield self._packet(order, kind, body)

    def _section(self, length_bytes: bytes | None = None) -> str:
        """Read a section's head from behind its kind on; "" at the end of the file."""
        length_bytes = length_bytes or self._needed(4)
        magic = self._needed(4)
        if length_bytes is None or magic is None:
            return ""
        if magic not in _ORDERS:
            raise self._error(f"a section in the order of bytes {magic.hex()}")
        order, self._interfaces = _ORDERS[magic], []
        (length,) = struct.unpack(f"{order}I", length_bytes)
        self._check_length(length, 28, _BLOCK_MOST)
        return order if self._skip(length - 12) else ""

    def _check_length(self, length: int, least: int, most: int) -> None:
        if length % 4 or not least <= length <= most:
            raise self._error(f"a block of {length} bytes, must be a multiple of 4 in {least}..{most}")

    def _block(self, order: str, kind: int, length: int) -> bytes | None:
        """What is in a block; empty for those that are passed over, None at the end of the file."""
        known = kind in (_INTERFACE, _SIMPLE, _ENHANCED)
        self._check_length(length, 12, FRAME_MOST + _PIECE if known else _BLOCK_MOST)
        if not known:
            return b"" if self._skip(length - 8) else None
        body, again = self._needed(length - 12), self._needed(4)
        if body is None or again is None:
            return None
        if struct.unpack(f"{order}I", again)[0] != length:
            raise self._error("a block has two lengths")
        return body

    def _interface(self, order: str, body: bytes) -> _Interface:
        if len(body) < 8:
            raise self._error("the description of an interface is too short")
        if len(self._interfaces) >= _INTERFACES_MOST:
            raise self._error(f"more than {_INTERFACES_MOST} interfaces")
        link, _, kept = struct.unpack_from(f"{order}HHI", body)
        found = _Interface(link, kept, str(len(self._interfaces)))
        at = 8
        while at + 4 <= len(body):
            code, length = struct.unpack_from(f"{order}HH", body, at)
            value = body[at + 4 : at + 4 + length]
            at += 4 + length + -length % 4
            if code == 0 or len(value) < length:
                break
            if code == _OPTION_NAME:
                found.name = escaped(value.decode(errors="replace"))[:_NAME_MOST]
            elif code == _OPTION_UNIT and length == 1:
                found.ticks = 2 ** (value[0] & 0x7F) if value[0] & 0x80 else 10 ** value[0]
            elif code == _OPTION_OFFSET and length == 8:
                (found.offset_s,) = struct.unpack(f"{order}q", value)
        return found

    def _packet(self, order: str, kind: int, body: bytes) -> Frame:
        head = struct.Struct(f"{order}IIIII" if kind == _ENHANCED else f"{order}I")
        if len(body) < head.size:
            raise self._error("a block of a packet is too short")
        fields = head.unpack_from(body)
        number = fields[0] if kind == _ENHANCED else 0
        if number >= len(self._interfaces):
            raise self._error(f"a packet of interface {number}, there are {len(self._interfaces)}")
        interface = self._interfaces[number]
        at_s = 0.0
        if kind == _ENHANCED:
            _, high, low, kept, _ = fields
            at_s = (high << 32 | low) / interface.ticks + interface.offset_s
        else:
            kept = min(fields[0], interface.kept or fields[0])
        data = body[head.size : head.size + kept]
        if len(data) < kept:
            raise self._error(f"a packet of {kept} bytes in a block with room for {len(data)}")
        return Frame(at_s, interface.name, interface.link, data)


def frames_of(interface: str) -> Iterator[Frame]:
    """Yield the frames of an interface without end. Raises UsageError."""
    try:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS)) as raw:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _ROOM_BYTES)
            raw.bind((interface, 0))
            while True:
                data, (_, _, way, kind, _) = raw.recvfrom(FRAME_MOST)
                # A loopback device shows what is sent once more as what has come.
                if kind == _LOOPBACK and way == _OUTGOING:
                    continue
                yield Frame(time.time(), interface, _ETHERNET, data)
    except PermissionError as error:
        cure = f"run it with sudo, or: sudo tcpdump -i {interface} -U -w - udp port 21335 | sumwire decode -"
        raise UsageError(f"{interface}: capturing needs root; {cure}") from error
    except OSError as error:
        raise UsageError(f"{interface}: {error.strerror}; name an interface that is there and up: ip link") from error


_VLAN: Final = (0x8100, 0x88A8)
_FRAGMENT: Final = 0x3FFF
_IPV4_LEAST: Final = 20

# Types of links, as captures number them: where the type of what follows is, and where that begins.
_NULL, _RAW, _COOKED, _IPV4, _COOKED_2 = 0, 101, 113, 228, 276
_LINKS: Final = {
    _ETHERNET: (12, 14),
    _COOKED: (14, 16),
    _COOKED_2: (0, 20),
    _NULL: (None, 4),
    _RAW: (None, 0),
    _IPV4: (None, 0),
}


class Ends(NamedTuple):
    """Addresses and UDP ports, from the sender to the receiver."""

    source: str
    source_port: int
    target: str
    target_port: int


@dataclass(frozen=True, slots=True)
class CapturedPacket:
    """A packet at one capture point. ``identity`` is equal for the same packet at another point."""

    at_s: float
    point: str
    ends: Ends
    kind: int
    op: int
    job: int
    slot: int
    worker: int
    count: int
    round: int
    contributors: int
    flags: int
    words: int
    bucket: int
    cut: int
    chunk: int
    token: int
    identity: tuple[Ends, bytes, int]

    @property
    def is_hello(self) -> bool:
        """A HELLO, or the answer to one."""
        return self.op == p4.OP_NONE

    @property
    def from_worker(self) -> bool:
        """Return whether it is a contribution or a HELLO from a worker, or from a lower switch, which acts as a worker
        of the one above."""
        return self.kind in (p4.KIND_CONTRIBUTE, p4.KIND_PROBE)


@dataclass
class CaptureCounts:
    """Counts of a capture. ``frames``: all of them. ``others``: not Sumwire. ``malformed``: at Sumwire's port, but
    against the wire format.

    ``headless``: at Sumwire's port, but captured without a whole header. ``behind``: packets of trains beyond the
    captured bytes. ``cut_short``: captures that end in the middle of a packet. ``damaged``: what is wrong in captures
    that were read in part.
    """

    frames: int = 0
    packets: int = 0
    others: int = 0
    malformed: int = 0
    headless: int = 0
    behind: int = 0
    cut_short: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)


def packets_of(frame: Frame, counts: CaptureCounts) -> list[CapturedPacket]:
    """Return the Sumwire packets in a frame: none, one, or those of a train. Counts all of them in ``counts``.

    Raises CaptureError for an unknown link type.
    """
    counts.frames += 1
    found = _datagram(frame)
    if found is None:
        counts.others += 1
        return []
    ends, data, length = found
    if p4.SUMWIRE_PORT not in (ends.source_port, ends.target_port):
        counts.others += 1
        return []
    pieces, whole = layout.packets_of(data), len(data) == length
    # A train that was captured in part: what is left of its last packet may be too short for a header.
    if not whole and pieces and len(pieces[-1]) < p4.SUMWIRE_BYTES:
        pieces.pop()
    counts.headless += not whole and not pieces
    seen = [_seen(frame, ends, piece, whole or piece is not pieces[-1]) for piece in pieces]
    good = [one for one in seen if one is not None]
    counts.packets += len(good)
    counts.malformed += len(seen) - len(good)
    if good and not whole:
        counts.behind += max(-(-length // _length_of(good[0], pieces)) - len(pieces), 0)
    return good


def _length_of(first: CapturedPacket, pieces: Sequence[bytes]) -> int:
    """Bytes of each packet of a train but the last."""
    return len(pieces[0]) if len(pieces) > 1 else p4.SUMWIRE_BYTES + first.words * p4.WORD_BYTES


def _datagram(frame: Frame) -> tuple[Ends, bytes, int] | None:
    """Ends of an unfragmented UDP datagram over IPv4, what was captured of its payload, and the payload's length."""
    data = _ipv4(frame)
    if len(data) < _IPV4_LEAST or data[0] >> 4 != 4 or data[9] != p4.IP_PROTOCOL_UDP:
        return None
    behind = 4 * (data[0] & 0xF)
    if behind < _IPV4_LEAST or int.from_bytes(data[6:8]) & _FRAGMENT or len(data) < behind + p4.UDP_BYTES:
        return None
    udp = data[behind:]
    length = int.from_bytes(udp[4:6])
    if length < p4.UDP_BYTES:
        return None
    ends = Ends(
        socket.inet_ntoa(data[12:16]), int.from_bytes(udp[:2]), socket.inet_ntoa(data[16:20]), int.from_bytes(udp[2:4])
    )
    return ends, udp[p4.UDP_BYTES : length], length - p4.UDP_BYTES


def _ipv4(frame: Frame) -> bytes:
    """From the IPv4 header on; empty for another protocol."""
    if frame.link not in _LINKS:
        known = ", ".join(map(str, sorted(_LINKS)))
        cure = "capture at an Ethernet device: tcpdump -i DEVICE -w run.pcap udp port 21335"
        raise CaptureError(f"a capture of links of type {frame.link}, known are {known}; {cure}")
    (kind_at, at), data = _LINKS[frame.link], frame.data
    if kind_at is None:
        return data[at:]
    kind = int.from_bytes(data[kind_at : kind_at + 2])
    while kind in _VLAN and len(data) >= at + 4:
        kind, at = int.from_bytes(data[at + 2 : at + 4]), at + 4
    return data[at:] if kind == p4.ETHERTYPE_IPV4 else b""


def _point(frame: Frame) -> str:
    """The interface. Captures of all interfaces say which in each packet."""
    if frame.link != _COOKED_2:
        return frame.point
    number = int.from_bytes(frame.data[4:8])
    return f"{frame.point}#{number}" if frame.point else f"#{number}"


def _seen(frame: Frame, ends: Ends, data: bytes, whole: bool) -> CapturedPacket | None:
    """The packet; None for one against the wire format. Of one that was captured in part the header is enough."""
    if len(data) < p4.SUMWIRE_BYTES:
        return None
    fields = layout.unpacked(data)
    left = layout.parts(data)[2] if whole else b""
    short = whole and len(data) < p4.SUMWIRE_BYTES + fields["words"] * p4.WORD_BYTES
    if fields.pop("version") != p4.SUMWIRE_VERSION or fields["kind"] not in layout.KINDS or left or short:
        return None
    if fields["op"] not in layout.OP_NAMES:
        return None
    identity = (ends, data[: p4.SUMWIRE_BYTES], crc32(data[p4.SUMWIRE_BYTES :]))
    return CapturedPacket(frame.at_s, _point(frame), ends, identity=identity, **fields)


_Copies = dict[str, list[CapturedPacket]]


def losses(packets: Iterable[CapturedPacket]) -> Iterator[CapturedPacket]:
    """Yield the packets that were lost, as captured at the last point that they passed."""
    by_ends: dict[Ends, dict[object, _Copies]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for seen in packets:
        by_ends[seen.ends][seen.identity][seen.point].append(seen)
    for copies in by_ends.values():
        way = _way(copies.values())
        for each in copies.values():
            for here, there in pairwise(way):
                yield from _unmatched(each.get(here, ()), each.get(there, ()))


def _way(copies: Iterable[_Copies]) -> list[str]:
    """The points in the order of the way: each is behind those that most packets have passed before it."""
    ranks: dict[str, list[int]] = defaultdict(list)
    for each in copies:
        points = sorted(each, key=lambda point: each[point][0].at_s)
        for rank, point in enumerate(points):
            ranks[point].append(rank)
    return sorted(ranks, key=lambda point: sum(ranks[point]) / len(ranks[point]))


def _unmatched(here: Sequence[CapturedPacket], there: Sequence[CapturedPacket]) -> list[CapturedPacket]:
    """Copies that have no counterpart there: each one there is the latest here that can be it."""
    left = list(here)
    for seen in there:
        at = bisect_right(left, seen.at_s, key=lambda one: one.at_s)
        if left:
            del left[max(at - 1, 0)]
    return left
