# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Captures of both formats, written by hand, and what tshark reads in them."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from golden.packets import Packet
from sumwire_protocol.wireshark.table import DISSECTOR

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


FIELDS = tuple(name for name in Packet._fields if name not in ("payload", "tag"))
EXPERTS = ("stale", "resent", "lost", "duplicate", "flush", "incomplete", "refused", "bad_version", "bad_length",
           "bad_words", "bad_code")  # fmt: skip
LINKS = ("answer_in", "answers", "time", "time_first", "copy_of", "copy")
_BETWEEN = "|"
# Of a whole run on a busy machine.
_LIMIT_S = 600.0
Row = dict[str, str]


def rows(path: Path, names: Sequence[str], *options: str, dissector: Path = DISSECTOR) -> list[Row]:
    """Fields of every frame as tshark writes them; several of one name with commas between."""
    command = ["tshark", "-n", "-2", "-X", f"lua_script:{dissector}", *options, "-r", str(path), "-T", "fields"]
    command += ["-E", f"separator={_BETWEEN}", "-E", "occurrence=a"]
    for name in names:
        command += ["-e", name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=True)
    assert "Lua" not in done.stderr, done.stderr
    lines = done.stdout.splitlines()
    return [dict(zip(names, line.split(_BETWEEN), strict=True)) for line in lines]


def fields(packet: Packet) -> dict[str, int]:
    """What `packets` should say of a packet."""
    return {name: getattr(packet, name) for name in FIELDS}


def number(text: str) -> int:
    """A number as tshark writes it."""
    return int(text, 0)


def packets(path: Path, *more: str) -> list[tuple[dict[str, int], Row]]:
    """The header's fields of every Sumwire packet, and other fields (``sumwire.`` is put before their names)."""
    names = [f"sumwire.{name}" for name in (*FIELDS, *more)]
    found = []
    for row in rows(path, ["frame.number", "frame.protocols", *names]):
        if row["sumwire.kind"]:
            header = {name: number(row[f"sumwire.{name}"]) for name in FIELDS}
            found.append((header, {name.removeprefix("sumwire."): text for name, text in row.items()}))
    return found
