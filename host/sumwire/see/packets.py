# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sumwire's packets in captured frames, and which of them were lost. Used by `timeline`, `show` and the doctor.

A packet was lost on a link if it passed one point of capture and not the next one on its path. The path between two
addresses is the points at which packets between them were seen, in the order in which they were seen there. So losses
are known where a capture has both ends of a link, with one clock.
"""

from __future__ import annotations

import socket
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple
from zlib import crc32

from sumwire_protocol import constants as p4
from sumwire_protocol import layout

from sumwire.errors import CaptureError
from sumwire.see.captures import Frame

_VLAN: Final = (0x8100, 0x88A8)
_FRAGMENT: Final = 0x3FFF
_IPV4_LEAST: Final = 20

# Types of links, as captures number them: where the type of what follows is, and where that begins.
_ETHERNET, _NULL, _RAW, _COOKED, _IPV4, _COOKED_2 = 1, 0, 101, 113, 228, 276
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
    """A packet at a point of capture. ``identity``: equal for the same packet at another point."""

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
        """A contribution or a question: of a worker, or of a lower switch, which is one for the switch above."""
        return self.kind in (p4.KIND_CONTRIBUTE, p4.KIND_PROBE)


@dataclass
class CaptureCounts:
    """``frames`` in all; ``others``: no Sumwire; ``malformed``: at Sumwire's port, and against the wire format.

    ``headless``: at Sumwire's port, captured without a whole header. ``behind``: packets of trains behind the bytes
    that were captured. ``cut_short``: captures that end in the middle of a packet. ``damaged``: what is wrong in
    captures that could be read in part.
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
    """The packets in a frame, all counted: none, one, or those of a train.

    Raises CaptureError for a type of link that is not known.
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
    """The packets that were lost, as they were seen at the last point that they passed."""
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
