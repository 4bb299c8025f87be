# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Parser: select, masks, ranges, lookahead, advance, verify, short packets. Ports 1..4 tell what ingress saw."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from softswitch.switch import SoftSwitch

MACS = bytes.fromhex("0200000000020200000000aa")
NO_ERROR, TOO_SHORT, BAD_VERSION = 1, 2, 3

ITEM = bytes.fromhex("45071234")  # version 4, flags 5, length 7


@pytest.fixture
def switch(switch_for: Callable[[str], SoftSwitch]) -> SoftSwitch:
    return switch_for("parse")


def ethernet(kind: int) -> bytes:
    return MACS + kind.to_bytes(2)


def test_default_transition_accepts_and_keeps_the_frame(switch: SoftSwitch) -> None:
    frame = ethernet(0x1234) + b"payload"
    assert switch.process(1, frame) == [(NO_ERROR, frame)]


@pytest.mark.parametrize("kind", [0x9000, 0x90FF])
def test_masked_select_reaches_the_item(switch: SoftSwitch, kind: int) -> None:
    note = bytes.fromhex("beef0304") + b"\x01"  # a=0xbe b=0xef (-17) c=0x030401
    frame = ethernet(kind) + ITEM + note + b"rest"
    # a = the byte looked at before the item (0x45), b = 17, c = the length of the packet.
    expected = ethernet(kind) + ITEM + bytes([0x45, 17]) + len(frame).to_bytes(3) + b"rest"
    assert switch.process(1, frame) == [(NO_ERROR, expected)]


def test_a_select_on_the_port_comes_before_the_wider_case(switch: SoftSwitch) -> None:
    note = bytes.fromhex("f003000000")
    frame = ethernet(0x9000) + b"SKIP" + ITEM + note
    # Skipped bytes belong to no header: they are gone when the headers are written again.
    expected = ethernet(0x9000) + ITEM + bytes([0x45, 253]) + len(frame).to_bytes(3)
    assert switch.process(3, frame) == [(NO_ERROR, expected)]


@pytest.mark.parametrize(("word", "is_note"), [(0xEFFF, False), (0xF000, True), (0xF003, True), (0xF004, False)])
def test_range_select_has_its_edges(switch: SoftSwitch, word: int, is_note: bool) -> None:
    frame = ethernet(0x9000) + ITEM + word.to_bytes(2) + b"\xff\xff\xff"
    # bmv2 accepts where no case matches and there is no default: no error NoMatch.
    ((port, out),) = switch.process(1, frame)
    assert (port, out != frame) == (NO_ERROR, is_note)


def test_verify_sets_the_programs_own_error_and_stops(switch: SoftSwitch) -> None:
    frame = ethernet(0x9000) + b"\x35" + ITEM[1:] + bytes.fromhex("beef030401")
    # The note is not extracted: it stays payload and is not rewritten.
    assert switch.process(1, frame) == [(BAD_VERSION, frame)]


@pytest.mark.parametrize("size", range(14))
def test_a_packet_shorter_than_the_first_header_is_all_payload(switch: SoftSwitch, size: int) -> None:
    frame = ethernet(0x9000)[:size]
    assert switch.process(1, frame) == [(TOO_SHORT, frame)]


@pytest.mark.parametrize("size", range(14, 18))
def test_a_header_that_does_not_fit_is_not_extracted(switch: SoftSwitch, size: int) -> None:
    frame = (ethernet(0x9000) + ITEM)[:size]
    assert switch.process(1, frame) == [(TOO_SHORT, frame)]


@pytest.mark.parametrize("size", range(2))
def test_lookahead_past_the_end_is_too_short(switch: SoftSwitch, size: int) -> None:
    frame = ethernet(0x9000) + ITEM + bytes(size)
    assert switch.process(1, frame) == [(TOO_SHORT, frame)]


@pytest.mark.parametrize("size", range(4))
def test_advance_past_the_end_is_too_short(switch: SoftSwitch, size: int) -> None:
    frame = ethernet(0x9000) + bytes(size)
    assert switch.process(3, frame) == [(TOO_SHORT, frame)]


def test_an_invalid_header_is_not_emitted_and_fields_of_odd_width_survive(switch: SoftSwitch) -> None:
    frame = ethernet(0x7100) + bytes.fromhex("b123 4567") + b"tail"
    # The tag is removed after its kind went into the Ethernet header.
    assert switch.process(1, frame) == [(NO_ERROR, MACS + bytes.fromhex("4567") + b"tail")]


def test_empty_frame(switch: SoftSwitch) -> None:
    assert switch.process(1, b"") == [(TOO_SHORT, b"")]
