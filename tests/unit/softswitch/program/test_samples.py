# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Packet tests in p4c's format."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fuzz.samples.stf import Add, Call, Command, Expect, PacketTestError, Send, SetDefault, StfError, StfRunner, parse
from softswitch.runtime.entries import Exact, Lpm, Replica
from softswitch.switch import SoftSwitch

PASSES = """
# a label is pushed in front
packet 5 0100 0021 00 ee 00
expect 0 0100 f578 **21 00 ee 00 $
"""


def test_statements() -> None:
    assert parse(PASSES) == [
        Send(5, bytes.fromhex("01000021 00ee00")),
        Expect(0, "0100F578**2100EE00", whole=True),
    ]
    lines = (
        "add t 7 h.f:0x1*  k$1:0x0a000000/8 a.b(x:1, y:0x2) = $A",
        "setdefault t.u act()",
        "wait",
        "mirroring_add 5 3",
        "no_packet",
        "expect 4",
    )
    assert parse("\n".join(lines)) == [
        Add("t", 7, (("h.f", "0x1*"), ("k$1", "0x0a000000/8")), Call("a.b", (("x", "1"), ("y", "0x2")))),
        SetDefault("t.u", Call("act", ())),
        Command(("mirroring_add", "5", "3")),
        Expect(None),
        Expect(4),
    ]


@pytest.mark.parametrize("line", ["packet x 00", "packet 1 0", "add t", "add t k=3 a()", "setdefault t", "expect"])
def test_what_is_no_statement(line: str) -> None:
    with pytest.raises(StfError, match="line 2: "):
        parse(f"wait\n{line}")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (PASSES, ""),
        (PASSES.replace("f578", "f579"), "port 0, frame 0"),
        (PASSES.replace("00 $", "$"), "port 0, frame 0"),
        (PASSES.replace("expect 0", "expect 1"), "port 1: 0 frames left, 1 expected"),
        (PASSES + "expect 0 00", "port 0: 1 frames left, 2 expected"),
        (PASSES + "packet 5 0000 0021 00 ee 00", "port 0: 2 frames left, 1 expected"),
    ],
)
def test_a_packet_test_finds_what_differs(program_text: Callable[[str], str], text: str, fault: str) -> None:
    outcome = StfRunner(SoftSwitch(program_text("stacks"), engine="python")).run(parse(text))
    assert [found for found in outcome.faults if fault in found] == outcome.faults
    assert bool(outcome.faults) == bool(fault)


def test_tables_sessions_and_groups(program_text: Callable[[str], str]) -> None:
    switch = SoftSwitch(program_text("tables"), engine="python")
    named = switch.loaded.program.tables["ingress.longest"]
    action = next(a for a in switch.loaded.program.actions if a.index == named.actions[0])
    args = ", ".join(f"{parameter.name}:1" for parameter in action.parameters)
    key = named.keys[0].name
    text = (
        f"add longest {key}:0x0a0b0000/16 {action.name}({args})\n"
        "mirroring_add 3 7\nmc_mgrp_create 9\nmc_node_create 400 6\nmc_node_associate 9 0"
    )
    StfRunner(switch).run(parse(text))
    assert [entry.key for entry in switch.entries("ingress.longest")] == [(Lpm(0x0A0B0000, 16),)]
    assert switch.sessions() == {3: ((Replica(7, 0),), 0)}
    assert switch.groups() == {9: (Replica(6, 400),)}
    for unknown in ("add longest nothing:1 x()", "add nowhere k:1 x()", "invent 3"):
        with pytest.raises(PacketTestError):
            StfRunner(switch).run(parse(unknown))
    assert Exact(1) != Lpm(1, 1)
