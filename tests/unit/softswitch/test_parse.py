# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Parsers, header stacks and unions in both engines."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable

import pytest
from softswitch.errors import UnsupportedProgramError
from softswitch.program.load.program import load_program
from softswitch.switch import EngineChoice, SoftSwitch

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


SwitchFor = Callable[[str], SoftSwitch]

MIDDLE, LAST = "0010", "0021"
OPTIONS = "02 aabb ee"
SHORT, LONG = "01 5a", "02 112233"
MANY = "03 77 04 445566"
ENDED, STACK_TOO_SHORT, STACK_FULL, TOO_LONG = 0, 1, 2, 3


def frame(*parts: str) -> bytes:
    return bytes.fromhex("".join(parts))


def ran(switch: SoftSwitch, *parts: str) -> list[tuple[int, bytes]]:
    return switch.process(5, frame(*parts))


@pytest.mark.parametrize("labels", [LAST, MIDDLE + LAST, MIDDLE * 2 + LAST])
def test_what_is_parsed_leaves_as_it_came(switch_for: SwitchFor, labels: str) -> None:
    switch = switch_for("stacks")
    for tail in ("", SHORT, LONG, SHORT + MANY, LONG + MANY + "99"):
        parts = ("0000", labels, OPTIONS, tail)
        # The parser looks a byte ahead behind the last union.
        assert ran(switch, *parts, "00") == [(ENDED, frame(*parts, "00"))]


def test_a_stack_that_is_full_ends_the_parser_before_the_frame_does(switch_for: SwitchFor) -> None:
    parts = ("0000", MIDDLE * 3)
    assert ran(switch_for("stacks"), *parts) == [(STACK_FULL, frame(*parts))]
    assert ran(switch_for("stacks"), "0000", MIDDLE * 2) == [(STACK_TOO_SHORT, frame("0000", MIDDLE * 2))]


@pytest.mark.parametrize(
    ("options", "port"),
    [
        ("00 ee", ENDED),
        ("08 0102030405060708 ee", ENDED),
        ("09 010203040506070809 ee", TOO_LONG),
        ("08 01020304050607", STACK_TOO_SHORT),
        ("", STACK_TOO_SHORT),
    ],
)
def test_the_length_of_a_varbit_field(switch_for: SwitchFor, options: str, port: int) -> None:
    tail = "00" if port == ENDED else ""
    parts = ("0000", LAST, options, tail)
    assert ran(switch_for("stacks"), *parts) == [(port, frame(*parts))]


def test_push_and_pop(switch_for: SwitchFor) -> None:
    switch, rest = switch_for("stacks"), (OPTIONS, "00")
    pushed = "f578"  # 0x7abc and a last bit of 0
    assert ran(switch, "0100", LAST, *rest) == [(0, frame("0100", pushed, LAST, *rest))]
    assert ran(switch, "0100", MIDDLE, MIDDLE, LAST, *rest) == [(0, frame("0100", pushed, MIDDLE, MIDDLE, *rest))]
    assert ran(switch, "0200", MIDDLE, LAST, *rest) == [(0, frame("0200", LAST, *rest))]
    assert ran(switch, "0200", LAST, *rest) == [(0, frame("0200", *rest))]


@pytest.mark.parametrize("index", range(4))
def test_an_index_known_at_run_time(switch_for: SwitchFor, index: int) -> None:
    switch, rest = switch_for("stacks"), (OPTIONS, "00")
    labels = ["0010", "0030", "0051"]
    written = list(labels)
    if index < 3:
        written[index] = f"{0x1234 << 1 | int(index == 2):04x}"
    assert ran(switch, f"030{index}", *labels, *rest) == [(0, frame(f"030{index}", *written, *rest))]
    if index < 3:  # past the end of a stack P4 leaves open what is read
        read = int(labels[index], 16) >> 1
        assert ran(switch, f"040{index}", *labels, *rest) == [(0, frame(f"04{read:02x}", *labels, *rest))]


def test_a_copied_header_has_the_length_of_its_source(switch_for: SwitchFor) -> None:
    parts = (LAST, OPTIONS, SHORT, "00")
    assert ran(switch_for("stacks"), "0500", *parts) == [(0, frame("0500", *parts))]


def test_one_member_of_a_union_is_valid(switch_for: SwitchFor) -> None:
    switch, rest = switch_for("stacks"), (LAST, OPTIONS)
    assert ran(switch, "0600", *rest, SHORT, "00") == [(0, frame("0600", *rest, "02 abcdef", "00"))]
    assert ran(switch, "0700", *rest, SHORT, MANY, "00") == [(0, frame("0700", *rest, SHORT, "04 445566", "00"))]
    assert ran(switch, "0800", *rest, SHORT, "00") == [(0, frame("0801", *rest, SHORT, "00"))]
    assert ran(switch, "0809", *rest, "00") == [(0, frame("0800", *rest, "00"))]


def test_a_loop_without_end_is_a_parser_timeout(program_text: Callable[[str], str], engine: EngineChoice) -> None:
    root = json.loads(program_text("stacks"))
    states = {state["name"]: state for state in root["parsers"][0]["parse_states"]}
    for transition in states["parse_label"]["transitions"]:
        transition["next_state"] = "again"
    again = copy.deepcopy(states["parse_many"])
    again |= {"name": "again", "id": 99, "transition_key": [], "parser_ops": []}
    again["transitions"] = [{"type": "default", "value": None, "mask": None, "next_state": "again"}]
    root["parsers"][0]["parse_states"].append(again)
    switch = SoftSwitch(json.dumps(root), engine=engine)
    assert ran(switch, "0000", LAST) == [(4, frame("0000", LAST))]


@pytest.mark.parametrize(
    ("section", "member", "value", "rule"),
    [
        ("header_stacks", "header_ids", [2, 2], "different headers of one type"),
        ("header_stacks", "header_ids", [1, 3], "different headers of one type"),
        ("header_stacks", "header_ids", [77], "is nothing's id"),
        ("header_unions", "header_ids", [4], "the 2 members of the union"),
        ("header_union_stacks", "header_union_ids", [], "unions of one type"),
        ("header_stacks", "header_ids", list(range(129)), "at most 128"),
    ],
)
def test_malformed_stacks_and_unions(
    program_text: Callable[[str], str], section: str, member: str, value: object, rule: str
) -> None:
    root = json.loads(program_text("stacks"))
    root[section][0][member] = value
    with pytest.raises(UnsupportedProgramError, match=rule):
        load_program(json.dumps(root))


def test_operands_that_p4c_writes_seldom(program_text: Callable[[str], str], engine: EngineChoice) -> None:
    """The validity of an element at a computed index, and the last element as a whole header."""
    root = json.loads(program_text("stacks"))
    action = next(a for a in root["actions"] if any(p["op"] == "push" for p in a["primitives"]))
    index = {"type": "field", "value": ["command", "index"]}
    stack = {"type": "header_stack", "value": "labels"}
    element = {"type": "expression", "value": {"op": "dereference_header_stack", "left": stack, "right": index}}
    last = {"type": "expression", "value": {"type": "stack_field", "value": ["labels", "last"]}}
    action["primitives"] = [
        {"op": "assign", "parameters": [index, {"type": "field", "value": [element, "$valid$"]}]},
        {"op": "assign_header", "parameters": [{"type": "header", "value": "labels[0]"}, last]},
    ]
    switch, rest = SoftSwitch(json.dumps(root), engine=engine), (OPTIONS, "00")
    assert ran(switch, "0101", MIDDLE, LAST, *rest) == [(0, frame("0101", LAST, LAST, *rest))]
    assert ran(switch, "0102", MIDDLE, LAST, *rest) == [(0, frame("0100", LAST, LAST, *rest))]
