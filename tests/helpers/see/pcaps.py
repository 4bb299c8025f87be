# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Capture files, written from the formats' descriptions: https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-03
and draft-ietf-opsawg-pcap-04. Nothing of the project's code."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

ETHERNET = 1
_NANOSECONDS = 9
Seen = tuple[float, str, bytes]
"""A frame: seconds, the name of the interface, its bytes."""


def pcap(frames: Iterable[tuple[float, bytes]], *, order: str = "<", nanoseconds: bool = False, link: int = 1) -> bytes:
    """A file of the old format."""
    magic, unit = (0xA1B23C4D, 10**9) if nanoseconds else (0xA1B2C3D4, 10**6)
    text = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 65535, link)
    for at_s, frame in frames:
        ticks = round(at_s * unit)
        text += struct.pack(f"{order}IIII", ticks // unit, ticks % unit, len(frame), len(frame)) + frame
    return text


def pcapng(frames: Iterable[Seen], *, order: str = "<", link: int = ETHERNET) -> bytes:
    """A file of the new format, with one interface for each name, in nanoseconds."""
    frames = list(frames)
    names = list(dict.fromkeys(name for _, name, _ in frames))
    blocks = [_block(order, 0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1))]
    for name in names:
        options = _option(order, 2, name.encode()) + _option(order, 9, bytes([_NANOSECONDS])) + _option(order, 0, b"")
        blocks.append(_block(order, 1, struct.pack(f"{order}HHI", link, 0, 0) + options))
    for at_s, name, frame in frames:
        ticks = round(at_s * 10**_NANOSECONDS)
        head = (names.index(name), ticks >> 32, ticks & 0xFFFFFFFF, len(frame), len(frame))
        blocks.append(_block(order, 6, struct.pack(f"{order}IIIII", *head) + _padded(frame)))
    return b"".join(blocks)


def write(path: Path, frames: Iterable[Seen]) -> Path:
    """Frames as a file."""
    path.write_bytes(pcapng(frames))
    return path


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _option(order: str, code: int, value: bytes) -> bytes:
    return struct.pack(f"{order}HH", code, len(value)) + _padded(value)


def _block(order: str, kind: int, body: bytes) -> bytes:
    length = struct.pack(f"{order}I", 12 + len(body))
    return struct.pack(f"{order}I", kind) + length + body + length
