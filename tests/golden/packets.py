# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sumwire packets and the frames around them, from docs/wire-format.md: nothing of the project's code."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

from golden.ops import JUMBO, JUMBO_SLOTS, THC, WORD, WORDS_CUT, WORDS_DOWN, WORDS_PARTIAL, WORDS_TRIMMED, WORDS_UP

UDP_PORT = 21335
VERSION = 2
CONTRIBUTE, RESULT, STALE, PROBE, INFORM, REFUSED = 1, 2, 3, 4, 5, 6
# The op of a HELLO, and what a switch says of its program.
NO_OP, REVISION = 0, 6
# The bucket of packets that open a run, and the token of those that belong to none. Tokens below the first one of runs
# are generations.
OPENS_RUN, NO_TOKEN, TOKENS_OF_RUNS = 0xFE00, 0, 1 << 32
FLUSH, INCOMPLETE, OVERFLOW, TRIMMED, CE, RESYNC, MISSING, CLOSED = (1 << k for k in range(8))
# Flags of a contribution that are flags of the result as well.
KEPT = INCOMPLETE | OVERFLOW | TRIMMED | CE | MISSING
# Flags that only a lower switch sets.
FLAGS_OF_SWITCHES = INCOMPLETE | CE | MISSING | CLOSED
# Slots of a switch.
SWITCH_SLOTS = 4096
# cut: the result itself lacks planes.
CUT_RESULT = 0x80

_SUMWIRE = struct.Struct("!BBHHBBIIBBHIQ")
# Bytes of the header, and of a frame without payload.
HEADER = _SUMWIRE.size
BARE = 42 + HEADER
TAG = 8


class Packet(NamedTuple):
    """The Sumwire header's fields, then the payload."""

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
    chunk: int
    payload: bytes = b""
    version: int = VERSION
    cut: int = 0
    token: int = NO_TOKEN
    # The authentication tag behind the payload, of jobs with a key.
    tag: bytes = b""

    def encode(self) -> bytes:
        head = _SUMWIRE.pack(
            self.version << 4 | self.kind, self.op, self.job, self.slot, self.worker, self.count,
            self.round, self.contributors, self.flags, self.words, self.bucket, self.cut << 24 | self.chunk, self.token,
        )  # fmt: skip
        return head + self.payload + self.tag


def decode(data: bytes) -> Packet:
    first, *rest, last, token = _SUMWIRE.unpack_from(data)
    payload, chunk, tag = data[_SUMWIRE.size :], last & 0xFFFFFF, b""
    words = data[17]
    if len(payload) == words * WORD + TAG:
        payload, tag = payload[:-TAG], payload[-TAG:]
    return Packet(first & 15, *rest, chunk, payload, first >> 4, last >> 24, token, tag)


def ones_complement_sum(data: bytes) -> int:
    """RFC 1071."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


@dataclass(frozen=True)
class Host:
    port: int
    mac: bytes
    ip: bytes
    udp_port: int = UDP_PORT
    # A lower switch is a worker that stands for several and sends partial results.
    weight: int = 1
    is_switch: bool = False


def udp_frame(
    src: Host, dst: Host, payload: bytes, *, ttl: int = 64, dscp_ecn: int = 0, ident: int = 0, udp_checksum: int = 0
) -> bytes:
    """Ethernet, IPv4 with a right checksum, UDP with the checksum given."""
    head = struct.pack("!BBHHHBBH4s4s", 0x45, dscp_ecn, 28 + len(payload), ident, 0, ttl, 17, 0, src.ip, dst.ip)
    checksum = 0xFFFF ^ ones_complement_sum(head)
    head = head[:10] + struct.pack("!H", checksum) + head[12:]
    udp = struct.pack("!HHHH", src.udp_port, dst.udp_port, 8 + len(payload), udp_checksum)
    return dst.mac + src.mac + b"\x08\x00" + head + udp + payload


def reply_tos(request: bytes) -> int:
    """The priority of the packet that is answered, drop class 0, ECN-capable."""
    return request[15] & 0xE0 | 2


def words_of(packet: Packet) -> tuple[int, ...]:
    """The numbers of words that a packet of its kind, op, flags and cut may have."""
    if packet.kind in (PROBE, STALE, REFUSED):
        return (0,)
    if packet.kind == RESULT:
        cut = packet.op == THC and packet.cut & CUT_RESULT
        return (WORDS_DOWN[packet.op], *((WORDS_CUT,) if cut else ()))
    cut = packet.op == THC and packet.flags & TRIMMED
    return (WORDS_UP[packet.op], WORDS_PARTIAL[packet.op], *((WORDS_TRIMMED,) if cut else ()))


def is_beyond(slot: int, packet: Packet) -> bool:
    """Whether the switch has no such slot, or one that has no room for so long packets."""
    return slot >= (JUMBO_SLOTS if packet.op == JUMBO else SWITCH_SLOTS)


def is_hello(packet: Packet) -> bool:
    return (packet.kind, packet.op, packet.words) == (PROBE, NO_OP, 0)


def malformed(frame: bytes) -> str | None:
    """Why a frame to the aggregator is no contribution, by its own bytes alone."""
    fragment = struct.unpack_from("!H", frame, 20)[0] & 0x3FFF
    if frame[14] != 0x45 or frame[23] != 17 or fragment or len(frame) < 42:
        return "NOT_SUMWIRE"
    if struct.unpack_from("!H", frame, 36)[0] != UDP_PORT:
        return "NOT_SUMWIRE"
    total, udp = struct.unpack_from("!H", frame, 16)[0], struct.unpack_from("!H", frame, 38)[0]
    if len(frame) != 14 + total or total != 20 + udp or udp < BARE - 34:
        return "LENGTH"
    packet = decode(frame[42:])
    if packet.version != VERSION:
        return "VERSION"
    if packet.kind not in (CONTRIBUTE, RESULT, PROBE, STALE, REFUSED):
        return "KIND"
    if is_hello(packet):
        return "LENGTH" if packet.payload else None
    if packet.op not in WORDS_UP:
        return "OP"
    if packet.words not in words_of(packet):
        return "WORDS"
    # So long packets have no tag.
    tagged = packet.op == JUMBO and packet.words and packet.tag
    return "LENGTH" if tagged or len(packet.payload) != packet.words * WORD else None
