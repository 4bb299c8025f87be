# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What capture files consist of: pcap, which bmv2 writes too, and pcapng (IETF draft-ietf-opsawg-pcapng).

A pcapng file has nanoseconds, the interface's name, and whether a frame came in or left. Times are in ns since 1970.
"""

from __future__ import annotations

import struct
from typing import Final

MOST_BYTES: Final = 262144
_ETHERNET: Final = 1
_RECORD: Final = struct.Struct("=IIII")

_SECTION, _INTERFACE, _PACKET = 0x0A0D0D0A, 1, 6
_IF_NAME, _IF_TSRESOL, _EPB_FLAGS = 2, 9, 2
_INBOUND, _OUTBOUND = 1, 2
_NANOSECONDS: Final = bytes([9])  # 10 to the power of -9 seconds


def records_head() -> bytes:
    """Return what a pcap file begins with."""
    return struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, MOST_BYTES, _ETHERNET)


def record(frame: bytes, at_ns: int, *, leaves: bool) -> bytes:
    """Return a frame's record of a pcap file."""
    seconds, nanoseconds = divmod(at_ns, 10**9)
    return _RECORD.pack(seconds & 0xFFFFFFFF, nanoseconds // 1000, len(frame), len(frame)) + frame


def blocks_head(interface: str) -> bytes:
    """Return what the pcapng file of an interface begins with."""
    section = _block(_SECTION, struct.pack("=IHHq", 0x1A2B3C4D, 1, 0, -1))
    options = _option(_IF_NAME, interface.encode()) + _option(_IF_TSRESOL, _NANOSECONDS) + _option(0, b"")
    return section + _block(_INTERFACE, struct.pack("=HHI", _ETHERNET, 0, MOST_BYTES) + options)


def block(frame: bytes, at_ns: int, *, leaves: bool) -> bytes:
    """Return a frame's block of a pcapng file."""
    head = struct.pack("=IIIII", 0, at_ns >> 32, at_ns & 0xFFFFFFFF, len(frame), len(frame))
    flags = _option(_EPB_FLAGS, struct.pack("=I", _OUTBOUND if leaves else _INBOUND)) + _option(0, b"")
    return _block(_PACKET, head + _padded(frame) + flags)


def _block(kind: int, body: bytes) -> bytes:
    length = 12 + len(body)
    return struct.pack("=II", kind, length) + body + struct.pack("=I", length)


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("=HH", code, len(value)) + _padded(value)


def _padded(value: bytes) -> bytes:
    return value + bytes(-len(value) % 4)
