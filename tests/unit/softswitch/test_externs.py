# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Value sets, meters, digests and action profiles, in both engines.

A packet is what it asks for, an index, a colour and whether the value set knows it; it leaves by port 1.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from softswitch.errors import InvalidEntryError, NotFoundError, TableFullError, UnsupportedProgramError
from softswitch.runtime import tables
from softswitch.runtime.entries import ActionCall, ActionSet, Entry, Exact, KeyMatch, Lpm, MeterRates, Range, Ternary
from softswitch.switch import EngineChoice, SoftSwitch

PACKETS, BYTES, DIGEST = 1, 2, 3
GREEN, YELLOW, RED, NOT_METERED = 0, 1, 2, 3
CRC16 = [0, 0xC0C1, 0xC181, 0x0140]  # CRC-16/ARC of the bytes 0, 1, 2 and 3
KNOWN = "MyParser.known_pairs"


class Clock:
    def __init__(self) -> None:
        self.now_us = 1_000_000

    def __call__(self) -> int:
        return self.now_us


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def switch(program_text: Callable[[str], str], engine: EngineChoice, clock: Clock) -> SoftSwitch:
    return SoftSwitch(program_text("externs"), engine=engine, clock=clock)


def ran(switch: SoftSwitch, what: int, index: int, more: int = 0) -> bytes:
    ((port, frame),) = switch.process(5, bytes([what, index, 0, 0]) + bytes(more))
    assert port == 1
    return frame[:4]


def colours(switch: SoftSwitch, what: int, count: int, more: int = 0) -> list[int]:
    return [ran(switch, what, 2, more)[2] for _ in range(count)]


def test_a_value_set(switch: SoftSwitch) -> None:
    assert ran(switch, 9, 7)[3] == 0
    switch.set_value_set(KNOWN, [(9, 7), (7, 9)])
    assert [ran(switch, *pair)[3] for pair in ((9, 7), (7, 9), (9, 9), (7, 7))] == [1, 1, 0, 0]
    switch.set_value_set(KNOWN, [(9, 9)])
    assert [ran(switch, *pair)[3] for pair in ((9, 7), (9, 9))] == [0, 1]
    switch.set_value_set(KNOWN, [])
    assert ran(switch, 9, 9)[3] == 0


@pytest.mark.parametrize(
    ("match", "holds"),
    [
        (Lpm(0x40, 2), lambda value: 0x40 <= value < 0x80),
        (Lpm(0, 0), lambda value: True),
        (Ternary(0x05, 0x0F), lambda value: value % 16 == 5),
        (Range(3, 200), lambda value: 3 <= value <= 200),
        (Range(0, 255), lambda value: True),
        (Range(77, 77), lambda value: value == 77),
    ],
)
def test_members_with_masks(switch: SoftSwitch, match: KeyMatch, holds: Callable[[int], bool]) -> None:
    switch.set_value_set(KNOWN, [(Exact(9), match)])
    assert [ran(switch, 9, value)[3] for value in range(256)] == [int(holds(value)) for value in range(256)]
    assert ran(switch, 8, 77)[3] == 0


def test_a_range_takes_no_more_prefixes_than_it_needs(switch: SoftSwitch, monkeypatch: pytest.MonkeyPatch) -> None:
    """1 to 254 is 14 prefixes of 8 bits, the most that a range of them can take."""
    monkeypatch.setattr(tables, "SET_PATTERNS", 14 * 14)
    switch.set_value_set(KNOWN, [(Range(1, 254), Range(1, 254))])
    assert [ran(switch, *pair)[3] for pair in ((1, 254), (0, 1), (254, 255), (254, 1))] == [1, 0, 0, 1]
    with pytest.raises(TableFullError, match="more than 196 values"):
        switch.set_value_set(KNOWN, [(Range(1, 254), Range(1, 254)), (0, 0)])


def test_what_no_value_set_takes(switch: SoftSwitch) -> None:
    with pytest.raises(NotFoundError):
        switch.set_value_set("unknown", [])
    wrong = [Lpm(1, 7), Lpm(0, 9), Ternary(2, 1), Range(2, 1), Range(0, 256)]
    for member in ((256, 0), (1,), (1, 2, 3), (-1, 0), *((each, 0) for each in wrong)):
        with pytest.raises(InvalidEntryError, match="does not fit"):
            switch.set_value_set(KNOWN, [member])
    with pytest.raises(TableFullError):
        switch.set_value_set(KNOWN, [(number, 0) for number in range(5)])


def test_meters_that_nobody_configured_are_green(switch: SoftSwitch) -> None:
    assert colours(switch, PACKETS, 3) == [GREEN] * 3
    assert ran(switch, PACKETS, 4)[2] == NOT_METERED  # past the end: not written


def test_a_meter_of_packets(switch: SoftSwitch, clock: Clock) -> None:
    """Two buckets, full at first: two packets are green, one more is within the peak."""
    switch.set_meter("MyIngress.packets", 2, MeterRates(committed=1, committed_burst=2, peak=10, peak_burst=3))
    assert colours(switch, PACKETS, 5) == [GREEN, GREEN, YELLOW, RED, RED]
    clock.now_us += 100_000  # one more in the peak bucket, none in the committed one
    assert colours(switch, PACKETS, 2) == [YELLOW, RED]
    clock.now_us += 900_000
    assert colours(switch, PACKETS, 4) == [GREEN, YELLOW, YELLOW, RED]
    switch.set_meter("MyIngress.packets", 2, None)
    assert colours(switch, PACKETS, 4) == [GREEN] * 4


def test_a_meter_of_bytes(switch: SoftSwitch) -> None:
    switch.set_meter("MyIngress.bytes", 2, MeterRates(1, 100, 1, 150))
    assert colours(switch, BYTES, 4, more=46) == [GREEN, GREEN, YELLOW, RED]


def test_what_no_meter_takes(switch: SoftSwitch) -> None:
    for name, index in (("unknown", 0), ("MyIngress.packets", 4), ("MyIngress.of_rows", 0)):
        with pytest.raises(NotFoundError):
            switch.set_meter(name, index, None)
    for rates in (
        MeterRates(2, 1, 1, 1),
        MeterRates(-1, 1, 1, 1),
        MeterRates(1, -1, 1, 1),
        MeterRates(1, 1, 1, 1 << 63),
    ):
        with pytest.raises(InvalidEntryError, match="packets"):
            switch.set_meter("MyIngress.packets", 0, rates)


def test_a_direct_meter_writes_its_colour_on_a_hit(switch: SoftSwitch) -> None:
    assert ran(switch, 9, 0)[2] == NOT_METERED
    switch.insert("MyIngress.metered", Entry((Exact(9),), ActionCall("MyIngress.colour_row")))
    assert ran(switch, 9, 0)[2] == GREEN


def test_a_direct_meter_has_rates_of_its_entry(switch: SoftSwitch, clock: Clock) -> None:
    table, key, other = "MyIngress.metered", (Exact(9),), (Exact(8),)
    for each in (key, other):
        switch.insert(table, Entry(each, ActionCall("MyIngress.colour_row")))
    switch.set_direct_meter(table, key, 0, MeterRates(committed=1, committed_burst=1, peak=10, peak_burst=2))
    assert colours(switch, 9, 3) == [GREEN, YELLOW, RED]
    assert colours(switch, 8, 3) == [GREEN] * 3
    clock.now_us += 100_000
    assert colours(switch, 9, 2) == [YELLOW, RED]
    switch.modify(table, Entry(key, ActionCall("NoAction")))  # the rates stay, and the buckets are full
    assert colours(switch, 9, 3) == [GREEN, YELLOW, RED]
    switch.set_direct_meter(table, key, 0, None)
    assert colours(switch, 9, 3) == [GREEN] * 3
    switch.set_direct_meter(table, key, 0, MeterRates(0, 0, 0, 0))
    switch.delete(table, key)
    assert ran(switch, 9, 0)[2] == NOT_METERED
    switch.insert(table, Entry(key, ActionCall("MyIngress.colour_row")))
    assert colours(switch, 9, 3) == [GREEN] * 3


def test_which_direct_meters_are_there(switch: SoftSwitch) -> None:
    with pytest.raises(NotFoundError, match="by_profile has no direct meter"):
        switch.set_direct_meter("MyIngress.by_profile", (Exact(9),), 0, None)
    with pytest.raises(NotFoundError, match="no entry"):
        switch.set_direct_meter("MyIngress.metered", (Exact(9),), 0, None)
    with pytest.raises(InvalidEntryError, match="rates are 0 <= committed <= peak"):
        switch.set_direct_meter("MyIngress.metered", (Exact(9),), 0, MeterRates(2, 1, 1, 1))


def test_a_digest(switch: SoftSwitch) -> None:
    learned: list[tuple[str, tuple[int, ...]]] = []
    ran(switch, DIGEST, 3)  # nobody listens
    switch.on_digest(lambda name, values: learned.append((name, values)))
    ran(switch, DIGEST, 0x81)
    ran(switch, PACKETS, 0)
    switch.on_digest(None)
    ran(switch, DIGEST, 3)
    assert learned == [("learned_t", (5, DIGEST, 0x102))]


@pytest.mark.parametrize("table", ["by_profile", "by_selector"])
def test_an_action_profile(switch: SoftSwitch, table: str) -> None:
    assert ran(switch, 9, 0)[1] == 0  # there is no default action
    switch.insert(f"MyIngress.{table}", Entry((Exact(9),), ActionCall("MyIngress.mark", (0x42,))))
    assert ran(switch, 9, 0)[1] == 0x42


def marks(*values: int) -> ActionSet:
    return ActionSet(tuple(ActionCall("MyIngress.mark", (value,)) for value in values))


def selected(action: ActionCall | ActionSet, what: int = 9) -> Entry:
    return Entry((Exact(what),), action)


def test_a_selector_chooses_by_its_key_and_the_entry_follows_changes(switch: SoftSwitch) -> None:
    table = "MyIngress.by_selector"
    switch.insert(table, selected(marks(10, 20, 30)))
    assert [ran(switch, 9, index)[1] for index in range(4)] == [(10, 20, 30)[crc % 3] for crc in CRC16]
    assert switch.entries(table) == [selected(marks(10, 20, 30))]
    switch.modify(table, selected(marks(40, 50)))
    assert [ran(switch, 9, index)[1] for index in range(4)] == [(40, 50)[crc % 2] for crc in CRC16]
    switch.modify(table, selected(ActionCall("MyIngress.mark", (7,))))
    assert ran(switch, 9, 1)[1] == 7
    switch.delete(table, (Exact(9),))
    assert ran(switch, 9, 2)[1] == 2  # the index that came


def test_what_a_table_does_not_choose_from(switch: SoftSwitch, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidEntryError, match="by_profile has no action selector"):
        switch.insert("MyIngress.by_profile", selected(marks(1, 2)))
    for count in (0, 257):
        with pytest.raises(InvalidEntryError, match=f"{count} actions of one entry, of 1..256"):
            switch.insert("MyIngress.by_selector", selected(marks(*([1] * count))))
    monkeypatch.setattr(tables, "TABLE_CHOICES", 5)
    switch.insert("MyIngress.by_selector", selected(marks(1, 2, 3)))
    with pytest.raises(TableFullError, match="and these would be 6"):
        switch.insert("MyIngress.by_selector", selected(marks(1, 2, 3), what=8))
    switch.modify("MyIngress.by_selector", selected(marks(1)))
    switch.insert("MyIngress.by_selector", selected(marks(1, 2, 3), what=8))
    switch.delete("MyIngress.by_selector", (Exact(8),))
    switch.modify("MyIngress.by_selector", selected(marks(1, 2, 3, 4, 5)))


@pytest.mark.parametrize("algorithm", ["[]", "{}", "7", "null"])
def test_a_selector_whose_hash_is_no_name(
    program_text: Callable[[str], str], engine: EngineChoice, algorithm: str
) -> None:
    with pytest.raises(UnsupportedProgramError, match="algo"):
        SoftSwitch(program_text("externs").replace('"algo" : "crc16"', f'"algo" : {algorithm}'), engine=engine)


def test_a_selector_with_another_hash_takes_single_actions_only(
    program_text: Callable[[str], str], engine: EngineChoice
) -> None:
    other = program_text("externs").replace('"algo" : "crc16"', '"algo" : "round_robin"')
    switch = SoftSwitch(other, engine=engine)
    switch.insert("MyIngress.by_selector", selected(ActionCall("MyIngress.mark", (7,))))
    assert ran(switch, 9, 1)[1] == 7
    with pytest.raises(InvalidEntryError, match="no action selector with a hash"):
        switch.modify("MyIngress.by_selector", selected(marks(1, 2)))
