# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Write of table entries: one row per rule of the specification, with the twin that obeys it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.rpc import code_pb2
from helpers.p4runtime.client import CPU_PORT, Controller, Program, delete, insert, modify
from helpers.p4runtime.served import primary_of
from helpers.p4runtime.table_entries import (
    BAD,
    BAD_DEFAULTS,
    GOOD,
    NOT_CANONICAL,
    changed,
    check_default_entry,
    default,
    exact,
    priority,
    ternary,
)
from softswitch.switch import SoftSwitch


@pytest.mark.parametrize("make", GOOD.values(), ids=GOOD.keys())
def test_insert_reads_back_as_written(primary: Controller, program: Program, make: Callable[[Program], Any]) -> None:
    entry = make(program)
    primary.write(insert(entry))
    assert primary.read_entries(type(entry)(table_id=entry.table_id)) == [entry]


@pytest.mark.parametrize(("written", "read"), NOT_CANONICAL.values(), ids=NOT_CANONICAL.keys())
def test_values_are_read_back_canonical(
    primary: Controller, program: Program, written: Callable[[Program], Any], read: Callable[[Program], Any]
) -> None:
    entry = written(program)
    primary.write(insert(entry))
    assert primary.read_entries(type(entry)(table_id=entry.table_id)) == [read(program)]


@pytest.mark.parametrize(("make", "code", "text"), BAD.values(), ids=BAD.keys())
def test_insert_is_refused(
    primary: Controller, program: Program, make: Callable[[Program], Any], code: str, text: str
) -> None:
    [error] = primary.refused(insert(make(program)))
    assert (code_pb2.Code.Name(error.canonical_code), text in error.message) == (code, True), error
    assert primary.read_entries(program.entry("exact_t")) == []


def test_insert_twice(primary: Controller, program: Program) -> None:
    primary.write(insert(exact(program)))
    [error] = primary.refused(insert(exact(program, action="drop")))
    assert error.canonical_code == code_pb2.ALREADY_EXISTS
    assert primary.read_entries(program.entry("exact_t")) == [exact(program)]


def test_priority_is_part_of_the_identity(primary: Controller, program: Program) -> None:
    entries = [priority(ternary(program), value) for value in (1, 2)]
    primary.write(*map(insert, entries))
    primary.write(delete(entries[0]))
    assert primary.read_entries(program.entry("ternary_t")) == entries[1:]


def test_full_table(primary: Controller, program: Program) -> None:
    entries = [exact(program, bytes([n])) for n in range(1, 6)]
    errors = primary.refused(*map(insert, entries))
    assert [error.canonical_code for error in errors] == [code_pb2.OK] * 4 + [code_pb2.RESOURCE_EXHAUSTED]


def test_modify(primary: Controller, program: Program) -> None:
    [error] = primary.refused(modify(exact(program)))
    assert error.canonical_code == code_pb2.NOT_FOUND
    primary.write(insert(exact(program)))
    primary.write(modify(exact(program, action="drop")))
    assert primary.read_entries(program.entry("exact_t")) == [exact(program, action="drop")]


def test_modify_without_action_keeps_it(primary: Controller, program: Program) -> None:
    without = changed(exact, lambda e: e.ClearField("action"))(program)
    [error] = primary.refused(modify(without))
    assert error.canonical_code == code_pb2.NOT_FOUND
    primary.write(insert(exact(program)))
    without.counter_data.packet_count = 3
    primary.write(modify(without))
    asked = program.entry("exact_t")
    asked.counter_data.SetInParent()
    [entry] = primary.read_entries(asked)
    assert entry.action == exact(program).action
    assert (entry.counter_data.packet_count, entry.counter_data.byte_count) == (3, 0)


def test_delete_looks_at_the_key_only(primary: Controller, program: Program) -> None:
    [error] = primary.refused(delete(exact(program)))
    assert error.canonical_code == code_pb2.NOT_FOUND
    primary.write(insert(exact(program)))
    nonsense = exact(program)
    nonsense.action.action.action_id = 77
    nonsense.idle_timeout_ns = 5
    primary.write(delete(nonsense))
    assert primary.read_entries(program.entry("exact_t")) == []


def test_delete_still_checks_the_key(primary: Controller, program: Program) -> None:
    [error] = primary.refused(delete(exact(program, b"\x01" + b"\x00" * 6)))
    assert error.canonical_code == code_pb2.INVALID_ARGUMENT


def test_metadata_is_kept_and_replaced(primary: Controller, program: Program) -> None:
    entry = exact(program)
    entry.metadata, entry.controller_metadata = b"cookie", 2**63
    primary.write(insert(entry))
    assert primary.read_entries(program.entry("exact_t")) == [entry]
    primary.write(modify(exact(program)))
    assert primary.read_entries(program.entry("exact_t")) == [exact(program)]
    primary.write(modify(entry), delete(entry), insert(exact(program)))
    assert primary.read_entries(program.entry("exact_t")) == [exact(program)]


def test_metadata_beyond_what_is_kept_is_refused(primary: Controller, program: Program) -> None:
    entry = exact(program)
    entry.metadata = bytes(1024)
    primary.write(insert(entry))
    entry.metadata = bytes(1025)
    [error] = primary.refused(modify(entry))
    assert error.canonical_code == code_pb2.RESOURCE_EXHAUSTED
    assert "metadata of 1025 bytes: at most 1024 are kept" in error.message
    [kept] = primary.read_entries(program.entry("exact_t"))
    assert len(kept.metadata) == 1024


def test_const_table_takes_no_change(primary: Controller, program: Program) -> None:
    entry = priority(
        program.entry("const_t", action=program.action("drop"), type=("ternary", b"\x08\x06", b"\xff\xff")), 2
    )
    errors = primary.refused(modify(entry), delete(entry))
    assert [error.canonical_code for error in errors] == [code_pb2.PERMISSION_DENIED] * 2


def test_initial_entries_may_change_and_others_come_beside_them(primary: Controller, program: Program) -> None:
    """The table has room for eight, though the JSON counts its two entries only."""
    arp, ip = (
        program.entry("initial_t", action=program.action("drop"), type=("exact", t)) for t in (b"\x08\x06", b"\x08\x00")
    )
    primary.write(modify(arp), delete(ip))
    assert primary.read_entries(program.entry("initial_t")) == [arp]
    more = [program.entry("initial_t", action=program.action("drop"), type=("exact", bytes([n]))) for n in range(1, 9)]
    primary.write(*map(insert, more[:7]))
    [error] = primary.refused(insert(more[7]))
    assert error.canonical_code == code_pb2.RESOURCE_EXHAUSTED
    primary.set_pipeline(program.config())
    assert len(primary.read_entries(program.entry("initial_t"))) == 2


# --- default entries


def test_default_entry_is_modified_and_reset(primary: Controller, program: Program) -> None:
    check_default_entry(primary, program)


@pytest.mark.parametrize(("make", "update", "code"), BAD_DEFAULTS.values(), ids=BAD_DEFAULTS.keys())
def test_default_entry_is_refused(
    primary: Controller,
    program: Program,
    make: Callable[[Program], Any],
    update: Callable[[Any], Any],
    code: str,
) -> None:
    before = primary.read_entries(default(program, "exact_t"))
    [error] = primary.refused(update(make(program)))
    assert code_pb2.Code.Name(error.canonical_code) == code, error
    assert primary.read_entries(default(program, "exact_t")) == before


def test_default_entry_may_take_a_default_only_action(primary: Controller, program: Program) -> None:
    entry = default(program, "exact_t", program.action("NoAction"))
    primary.write(modify(entry))
    assert primary.read_entries(default(program, "exact_t")) == [entry]


def test_a_batch_changes_each_table_once(program: Program) -> None:
    """A table with an order is built from all of its rows: once for each of them would take quadratic time."""
    device = SoftSwitch(engine="python", cpu_port=CPU_PORT)
    with primary_of(device, program.config(), CPU_PORT) as controller:
        built: list[tuple[str, int]] = []
        prefixes, ranges = (device.loaded.tables[f"ingress.{name}_t"]._backend for name in ("lpm", "range"))
        prefixes.change = lambda _removed, put, _default: built.append(("lpm", len(put)))
        ranges.publish = lambda rows, _default: built.append(("range", len(rows)))
        drop = program.action("drop")
        entries = [program.entry("lpm_t", action=drop, src=("lpm", bytes([number]), 48)) for number in range(16)]
        for number in range(16):
            each = bytes([number])
            entries.append(program.entry("range_t", action=drop, type=("range", each, each)))
            entries[-1].priority = 1
        controller.write(*map(insert, entries))
        assert sorted(built) == [("lpm", 16), ("range", 16)]
