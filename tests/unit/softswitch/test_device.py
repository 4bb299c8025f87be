# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Writes that the device refuses, and what the control plane reads back."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from softswitch.errors import (
    DeviceError,
    EntryExistsError,
    InvalidEntryError,
    NotFoundError,
    TableFullError,
    UnsupportedProgramError,
)
from softswitch.runtime.entries import ActionCall, CounterValue, Entry, Exact, Lpm, Range, Replica, Ternary
from softswitch.switch import EngineChoice, SoftSwitch

NOTHING = ActionCall("ingress.nothing")


@pytest.fixture
def switch(switch_for: Callable[[str], SoftSwitch]) -> SoftSwitch:
    return switch_for("tables")


@pytest.mark.parametrize(
    ("table", "entry", "words"),
    [
        ("exact_pair", Entry((Exact(1),), NOTHING), "1 key fields, the table has 2"),
        ("exact_pair", Entry((Exact(256), Exact(0)), NOTHING), "0x100 does not fit in 8 bits"),
        ("exact_pair", Entry((Exact(-1), Exact(0)), NOTHING), "does not fit"),
        ("exact_pair", Entry((Lpm(1, 8), Exact(0)), NOTHING), "Lpm, the key is matched by exact"),
        ("exact_pair", Entry((Exact(1), Exact(0)), ActionCall("ingress.leave")), "has no action ingress.leave"),
        ("exact_pair", Entry((Exact(1), Exact(0)), ActionCall("ingress.mark")), "0 arguments, it has 1 parameters"),
        ("exact_pair", Entry((Exact(1), Exact(0)), ActionCall("ingress.mark_and_send", (0, 512))), "port: 0x200"),
        ("exact_pair", Entry((Exact(1), Exact(0)), NOTHING, priority=1), "priority 1"),
        ("longest", Entry((Lpm(1, 33),), NOTHING), "prefix length 33 is not in 0..32"),
        ("longest", Entry((Lpm(1, 8),), NOTHING), "bits behind its 8-bit prefix"),
        ("longest", Entry((Lpm(0, 0),), NOTHING, counter=CounterValue(1, 1)), "no direct counter"),
        ("masked", Entry((Ternary(3, 1), Ternary(0, 0), Exact(0)), NOTHING, 1), "bits outside its mask"),
        ("masked", Entry((Ternary(1, 1), Ternary(0, 0), Exact(0)), NOTHING), "priority 0"),
        ("between", Entry((Range(2, 1), Exact(0)), NOTHING, 1), "is empty"),
        ("between", Entry((Range(0, 1 << 16), Exact(0)), NOTHING, 1), "does not fit in 16 bits"),
        ("fixed_exact", Entry((Exact(9),), NOTHING), "entries are constant"),
    ],
)
def test_an_entry_that_does_not_fit_is_refused(switch: SoftSwitch, table: str, entry: Entry, words: str) -> None:
    before = switch.entries(f"ingress.{table}")
    with pytest.raises(InvalidEntryError, match=re.escape(words)):
        switch.insert(f"ingress.{table}", entry)
    assert switch.entries(f"ingress.{table}") == before


def test_the_same_key_twice_and_a_full_table(switch: SoftSwitch) -> None:
    for number in range(4):
        switch.insert("ingress.exact_pair", Entry((Exact(number), Exact(0)), NOTHING))
    with pytest.raises(EntryExistsError):
        switch.insert("ingress.exact_pair", Entry((Exact(3), Exact(0)), NOTHING))
    with pytest.raises(TableFullError, match="all 4 entries"):
        switch.insert("ingress.exact_pair", Entry((Exact(4), Exact(0)), NOTHING))
    switch.delete("ingress.exact_pair", (Exact(0), Exact(0)))
    switch.insert("ingress.exact_pair", Entry((Exact(4), Exact(0)), NOTHING))


def test_what_is_not_there(switch: SoftSwitch) -> None:
    missing = (Exact(1), Exact(2))
    with pytest.raises(NotFoundError):
        switch.delete("ingress.exact_pair", missing)
    with pytest.raises(NotFoundError):
        switch.modify("ingress.exact_pair", Entry(missing, NOTHING))
    with pytest.raises(NotFoundError):
        switch.write_direct_counter("ingress.exact_pair", missing, 0, CounterValue())
    with pytest.raises(NotFoundError, match=r"ingress\.absent"):
        switch.entries("ingress.absent")
    with pytest.raises(NotFoundError):
        switch.registers("ingress.absent")
    with pytest.raises(NotFoundError):
        switch.delete_group(3)


def test_default_actions(switch: SoftSwitch) -> None:
    assert switch.default_action("ingress.longest") == ActionCall("ingress.mark", (0xFFFF,))
    with pytest.raises(InvalidEntryError, match="constant"):
        switch.set_default_action("ingress.masked", ActionCall("ingress.mark", (1,)))
    with pytest.raises(InvalidEntryError):
        switch.set_default_action("ingress.longest", ActionCall("ingress.leave"))
    assert switch.default_action("ingress.longest") == ActionCall("ingress.mark", (0xFFFF,))


def test_counters(switch_for: Callable[[str], SoftSwitch]) -> None:
    switch = switch_for("cpu")
    frame = bytes(12) + b"\x12\x34" + b"data"
    for _ in range(3):
        switch.process(5, frame)
    switch.process(15, frame)
    switch.process(16, frame)  # past the end of 16 cells: counted nowhere
    values = [switch.read_counter("ingress.ports", index) for index in range(switch.counter_size("ingress.ports"))]
    assert values == [CounterValue(3, 54) if i == 5 else CounterValue(i == 15, 18 * (i == 15)) for i in range(16)]
    switch.write_counter("ingress.ports", 5, CounterValue(100, 1000))
    switch.process(5, frame)
    assert switch.read_counter("ingress.ports", 5) == CounterValue(101, 1018)
    for index in (-1, 16):
        with pytest.raises(NotFoundError):
            switch.read_counter("ingress.ports", index)
    with pytest.raises(NotFoundError):
        switch.counter_size("ingress.forwarded")


def test_groups_are_checked_and_read_back(switch: SoftSwitch) -> None:
    switch.set_group(1, [Replica(1, 0), Replica(2, 0)])
    switch.set_group(1, [Replica(3, 7)])
    assert switch.groups() == {1: (Replica(3, 7),)}
    for group, replicas in ((0, []), (65536, []), (2, [Replica(511, 0)]), (2, [Replica(1, 1), Replica(1, 1)])):
        with pytest.raises(InvalidEntryError):
            switch.set_group(group, replicas)
    switch.delete_group(1)
    assert switch.groups() == {}


def test_a_refused_program_leaves_the_old_one_running(switch: SoftSwitch) -> None:
    switch.insert("ingress.exact_pair", Entry((Exact(1), Exact(2)), NOTHING))
    with pytest.raises(UnsupportedProgramError):
        switch.load("{}")
    assert len(switch.entries("ingress.exact_pair")) == 1


def test_loading_again_forgets_everything(switch: SoftSwitch, program_text: Callable[[str], str]) -> None:
    switch.insert("ingress.exact_pair", Entry((Exact(1), Exact(2)), NOTHING))
    switch.set_group(1, [Replica(1, 0)])
    switch.load(program_text("tables"))
    assert switch.entries("ingress.exact_pair") == []
    assert switch.groups() == {}


def test_without_a_program(engine: EngineChoice) -> None:
    switch = SoftSwitch(engine=engine)
    assert switch.process(1, b"frame") == []
    switch.inject(1, b"frame")
    with pytest.raises(DeviceError, match="no program is"):
        switch.entries("t")


def test_cpu_frames_go_to_the_callback_and_others_to_the_wire(switch_for: Callable[[str], SoftSwitch]) -> None:
    switch = switch_for("cpu")
    to_cpu: list[bytes] = []
    sent: list[tuple[int, bytes]] = []
    switch.on_cpu_frame(to_cpu.append)
    switch.on_transmit(lambda port, frame: sent.append((port, frame)))
    lldp = bytes(12) + b"\x88\xcc" + b"data"
    switch.receive(3, lldp)
    # packet_in: ingress port 3 in 9 bits, reason 5 in 7 bits.
    assert to_cpu == [(3 << 7 | 5).to_bytes(2) + lldp]
    switch.inject(510, (7 << 7).to_bytes(2) + b"\x01" * 14 + b"out")
    assert sent == [(7, b"\x01" * 14 + b"out")]
    switch.on_cpu_frame(None)
    switch.receive(3, lldp)
    assert len(to_cpu) == 1
