# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Loops in actions, assertions, and messages of whole headers, in both engines."""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from softswitch.errors import UnsupportedProgramError
from softswitch.program.load.program import load_program
from softswitch.switch import EngineChoice, SoftSwitch

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
