# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Recorded frames: which ones are Sumwire's, and what is read back."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from golden.packets import Host, udp_frame
from sumwire_lab.faults import frames

WORKER = Host(1, b"\0\0\0\0\0\1", bytes([10, 0, 0, 1]))
SWITCH = Host(9, b"\2\0\0\0\0\1", bytes([10, 0, 0, 100]))
OTHER = Host(2, b"\0\0\0\0\0\2", bytes([10, 0, 0, 2]), udp_port=5000)


@pytest.mark.parametrize(
    ("frame", "is_sumwire"),
    [
        (udp_frame(WORKER, SWITCH, b"x" * 40), True),
        (udp_frame(OTHER, SWITCH, b""), True),
        (udp_frame(SWITCH, OTHER, b"x"), True),
        (udp_frame(OTHER, OTHER, b"x" * 40), False),
        (udp_frame(WORKER, SWITCH, b"")[:41], False),
        (udp_frame(WORKER, SWITCH, b"").replace(b"\x08\x00\x45", b"\x86\xdd\x45"), False),
        (b"", False),
    ],
)
def test_sumwires_frames_are_known(frame: bytes, is_sumwire: bool) -> None:
    assert frames.is_sumwire(frame) is is_sumwire


def test_a_recording_is_read_back_without_an_incomplete_end(tmp_path: Path) -> None:
    written = [bytes([k]) * (60 + k) for k in range(5)]
    data = b"".join(struct.pack(">H", len(frame)) + frame for frame in written)
    file = tmp_path / "frames"
    file.write_bytes(data)
    assert frames.frames_of(file) == written
    for cut in (1, 30, 64):
        file.write_bytes(data[:-cut])
        assert frames.frames_of(file) == written[:-1]


class Link:
    """Takes frames until it is full."""

    def __init__(self, room: int) -> None:
        self.sent: list[bytes] = []
        self._room = room

    def send(self, frame: bytes) -> None:
        if len(self.sent) == self._room:
            raise BrokenPipeError
        self.sent.append(frame)


def test_frames_are_sent_in_another_order_and_some_twice() -> None:
    written = [bytes([k]) for k in range(50)]
    link: Any = Link(room=2 * len(written))
    with pytest.raises(BrokenPipeError):
        frames.send_again(link, written, 1e9, seed=1)
    first = link.sent[: len(written)]
    assert first != written and set(link.sent) == set(written)
    assert len(set(first)) < len(first)
