# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which entries are idle, and since when. Time is the test's, and so is each look."""

from __future__ import annotations

from helpers.p4runtime.client import Program
from helpers.p4runtime.fake_device import FakeDevice
from softswitch.p4runtime.idle import SHORTEST_NS, IdleTimeouts
from softswitch.p4runtime.p4info import parse
from softswitch.p4runtime.pipeline import fitted
from softswitch.p4runtime.profiles import EntryKey
from softswitch.program.load.program import load_program
from softswitch.runtime.entries import ActionCall, CounterValue, Entry, Exact

TABLE = "ingress.hosts"
HOUR_NS = 3600 * 10**9


class Switch:
    """Entries by the number that they match."""

    def __init__(self) -> None:
        program = Program("idle")
        self.device = FakeDevice()
        self.device.load(fitted(load_program(program.json.decode()), parse(program.p4info)))
        self.now_ns = 0
        self.idle_ones: list[int] = []
        self.timeouts = IdleTimeouts(self.device, self._notify, lambda: self.now_ns)
        self.timeouts._start = lambda: None  # type: ignore[method-assign] # only the test looks

    def _notify(self, entries: list[EntryKey]) -> None:
        self.idle_ones += sorted(key[0].value for _, key, _ in entries if isinstance(key[0], Exact))

    def insert(self, number: int, timeout_ns: int) -> EntryKey:
        key = (Exact(number),)
        self.device.insert(TABLE, Entry(key, ActionCall("ingress.seen")))
        self.timeouts.write((TABLE, key, 0), timeout_ns)
        return TABLE, key, 0

    def hit(self, number: int, packets: int) -> None:
        self.device.write_direct_counter(TABLE, (Exact(number),), 0, CounterValue(packets, 0))

    def look(self, now_ns: int) -> list[int]:
        self.now_ns = now_ns
        self.timeouts.look()
        found, self.idle_ones = self.idle_ones, []
        return found


def test_an_entry_is_notified_after_each_timeout_without_a_hit() -> None:
    switch = Switch()
    first, _ = switch.insert(1, HOUR_NS), switch.insert(2, 2 * HOUR_NS)
    switch.insert(3, 0)
    assert switch.look(HOUR_NS - 1) == []
    assert switch.look(HOUR_NS) == [1]
    assert switch.look(2 * HOUR_NS - 1) == []
    switch.hit(2, 5)
    assert switch.look(2 * HOUR_NS) == [1]
    assert switch.look(3 * HOUR_NS - 1) == []
    assert switch.look(4 * HOUR_NS) == [1, 2]
    switch.timeouts.write(first, 0)
    assert switch.look(9 * HOUR_NS) == [2]
    switch.device.delete(TABLE, (Exact(2),))
    switch.timeouts.delete((TABLE, (Exact(2),), 0))
    assert switch.look(99 * HOUR_NS) == []
    switch.timeouts.end()


def test_time_since_the_last_hit() -> None:
    switch = Switch()
    where = switch.insert(1, 0)
    switch.now_ns = 70
    assert switch.timeouts.elapsed_ns(where, 0) == 70
    assert switch.timeouts.elapsed_ns(where, 3) == 0
    switch.now_ns = 100
    assert switch.timeouts.elapsed_ns(where, 3) == 30
    assert switch.timeouts.timeout_ns(where) == 0
    switch.timeouts.end()


def test_looks_are_a_quarter_of_the_shortest_timeout_apart_and_not_closer_than_the_least() -> None:
    switch = Switch()
    assert switch.timeouts.look() == SHORTEST_NS
    switch.insert(1, HOUR_NS)
    switch.insert(2, 8 * HOUR_NS)
    assert switch.timeouts.look() == HOUR_NS // 4
    switch.timeouts.end()
