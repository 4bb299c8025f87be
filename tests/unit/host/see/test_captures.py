# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Captures of both formats are read as they were written, and hostile ones are refused."""

from __future__ import annotations

import io
import struct

import pytest
from helpers.see import pcaps
from sumwire.errors import CaptureError
from sumwire.see.captures import FRAME_MOST, CaptureReader, Frame

FRAMES = [(1.5, "h1", b"one"), (2.000001, "s1", b"second"), (3.25, "h1", b"")]


def _read(data: bytes) -> list[Frame]:
    return list(CaptureReader(io.BytesIO(data), "run.pcap"))


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("nanoseconds", [False, True])
def test_the_old_format(order: str, nanoseconds: bool) -> None:
    data = pcaps.pcap([(at_s, frame) for at_s, _, frame in FRAMES], order=order, nanoseconds=nanoseconds)
    assert [(frame.data, frame.point, frame.link) for frame in _read(data)] == [(one[2], "", 1) for one in FRAMES]
    assert [frame.at_s for frame in _read(data)] == pytest.approx([at_s for at_s, _, _ in FRAMES])


@pytest.mark.parametrize("order", ["<", ">"])
def test_the_new_format(order: str) -> None:
    found = _read(pcaps.pcapng(FRAMES, order=order))
    assert [(frame.point, frame.data) for frame in found] == [(name, data) for _, name, data in FRAMES]
    assert [frame.at_s for frame in found] == pytest.approx([at_s for at_s, _, _ in FRAMES])


def test_sections_one_behind_another_have_their_own_interfaces_and_orders() -> None:
    found = _read(pcaps.pcapng(FRAMES[:1], order="<") + pcaps.pcapng([(9.0, "other", b"x")], order=">"))
    assert [(frame.point, frame.at_s) for frame in found] == [("h1", 1.5), ("other", 9.0)]


def test_blocks_that_are_not_known_are_passed_over() -> None:
    data = pcaps.pcapng(FRAMES)
    names = struct.pack("<III", 4, 16, 0) + struct.pack("<I", 16)
    assert _read(data + names) == _read(data)


@pytest.mark.parametrize("kind", [pcaps.pcap([(1.0, b"one"), (2.0, b"two")]), pcaps.pcapng(FRAMES)])
def test_a_file_that_is_cut_gives_what_is_before(kind: bytes) -> None:
    for length in range(24, len(kind)):
        reader = CaptureReader(io.BytesIO(kind[:length]), "run")
        try:
            found = list(reader)
        except CaptureError:
            continue
        assert [frame.data for frame in found] == [frame.data for frame in _read(kind)][: len(found)]
        assert reader.cut_short or len(found) < len(_read(kind))
    whole = CaptureReader(io.BytesIO(kind), "run")
    assert len(list(whole)) == len(_read(kind)) and not whole.cut_short


def test_a_compressed_file_is_told_from_damage() -> None:
    with pytest.raises(CaptureError, match="a compressed file; gunzip it, or: gunzip -c run"):
        _read(b"\x1f\x8b\x08\x00 of gzip")


def _block(kind: int, body: bytes) -> bytes:
    length = struct.pack("<I", 12 + len(body))
    return struct.pack("<I", kind) + length + body + length


_BEGIN = pcaps.pcapng([])


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"", "an empty file"),
        (b"\x00\x01", "fewer than four bytes"),
        (b"PK\x03\x04 not a capture", "begins with 504b0304"),
        (pcaps.pcap([])[:10], "ends within its header"),
        (pcaps.pcap([]) + struct.pack("<IIII", 0, 0, FRAME_MOST + 1, 0), f"a packet of {FRAME_MOST + 1} bytes"),
        (struct.pack("<II", 0x0A0D0D0A, 28) + b"abcd", "order of bytes 61626364"),
        (_BEGIN + struct.pack("<II", 6, 13), "a block of 13 bytes"),
        (_BEGIN + struct.pack("<II", 6, 0xFFFFFFFC), "a block of 4294967292 bytes"),
        (_BEGIN + struct.pack("<II", 77, 0xFFFFFFFC), "a block of 4294967292 bytes"),
        (_BEGIN + _block(6, bytes(20)), "a packet of interface 0, there are 0"),
        (_BEGIN + _block(6, bytes(4)), "a block of a packet is too short"),
        (_BEGIN + _block(1, bytes(4)), "the description of an interface is too short"),
        (_BEGIN + _block(1, bytes(8)) * 4097, "more than 4096 interfaces"),
        (_BEGIN + _block(1, bytes(8)) + _block(6, struct.pack("<IIIII", 0, 0, 0, 99, 99)), "with room for 0"),
        (_BEGIN + _block(1, bytes(8))[:-4] + b"\x01\x00\x00\x00", "a block has two lengths"),
    ],
)
def test_what_is_no_capture_is_refused(data: bytes, rule: str) -> None:
    with pytest.raises(CaptureError, match=rule) as refused:
        _read(data)
    assert "run.pcap: byte " in str(refused.value) and "tcpdump -i DEVICE -w" in str(refused.value)


def test_a_huge_unit_of_time_is_no_trouble() -> None:
    options = struct.pack("<HH", 9, 1) + b"\x7f\x00\x00\x00"
    packet = _block(6, struct.pack("<IIIII", 0, 0xFFFFFFFF, 0xFFFFFFFF, 0, 0))
    (frame,) = _read(_BEGIN + _block(1, struct.pack("<HHI", 1, 0, 0) + options) + packet)
    assert frame.at_s == pytest.approx(0.0)


def test_the_name_of_an_interface_cannot_steer_a_terminal() -> None:
    (frame,) = _read(pcaps.pcapng([(0.0, "\x1b[2J" * 100, b"x")]))
    assert frame.point.isprintable() and len(frame.point) <= 64
