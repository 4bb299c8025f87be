# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Look-ups of every match kind, constant entries, what follows a table, direct counters."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import pytest
from softswitch.errors import EntryExistsError
from softswitch.runtime.entries import ActionCall, CounterValue, Entry, Exact, KeyMatch, Lpm, Range, Ternary
from softswitch.switch import EngineChoice, SoftSwitch

EXACT, LPM, MASKED, RANGE, FIXED_EXACT, FIXED_TERNARY, OPTIONAL, FIXED_LPM, MIXED = range(9)
MISS_DEFAULT = 0xFFFF


@pytest.fixture
def switch(switch_for: Callable[[str], SoftSwitch]) -> SoftSwitch:
    return switch_for("tables")


def probe(which: int, small: int = 0, medium: int = 0, address: int = 0) -> bytes:
    return struct.pack(">BBHIQ", which, small, medium, address, 0)


def mark(value: int) -> ActionCall:
    return ActionCall("ingress.mark", (value,))


def look_up(switch: SoftSwitch, frame: bytes) -> tuple[int, int, int, int]:
    """Port, ``which``, ``medium`` and ``trace`` of the only frame that comes out."""
    ((port, out),) = switch.process(0, frame)
    which, _, medium, _, trace = struct.unpack(">BBHIQ", out)
    return port, which, medium, trace


def trace(switch: SoftSwitch, frame: bytes) -> int:
    return look_up(switch, frame)[3]


def test_exact_hit_and_miss_take_their_branches(switch: SoftSwitch) -> None:
    switch.insert("ingress.exact_pair", Entry((Exact(5), Exact(600)), ActionCall("ingress.mark_and_send", (77, 9))))
    assert look_up(switch, probe(EXACT, 5, 600)) == (9, 0xAA, 601, 77)
    assert look_up(switch, probe(EXACT, 5, 601)) == (1, 0xBB, 602, 0)
    assert look_up(switch, probe(EXACT, 6, 600)) == (1, 0xBB, 601, 0)


def test_an_entry_with_the_default_action_is_a_hit(switch: SoftSwitch) -> None:
    switch.insert("ingress.exact_pair", Entry((Exact(5), Exact(600)), ActionCall("ingress.nothing")))
    assert look_up(switch, probe(EXACT, 5, 600))[1] == 0xAA


def test_dropping_action(switch: SoftSwitch) -> None:
    switch.insert("ingress.exact_pair", Entry((Exact(5), Exact(600)), ActionCall("ingress.drop_it")))
    assert switch.process(0, probe(EXACT, 5, 600)) == []


def test_modify_delete_and_default(switch: SoftSwitch) -> None:
    key = (Exact(5), Exact(600))
    switch.insert("ingress.exact_pair", Entry(key, mark(1)))
    switch.modify("ingress.exact_pair", Entry(key, mark(2)))
    assert trace(switch, probe(EXACT, 5, 600)) == 2
    switch.delete("ingress.exact_pair", key)
    assert look_up(switch, probe(EXACT, 5, 600))[1] == 0xBB
    switch.set_default_action("ingress.exact_pair", mark(9))
    assert look_up(switch, probe(EXACT, 5, 600)) == (1, 0xBB, 601, 9)
    switch.set_default_action("ingress.exact_pair", None)
    assert trace(switch, probe(EXACT, 5, 600)) == 0


def test_direct_counter_counts_hits_only(switch: SoftSwitch) -> None:
    key = (Exact(5), Exact(600))
    switch.insert("ingress.exact_pair", Entry(key, mark(1)))
    for frame in (probe(EXACT, 5, 600), probe(EXACT, 5, 600) + b"four", probe(EXACT, 9, 9)):
        switch.process(0, frame)
    assert switch.entries("ingress.exact_pair") == [Entry(key, mark(1), counter=CounterValue(2, 36))]
    switch.modify("ingress.exact_pair", Entry(key, mark(2)))
    assert switch.entries("ingress.exact_pair")[0].counter == CounterValue(2, 36)
    switch.write_direct_counter("ingress.exact_pair", key, 0, CounterValue(7, 8))
    switch.process(0, probe(EXACT, 5, 600))
    assert switch.entries("ingress.exact_pair")[0].counter == CounterValue(8, 24)


def test_longest_prefix_wins_whatever_the_order(switch: SoftSwitch) -> None:
    for length, value in ((16, 0x0A010000), (8, 0x0A000000), (32, 0x0A010203), (0, 0)):
        switch.insert("ingress.longest", Entry((Lpm(value, length),), mark(length)))
    expected = {0x0A010203: 32, 0x0A010204: 16, 0x0A020304: 8, 0x0B000000: 0, 0xFFFFFFFF: 0}
    assert {address: trace(switch, probe(LPM, address=address)) for address in expected} == expected
    switch.delete("ingress.longest", (Lpm(0x0A010203, 32),))
    assert trace(switch, probe(LPM, address=0x0A010203)) == 16
    switch.delete("ingress.longest", (Lpm(0, 0),))
    assert trace(switch, probe(LPM, address=0x0B000000)) == MISS_DEFAULT
    switch.set_default_action("ingress.longest", mark(3))
    assert trace(switch, probe(LPM, address=0x0B000000)) == 3


def test_ternary_takes_the_largest_priority(switch: SoftSwitch) -> None:
    rows = [
        (Ternary(0x10, 0xF0), Ternary(0, 0), Exact(7), 10),
        (Ternary(0x12, 0xFF), Ternary(0, 0), Exact(7), 20),
        (Ternary(0, 0), Ternary(0x0A000000, 0xFF000000), Exact(7), 15),
    ]
    for number, (small, address, medium, priority) in enumerate(rows):
        switch.insert("ingress.masked", Entry((small, address, medium), mark(number + 1), priority))
    assert trace(switch, probe(MASKED, 0x11, 7)) == 1
    assert trace(switch, probe(MASKED, 0x12, 7)) == 2
    assert trace(switch, probe(MASKED, 0x11, 7, 0x0A000001)) == 3
    assert trace(switch, probe(MASKED, 0x12, 7, 0x0A000001)) == 2
    assert trace(switch, probe(MASKED, 0x12, 8)) == 0


def test_same_key_with_two_priorities_is_two_entries(switch: SoftSwitch) -> None:
    key = (Ternary(1, 0xFF), Ternary(0, 0), Exact(0))
    switch.insert("ingress.masked", Entry(key, mark(1), 1))
    switch.insert("ingress.masked", Entry(key, mark(2), 2))
    assert trace(switch, probe(MASKED, 1)) == 2
    switch.delete("ingress.masked", key, 2)
    assert trace(switch, probe(MASKED, 1)) == 1


def test_range_edges_and_priority(switch: SoftSwitch) -> None:
    switch.insert("ingress.between", Entry((Range(100, 200), Exact(1)), mark(1), 1))
    switch.insert("ingress.between", Entry((Range(200, 300), Exact(1)), mark(2), 2))
    expected = {99: 0, 100: 1, 199: 1, 200: 2, 300: 2, 301: 0}
    assert {medium: trace(switch, probe(RANGE, 1, medium)) for medium in expected} == expected
    assert trace(switch, probe(RANGE, 2, 150)) == 0


def test_optional_is_ternary_with_a_full_or_empty_mask(switch: SoftSwitch) -> None:
    switch.insert("ingress.maybe", Entry((Ternary(0, 0),), mark(1), 1))
    switch.insert("ingress.maybe", Entry((Ternary(5, 0xFF),), mark(2), 2))
    assert [trace(switch, probe(OPTIONAL, small)) for small in (4, 5)] == [1, 2]


def test_constant_entries_and_the_branch_by_action(switch: SoftSwitch) -> None:
    assert look_up(switch, probe(FIXED_EXACT, 1)) == (7, 4, 1, 0x11)
    assert look_up(switch, probe(FIXED_EXACT, 2)) == (7, 4, 1, 0x22)
    assert look_up(switch, probe(FIXED_EXACT, 9)) == (8, 4, 1, 0)


def test_exit_in_an_action_ends_the_pipeline(switch: SoftSwitch) -> None:
    # medium is not incremented behind the table.
    assert look_up(switch, probe(FIXED_EXACT, 3)) == (1, 4, 0xDEAD, 0)


def test_constant_entries_win_in_program_order(switch: SoftSwitch) -> None:
    expected = {
        (0x15, 50): 1,
        (0x15, 99): 1,
        (0x15, 100): 2,
        (0x15, 550): 2,
        (0x42, 550): 3,
        (0x42, 601): 4,
        (3, 3): 0xEE,
    }
    found = {pair: trace(switch, probe(FIXED_TERNARY, *pair)) for pair in expected}
    assert found == expected
    entries = switch.entries("ingress.fixed_ternary")
    assert [entry.priority for entry in entries] == [4, 3, 2, 1]
    assert all(entry.is_const for entry in entries)


def test_constant_prefixes(switch: SoftSwitch) -> None:
    expected = {0x0A020000: 1, 0x0A010204: 2, 0x0A010203: 3, 0x0B010203: 0}
    assert {address: trace(switch, probe(FIXED_LPM, address=address)) for address in expected} == expected
    prefixes = [Lpm(0x0A000000, 8), Lpm(0x0A010000, 16), Lpm(0x0A010203, 32)]
    assert [entry.key for entry in switch.entries("ingress.fixed_lpm")] == [(prefix,) for prefix in prefixes]


def test_more_keys_than_the_memo_holds(switch: SoftSwitch) -> None:
    switch.insert("ingress.longest", Entry((Lpm(0x80000000, 1),), mark(1)))
    found = [trace(switch, probe(LPM, address=step * 0x20001)) for step in range(5000)]
    assert found == [1 if step * 0x20001 >= 0x80000000 else MISS_DEFAULT for step in range(5000)]


def test_a_prefix_beside_masks_and_ranges_goes_by_priority_not_by_length(switch: SoftSwitch) -> None:
    rows = [(1, 8, 0x0A000000, 20), (2, 16, 0x0A010000, 10), (3, 0, 0, 5)]
    for value, length, address, priority in rows:
        key = (Lpm(address, length), Ternary(0x40, 0xF0), Range(100, 200))
        switch.insert("ingress.mixed", Entry(key, mark(value), priority))
    inside = {"small": 0x4F, "medium": 150}
    expected = {0x0A010203: 1, 0x0A020304: 1, 0x0B000000: 3}
    assert {address: trace(switch, probe(MIXED, address=address, **inside)) for address in expected} == expected
    assert trace(switch, probe(MIXED, 0x50, 150, 0x0A010203)) == 0
    assert trace(switch, probe(MIXED, 0x4F, 201, 0x0A010203)) == 0


def test_a_batch_reaches_packets_at_its_end(switch: SoftSwitch, monkeypatch: pytest.MonkeyPatch) -> None:
    key, other = (Exact(5), Exact(600)), (Exact(6), Exact(600))
    switch.insert("ingress.exact_pair", Entry(key, mark(1)))
    changes = []
    backend = switch.loaded.tables["ingress.exact_pair"]._backend
    change = backend.change

    def counted(removed: Sequence[Any], put: Sequence[Any], default: Any) -> None:
        changes.append((len(removed), len(put)))
        change(removed, put, default)

    monkeypatch.setattr(backend, "change", counted)
    with switch.batch():
        switch.insert("ingress.exact_pair", Entry(other, mark(3)))
        switch.modify("ingress.exact_pair", Entry(key, mark(2)))
        assert switch.entries("ingress.exact_pair")[0].action == mark(2)
        assert (trace(switch, probe(EXACT, 5, 600)), trace(switch, probe(EXACT, 6, 600))) == (1, 0)
    assert changes == [(0, 2)]
    assert (trace(switch, probe(EXACT, 5, 600)), trace(switch, probe(EXACT, 6, 600))) == (2, 3)


@pytest.mark.parametrize("seed", range(4))
def test_writes_one_by_one_and_in_batches_leave_what_a_dict_holds(
    program_text: Callable[[str], str], engine: EngineChoice, seed: int
) -> None:
    """Exact rows that crowd a hash table, and prefixes that hide each other, come and go."""
    program = json.loads(program_text("tables"))
    for pipeline in program["pipelines"]:
        for table in pipeline["tables"]:
            table["max_size"] = 300
    switch = SoftSwitch(json.dumps(program), engine=engine)
    generator = random.Random(seed)
    exact: dict[tuple[int, int], int] = {}
    prefixes: dict[tuple[int, int], int] = {}

    def write_exact() -> None:
        pair = generator.randrange(2), generator.randrange(150)
        write("ingress.exact_pair", (Exact(pair[0]), Exact(pair[1])), exact, pair)

    def write_prefix() -> None:
        length = generator.choice((0, 1, 8, 30, 31, 32))
        value = (0x0A000000 | generator.randrange(8)) >> (32 - length) << (32 - length)
        write("ingress.longest", (Lpm(value, length),), prefixes, (length, value))

    def write(table: str, key: tuple[KeyMatch, ...], held: dict[tuple[int, int], int], name: tuple[int, int]) -> None:
        new = generator.randrange(1, 1000)
        if name not in held:
            switch.insert(table, Entry(key, mark(new)))
        elif generator.random() < 0.5:
            switch.modify(table, Entry(key, mark(new)))
        else:
            switch.delete(table, key)
            del held[name]
            return
        held[name] = new

    def longest(address: int) -> int:
        lengths = [length for length, value in prefixes if address >> (32 - length) << (32 - length) == value]
        length = max(lengths, default=None)
        return MISS_DEFAULT if length is None else prefixes[length, address >> (32 - length) << (32 - length)]

    for _ in range(60):
        with switch.batch() if generator.random() < 0.5 else nullcontext():
            for _ in range(generator.choice((1, 1, 5, 40))):
                generator.choice((write_exact, write_prefix))()
        pairs = [(small, medium) for small in range(2) for medium in range(150)]
        assert {pair: trace(switch, probe(EXACT, *pair)) for pair in pairs} == {
            pair: exact.get(pair, 0) for pair in pairs
        }
        addresses = [*range(0x0A000000, 0x0A000009), 0, 1 << 31]
        assert [trace(switch, probe(LPM, address=each)) for each in addresses] == [longest(each) for each in addresses]


def test_an_entry_modified_in_a_batch_counts_on(switch: SoftSwitch) -> None:
    key = (Exact(5), Exact(600))
    switch.insert("ingress.exact_pair", Entry(key, mark(1), counter=CounterValue(7, 8)))
    with switch.batch():
        switch.modify("ingress.exact_pair", Entry(key, mark(2)))
        switch.modify("ingress.exact_pair", Entry(key, mark(3)))
        switch.process(0, probe(EXACT, 5, 600))
        assert switch.entries("ingress.exact_pair")[0].counter == CounterValue(8, 24)
    assert switch.entries("ingress.exact_pair") == [Entry(key, mark(3), counter=CounterValue(8, 24))]
    switch.process(0, probe(EXACT, 5, 600))
    assert switch.entries("ingress.exact_pair")[0].counter == CounterValue(9, 40)


def test_a_batch_that_fails_publishes_what_was_done(switch: SoftSwitch) -> None:
    key = (Exact(5), Exact(600))
    with pytest.raises(EntryExistsError), switch.batch():
        switch.insert("ingress.exact_pair", Entry(key, mark(1)))
        switch.insert("ingress.exact_pair", Entry(key, mark(2)))
    assert trace(switch, probe(EXACT, 5, 600)) == 1
