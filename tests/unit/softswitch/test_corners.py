# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Corners of bmv2's semantics, and loops in actions, in both engines."""

from __future__ import annotations

import copy
import json
import logging
import struct
from collections.abc import Callable
from typing import Any

import pytest
from softswitch.errors import UnsupportedProgramError
from softswitch.program.load.program import load_program
from softswitch.switch import EngineChoice, SoftSwitch

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


Json = Any
HERE = {"filename": "some.p4", "line": 77, "column": 1, "source_fragment": "x"}
COMMAND = ["command", "index"]


def field(*name: str) -> Json:
    return {"type": "field", "value": list(name)}


def number(value: int) -> Json:
    return {"type": "hexstr", "value": hex(value)}


def operation(op: str, left: Json, right: Json) -> Json:
    return {"type": "expression", "value": {"op": op, "left": left, "right": right}}


def call(op: str, *parameters: Json) -> Json:
    return {"op": op, "parameters": list(parameters), "source_info": HERE}


@pytest.fixture
def switch_with(program_text: Callable[[str], str], engine: EngineChoice) -> Callable[[list[Json]], SoftSwitch]:
    """The program of header stacks, with these primitives in the place of what it does for command 1."""

    def made(primitives: list[Json]) -> SoftSwitch:
        root = json.loads(program_text("stacks"))
        action = next(a for a in root["actions"] if any(p["op"] == "push" for p in a["primitives"]))
        action["primitives"] = copy.deepcopy(primitives)
        return SoftSwitch(json.dumps(root), engine=engine)

    return made


FRAME = bytes.fromhex("0103 0021 00ee 00")


def sum_of(limit: Json) -> list[Json]:
    """index = 1 + 2 + ... while the next number is at most ``limit``, counted in a label."""
    counter = field("labels[0]", "value")
    return [
        call("assign", field(*COMMAND), number(0)),
        call("assign", counter, number(1)),
        call("_jump_if_zero", operation("<=", counter, limit), number(6)),
        call("assign", field(*COMMAND), operation("&", operation("+", field(*COMMAND), counter), number(255))),
        call("assign", counter, operation("&", operation("+", counter, number(1)), number(0x7FFF))),
        call("_jump", number(2)),
    ]


def test_a_loop_counts(switch_with: Callable[[list[Json]], SoftSwitch]) -> None:
    ((_, frame),) = switch_with(sum_of(number(10))).process(1, FRAME)
    assert frame == bytes.fromhex("0137 0017 00ee 00")  # 55, and 11 in the label


def test_a_loop_without_end_ends(switch_with: Callable[[list[Json]], SoftSwitch]) -> None:
    ((_, frame),) = switch_with(sum_of(number(0x7FFF))).process(1, FRAME)
    # Two blocks before the first round, two in each: 32,767 rounds and a half, from 1 on modulo 2^15.
    assert frame[2:4] == (((1 + (65536 - 1) // 2) % 2**15) << 1 | 1).to_bytes(2)


def test_exit_in_a_loop_is_refused(program_text: Callable[[str], str]) -> None:
    root = json.loads(program_text("stacks"))
    root["actions"][0]["primitives"] = [call("exit"), call("_jump", number(0))]
    with pytest.raises(UnsupportedProgramError, match=r"some\.p4:77: exit in an action with a loop"):
        load_program(json.dumps(root))


@pytest.mark.parametrize("what", ["assert", "assume"])
def test_what_fails_is_said_and_the_packet_goes_on(
    switch_with: Callable[[list[Json]], SoftSwitch], what: str, caplog: pytest.LogCaptureFixture
) -> None:
    condition = operation("b2d", None, operation("==", field(*COMMAND), number(9)))
    switch = switch_with([call(what, condition)])
    with caplog.at_level(logging.INFO):
        assert switch.process(1, FRAME) == [(0, FRAME)]
        assert f"{what} failed: some.p4:77" in caplog.text
        caplog.clear()
        switch.process(1, FRAME[:1] + bytes([9]) + FRAME[2:])
        assert "failed" not in caplog.text


def test_standard_metadata_is_copied_to_a_header_and_logged(
    program_text: Callable[[str], str], engine: EngineChoice, caplog: pytest.LogCaptureFixture
) -> None:
    """That is how p4c writes log_msg of standard_metadata."""
    root = json.loads(program_text("stacks"))
    root["headers"].append({"name": "said", "id": 99, "header_type": "standard_metadata", "metadata": False})
    action = next(a for a in root["actions"] if any(p["op"] == "push" for p in a["primitives"]))
    whole = [{"type": "header", "value": name} for name in ("said", "standard_metadata")]
    values = {"type": "parameters_vector", "value": [field("said", "ingress_port"), field("said", "packet_length")]}
    nothing = {"type": "parameters_vector", "value": {}}
    action["primitives"] = [
        call("assign_header", *whole),
        call("log_msg", {"type": "string", "value": "port {} length {}"}, values),
        call("log_msg", {"type": "string", "value": "no more"}, nothing),
    ]
    switch = SoftSwitch(json.dumps(root), engine=engine)
    with caplog.at_level(logging.INFO):
        switch.process(5, FRAME)
    assert [record.getMessage() for record in caplog.records] == [f"port 5 length {len(FRAME)}", "no more"]
