# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""IPv4 checksums, verified and updated, against RFC 1071 written out."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from softswitch.switch import SoftSwitch

ETHERNET = bytes(12) + b"\x08\x00"
GOOD, BAD = 1, 2


@pytest.fixture
def switch(switch_for: Callable[[str], SoftSwitch]) -> SoftSwitch:
    return switch_for("checksum")


def rfc1071(header: bytes) -> int:
    total = sum(int.from_bytes(header[i : i + 2]) for i in range(0, len(header), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - total


def with_checksum(header: bytes) -> bytes:
    blank = header[:10] + b"\0\0" + header[12:]
    return blank[:10] + rfc1071(blank).to_bytes(2) + blank[12:]


def headers() -> list[bytes]:
    draw = random.Random(3)
    drawn = [draw.randbytes(1) + b"\x00" + draw.randbytes(18) for _ in range(30)]
    # Sums of exactly 0 and 0xffff, before and after the time to live is counted down, are the two zeros.
    ones = bytes(4) + b"\xff\xff" + bytes(14)
    return [bytes(20), ones, ones[:8] + b"\x01" + ones[9:], bytes(8) + b"\x01" + bytes(11), *drawn]


@pytest.mark.parametrize("header", headers(), ids=bytes.hex)
def test_verify_and_update(switch: SoftSwitch, header: bytes) -> None:
    right = with_checksum(header)
    wrong = right[:11] + bytes([right[11] ^ 1]) + right[12:]
    lower = with_checksum(right[:8] + bytes([(right[8] - 1) % 256]) + right[9:])
    assert switch.process(1, ETHERNET + right + b"data") == [(GOOD, ETHERNET + lower + b"data")]
    assert switch.process(1, ETHERNET + wrong + b"data") == [(BAD, ETHERNET + lower + b"data")]


def test_no_update_where_the_condition_fails(switch: SoftSwitch) -> None:
    header = with_checksum(b"\x45\xff" + bytes(range(18)))
    ((port, out),) = switch.process(1, ETHERNET + header)
    expected = header[:8] + bytes([header[8] - 1]) + header[9:]
    assert (port, out) == (GOOD, ETHERNET + expected)


def test_no_verification_without_the_header(switch: SoftSwitch) -> None:
    frame = bytes(12) + b"\x08\x06" + b"\xff" * 30
    assert switch.process(1, frame) == [(GOOD, frame)]
