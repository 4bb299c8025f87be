# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The fuzzer of programs, and the packet tests of p4c's samples."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from unittest.mock import Mock

import pytest
from fuzz import programs
from fuzz.mutations import mutated
from fuzz.programs import FindingError, ProgramFuzzer
from fuzz.samples.stf import Add, Call, Command, Expect, PacketTestError, Send, SetDefault, StfError, StfRunner, parse
from softswitch.errors import UnsupportedProgramError
from softswitch.runtime.entries import Exact, Lpm, Replica
from softswitch.switch import SoftSwitch

MUTATIONS = 200
NAMES = ("checksum", "corner", "cpu", "multicast", "parse", "tables", "wide")


@pytest.fixture
def fuzzer(program_text: Callable[[str], str]) -> ProgramFuzzer:
    return ProgramFuzzer({name: program_text(name) for name in NAMES}, seed=5, compile_every=0)


def test_hostile_programs_load_or_are_refused(fuzzer: ProgramFuzzer) -> None:
    for number in range(MUTATIONS):
        fuzzer.run(number)
    counts = fuzzer.outcomes.counts
    assert sum(counts.values()) == MUTATIONS
    assert counts["refused"] > MUTATIONS // 3
    assert counts["loaded"] > MUTATIONS // 20


def test_a_number_repeats_a_mutation(program_text: Callable[[str], str]) -> None:
    root = json.loads(program_text("tables"))
    first, second = (mutated(root, random.Random("5:7")) for _ in range(2))
    assert json.dumps(first[0]) == json.dumps(second[0])
    assert first[1] == second[1]
    assert json.dumps(first[0]) != json.dumps(root)
    assert root == json.loads(program_text("tables"))


def until_found(fuzzer: ProgramFuzzer) -> str:
    with pytest.raises(FindingError) as caught:
        for number in range(20 * MUTATIONS):
            fuzzer.run(number)
    return str(caught.value)


@pytest.mark.parametrize(
    ("raised", "found"),
    [(KeyError("x"), "KeyError"), (UnsupportedProgramError("no place"), "a refusal without its place")],
)
def test_it_finds_an_exception_and_a_refusal_without_a_place(
    fuzzer: ProgramFuzzer, monkeypatch: pytest.MonkeyPatch, raised: Exception, found: str
) -> None:
    monkeypatch.setattr(programs, "load_program", Mock(side_effect=raised))
    assert found in until_found(fuzzer)


@pytest.mark.parametrize(
    ("module", "language", "changed"),
    [("softswitch.native.emit_code", "C", "\\"), ("softswitch.python.emit_code", "Python", "\n")],
)
def test_it_finds_an_escape(
    program_text: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, module: str, language: str, changed: str
) -> None:
    """Comments as they were, with one character replaced. Hostile names are given past the loader's whitelist."""
    monkeypatch.setattr(f"{module}.comment_text", lambda text: text.replace(changed, " "))
    fuzzer = ProgramFuzzer({"tables": program_text("tables")}, seed=5, compile_every=0, renamed_part=1.0)
    assert f"text escaped in {language}" in until_found(fuzzer)


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
