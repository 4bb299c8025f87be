# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Where P4 leaves things open, bmv2's behaviour: each expectation here was seen on simple_switch_grpc 1.15.5."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from softswitch.switch import SoftSwitch

FIRST = bytes.fromhex("a123beef")  # pair_t: high 0xa, low 0x123, more 0xbeef
LENGTH = 8 + 4 + 2


@pytest.fixture
def switch(switch_for: Callable[[str], SoftSwitch]) -> SoftSwitch:
    return switch_for("corner")


def ask(what: int, index: int = 0, value: int = 0, answer: int = 0) -> bytes:
    return struct.pack(">BBHI", what, index, value, answer)


def run(switch: SoftSwitch, frame: bytes) -> bytes:
    ((port, out),) = switch.process(1, frame)
    assert port == 1
    return out


@pytest.mark.parametrize(
    ("what", "before", "first", "length"),
    [
        (0x80, b"", bytes(4), LENGTH),  # removed and added again: cleared
        (0x81, b"", FIRST, LENGTH),  # setValid on a valid header keeps its fields
        (0x82, b"", b"", LENGTH - 4),  # removed
        (0x83, b"", FIRST, LENGTH),  # what is written to an invalid header goes nowhere
        (0x84, bytes(4), FIRST, LENGTH + 4),  # and is cleared when the header becomes valid
        (0x85, FIRST, b"", LENGTH),  # a copy is valid, and counted in no packet_length; egress removed the original
        (0x86, b"\xf1\x23\xbe\xef", b"\xa0\x07\xbe\xef", LENGTH),  # a copy is a value, not a reference
    ],
)
def test_headers_that_come_and_go(switch: SoftSwitch, what: int, before: bytes, first: bytes, length: int) -> None:
    out = run(switch, ask(what) + FIRST + b"XY")
    assert out == before + ask(what, answer=length) + first + b"XY"


def test_copy_of_an_invalid_header_is_invalid(switch: SoftSwitch) -> None:
    assert run(switch, ask(0x05) + b"XY") == ask(0x05, answer=10) + b"XY"


@pytest.mark.parametrize(("index", "answer"), [(3, 0x1234), (4, 0), (255, 0)])
def test_indices_past_the_end(switch: SoftSwitch, index: int, answer: int) -> None:
    assert run(switch, ask(0x08, index, 0x1234)) == ask(0x08, index, 0x1234, answer)
    counted = [switch.read_counter("ingress.events", cell).packets for cell in range(4)]
    assert counted == [0, 0, 0, int(index == 3)]


def test_product_wraps_at_its_width(switch: SoftSwitch) -> None:
    assert run(switch, ask(0x09, 0, 0xFFFF)) == ask(0x09, 0, 0xFFFF, 0xFFFF * 7 % 0x10000)


@pytest.mark.parametrize("distance", [0, 1, 31, 32, 200])
def test_long_shifts_leave_nothing(switch: SoftSwitch, distance: int) -> None:
    expected = (0x80000001 << distance) % (1 << 32) | 0xFFFF >> distance
    assert run(switch, ask(0x0A, distance, 0xFFFF, 0x80000001)) == ask(0x0A, distance, 0xFFFF, expected)


@pytest.mark.parametrize("value", [0, 99, 100, 0x7FFF, 0x8000, 0xFFFA, 0xFFFB, 0xFFFF])
def test_signed_comparison_and_slice(switch: SoftSwitch, value: int) -> None:
    signed = value - 0x10000 if value & 0x8000 else value
    answer = 1 if signed < -5 else 2 if signed >= 100 else 0
    assert run(switch, ask(0x0B, 0, value)) == ask(0x0B, signed * 3 & 0xFF, value, answer)


def test_a_hash_over_fields_of_a_header_that_is_valid_or_not(switch: SoftSwitch) -> None:
    assert run(switch, ask(0x8E, 0, 7) + FIRST) == ask(0x8E, 0, 7, 0xFFFF - (0xA123 + 0xBEEF + 7) % 0xFFFF) + FIRST
    assert run(switch, ask(0x13, 0, 7)) == ask(0x13, 0, 7, 0xFFFF - 7)


def test_identity_and_xor(switch: SoftSwitch) -> None:
    assert run(switch, ask(0x0C, 0x56, 0x1234)) == ask(0x0C, 0x56, 0x1234, 0x123456)
    assert run(switch, ask(0x0D, 0x56, 0x1234)) == ask(0x0D, 0x56, 0x1234, 0x1234 ^ 0x0D56)


def test_port_511_drops(switch: SoftSwitch) -> None:
    assert switch.process(1, ask(0x0E)) == []


def test_egress_port_is_zero_in_ingress(switch: SoftSwitch) -> None:
    assert run(switch, ask(0x0F)) == bytes(4) + ask(0x0F, answer=5)


def test_egress_spec_reads_zero_in_egress_and_does_not_move_the_packet(switch: SoftSwitch) -> None:
    assert run(switch, ask(0x10, answer=9)) == ask(0x10, answer=0)
    assert run(switch, ask(0x11)) == ask(0x11)


def test_exit_in_egress(switch: SoftSwitch) -> None:
    assert run(switch, ask(0x40)) == ask(0x40, 0x77)
