# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Ethernet frames with Sumwire packets, built byte by byte, for the load generator and for malformed packets."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from typing import Final

from sumwire.wire.header import Header
from sumwire_protocol import constants as p4

_ETHERNET: Final = struct.Struct("!6s6sH")
_IPV4: Final = struct.Struct("!BBHHHBBH4s4s")
_UDP: Final = struct.Struct("!HHHH")
_SUMWIRE: Final = struct.Struct("!BBHHBBIIBBHIQ")
IPV4_NO_OPTIONS: Final = 0x45
DEFAULT_TTL: Final = 64
# As hosts send their datagrams.
_DONT_FRAGMENT: Final = 0x4000
# Offset of the Sumwire header's field `round` in a frame.
ROUND_OFFSET: Final = p4.ETHERNET_BYTES + p4.IPV4_BYTES + p4.UDP_BYTES + 8


@dataclass(frozen=True)
class Endpoints:
    """Addresses of a frame, as text: MAC as aa:bb:.., IPv4 dotted."""

    src_mac: str
    dst_mac: str
    src_ip: str
    dst_ip: str


def ones_complement(data: bytes) -> int:
    """The Internet checksum (RFC 1071) of an even number of bytes."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ethernet(ends: Endpoints, payload: bytes) -> bytes:
    """An IPv4 packet as a frame."""
    dst, src = (bytes.fromhex(mac.replace(":", "")) for mac in (ends.dst_mac, ends.src_mac))
    return _ETHERNET.pack(dst, src, p4.ETHERTYPE_IPV4) + payload


def ipv4(
    ends: Endpoints, payload: bytes, *, protocol: int = p4.IP_PROTOCOL_UDP, length_error: int = 0, sum_error: int = 0
) -> bytes:
    """An IPv4 packet; the errors are added to total length and checksum. With `sum_error` 0 the checksum is right."""

    def pack(checksum: int) -> bytes:
        length = p4.IPV4_BYTES + len(payload) + length_error
        src, dst = socket.inet_aton(ends.src_ip), socket.inet_aton(ends.dst_ip)
        return _IPV4.pack(IPV4_NO_OPTIONS, 0, length, 0, _DONT_FRAGMENT, DEFAULT_TTL, protocol, checksum, src, dst)

    return pack((ones_complement(pack(0)) + sum_error) & 0xFFFF) + payload


def udp(payload: bytes, *, port: int = p4.SUMWIRE_PORT, source: int = p4.SUMWIRE_PORT, length_error: int = 0) -> bytes:
    """A UDP datagram without checksum; the error is added to its length field."""
    return _UDP.pack(source, port, p4.UDP_BYTES + len(payload) + length_error, 0) + payload


def sumwire(header: Header, payload: bytes = b"", *, version: int = p4.SUMWIRE_VERSION) -> bytes:
    """Header and payload without any check, so that they may be invalid."""
    h = header
    head = _SUMWIRE.pack(
        version << 4 | h.kind, h.op, h.job, h.slot, h.worker, h.count,
        h.round, h.contributors, h.flags, h.words, h.bucket, h.chunk, h.token,
    )  # fmt: skip
    return head + payload


def frame(ends: Endpoints, header: Header, payload: bytes = b"") -> bytes:
    """A Sumwire packet as a whole frame."""
    return ethernet(ends, ipv4(ends, udp(sumwire(header, payload))))
