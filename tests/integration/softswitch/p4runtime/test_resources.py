# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Counters, direct counters and multicast groups."""

from __future__ import annotations

from typing import Any

import pytest
from google.rpc import code_pb2
from helpers.p4runtime.client import Controller, Program, insert
from helpers.p4runtime.messages import cell, counts, group, update
from p4.v1 import p4runtime_pb2 as p4rt

CELLS = 8  # of counter "seen" in programs/tables.p4
INSERT, MODIFY, DELETE = p4rt.Update.INSERT, p4rt.Update.MODIFY, p4rt.Update.DELETE


def test_counter_cells(primary: Controller, program: Program) -> None:
    assert counts(primary.read(cell(program, None))) == dict.fromkeys(range(CELLS), (0, 0))
    primary.write(p4rt.Update(type=MODIFY, entity=cell(program, 0, (1, 60))))
    primary.write(p4rt.Update(type=MODIFY, entity=cell(program, 7, (2**40, 2**62))))
    assert primary.read(cell(program, 7)) == [cell(program, 7, (2**40, 2**62))]
    assert counts(primary.read(cell(program, 0))) == {0: (1, 60)}
    assert counts(primary.read(p4rt.Entity(counter_entry=p4rt.CounterEntry())))[7] == (2**40, 2**62)


def test_all_cells_at_once(primary: Controller, program: Program) -> None:
    primary.write(p4rt.Update(type=MODIFY, entity=cell(program, None, (3, 4))))
    assert counts(primary.read(cell(program, None))) == dict.fromkeys(range(CELLS), (3, 4))


def test_without_data_nothing_changes(primary: Controller, program: Program) -> None:
    primary.write(p4rt.Update(type=MODIFY, entity=cell(program, None, (3, 4))))
    primary.write(p4rt.Update(type=MODIFY, entity=cell(program, 1)))
    assert counts(primary.read(cell(program, 1))) == {1: (3, 4)}


def unknown_counter(program: Program) -> Any:
    entity = cell(program, 0, (1, 1))
    entity.counter_entry.counter_id = 0x12000001
    return entity


@pytest.mark.parametrize(
    ("update_type", "make", "code"),
    [
        (INSERT, lambda p: cell(p, 0, (1, 1)), "INVALID_ARGUMENT"),
        (DELETE, lambda p: cell(p, 0, (1, 1)), "INVALID_ARGUMENT"),
        (MODIFY, lambda p: cell(p, -1, (1, 1)), "INVALID_ARGUMENT"),
        (MODIFY, lambda p: cell(p, CELLS, (1, 1)), "OUT_OF_RANGE"),
        (MODIFY, lambda p: cell(p, 0, (-1, 1)), "INVALID_ARGUMENT"),
        (MODIFY, lambda p: cell(p, 0, (1, -1)), "INVALID_ARGUMENT"),
        (MODIFY, unknown_counter, "INVALID_ARGUMENT"),
    ],
)
def test_counter_write_is_refused(
    primary: Controller, program: Program, update_type: int, make: Any, code: str
) -> None:
    [error] = primary.refused(p4rt.Update(type=update_type, entity=make(program)))
    assert code_pb2.Code.Name(error.canonical_code) == code, error
    assert counts(primary.read(cell(program, None))) == dict.fromkeys(range(CELLS), (0, 0))


@pytest.mark.parametrize(("index", "code"), [(-1, "INVALID_ARGUMENT"), (CELLS, "OUT_OF_RANGE")])
def test_counter_read_is_refused(primary: Controller, program: Program, index: int, code: str) -> None:
    [error] = primary.read_refused(cell(program, index))
    assert code_pb2.Code.Name(error.canonical_code) == code


# --- direct counters


def direct(entry: Any, data: tuple[int, int] | None = None) -> Any:
    entity = p4rt.Entity()
    entity.direct_counter_entry.table_entry.CopyFrom(entry)
    if data is not None:
        entity.direct_counter_entry.data.packet_count, entity.direct_counter_entry.data.byte_count = data
    return entity


@pytest.fixture
def counted(primary: Controller, program: Program) -> list[Any]:
    """Two entries of the counted table, by key."""
    keys = [program.entry("exact_t", dst=("exact", bytes([n]))) for n in (1, 2)]
    for key in keys:
        entry = type(key)()
        entry.CopyFrom(key)
        entry.action.CopyFrom(program.action("drop"))
        primary.write(insert(entry))
    return keys


def test_direct_counters(primary: Controller, program: Program, counted: list[Any]) -> None:
    primary.write(p4rt.Update(type=MODIFY, entity=direct(counted[1], (9, 900))))
    assert primary.read(direct(counted[1])) == [direct(counted[1], (9, 900))]
    both = [direct(counted[0], (0, 0)), direct(counted[1], (9, 900))]
    for asked in (direct(program.entry("exact_t")), direct(p4rt.TableEntry())):
        read = sorted(primary.read(asked), key=lambda e: bytes(e.direct_counter_entry.table_entry.match[0].exact.value))
        assert read == both
    primary.write(p4rt.Update(type=MODIFY, entity=direct(counted[1])))
    assert primary.read(direct(counted[1])) == both[1:]


def test_modify_keeps_the_direct_counter(primary: Controller, program: Program, counted: list[Any]) -> None:
    primary.write(p4rt.Update(type=MODIFY, entity=direct(counted[0], (9, 900))))
    entry = type(counted[0])()
    entry.CopyFrom(counted[0])
    entry.action.CopyFrom(program.action("forward", port=b"\x01"))
    primary.write(p4rt.Update(type=MODIFY, entity=p4rt.Entity(table_entry=entry)))
    assert primary.read(direct(counted[0])) == [direct(counted[0], (9, 900))]


def as_default(program: Program) -> Any:
    entry = program.entry("exact_t")
    entry.is_default_action = True
    return direct(entry, (1, 1))


@pytest.mark.parametrize(
    ("update_type", "make", "code"),
    [
        (INSERT, lambda p: direct(p.entry("exact_t", dst=("exact", b"\x01")), (1, 1)), "INVALID_ARGUMENT"),
        (DELETE, lambda p: direct(p.entry("exact_t", dst=("exact", b"\x01")), (1, 1)), "INVALID_ARGUMENT"),
        (MODIFY, lambda p: direct(p.entry("exact_t", dst=("exact", b"\x03")), (1, 1)), "NOT_FOUND"),
        (MODIFY, lambda p: direct(p.entry("exact_t", dst=("exact", b"\x03"))), "NOT_FOUND"),
        (MODIFY, lambda p: direct(p.entry("exact_t"), (1, 1)), "INVALID_ARGUMENT"),
        (MODIFY, lambda p: direct(p.entry("lpm_t"), (1, 1)), "INVALID_ARGUMENT"),
        (MODIFY, lambda p: direct(p.entry("exact_t", dst=("exact", b"\x01")), (-1, 1)), "INVALID_ARGUMENT"),
        (MODIFY, lambda p: direct(p4rt.TableEntry(), (1, 1)), "INVALID_ARGUMENT"),
        (MODIFY, as_default, "UNIMPLEMENTED"),
    ],
)
def test_direct_counter_write_is_refused(
    primary: Controller, program: Program, counted: list[Any], update_type: int, make: Any, code: str
) -> None:
    [error] = primary.refused(p4rt.Update(type=update_type, entity=make(program)))
    assert code_pb2.Code.Name(error.canonical_code) == code, error


def test_direct_counter_of_no_entry(primary: Controller, program: Program) -> None:
    [error] = primary.read_refused(direct(program.entry("exact_t", dst=("exact", b"\x01"))))
    assert error.canonical_code == code_pb2.NOT_FOUND


# --- multicast groups


def test_groups(primary: Controller) -> None:
    one = group(1, (1, 0), (2, 1), (2, 2), metadata=b"m")
    top = group(65535, (b"\x01\xfe", 65535), (b"\x00", 3))
    primary.write(update(INSERT, top), update(INSERT, one))
    assert primary.read(group(1)) == [one]
    assert primary.read(group(0)) == [one, top]
    changed = group(1, (3, 0))
    primary.write(update(MODIFY, changed))
    assert primary.read(group(1)) == [changed]
    primary.write(update(DELETE, group(1)))
    assert primary.read(group(0)) == [top]


def test_empty_group(primary: Controller) -> None:
    primary.write(update(INSERT, group(5)))
    assert primary.read(group(0)) == [group(5)]


@pytest.mark.parametrize(
    ("update_type", "entity", "code", "text"),
    [
        (INSERT, group(0, (1, 1)), "INVALID_ARGUMENT", "id 0"),
        (INSERT, group(65536, (1, 1)), "INVALID_ARGUMENT", "65536"),
        (INSERT, group(2, (1, 1), (2, 1), (1, 1)), "INVALID_ARGUMENT", "twice"),
        (INSERT, group(2, (1, 1), (b"\x01", 1)), "INVALID_ARGUMENT", "twice"),
        (INSERT, group(2, (512, 1)), "INVALID_ARGUMENT", "0x200"),
        (INSERT, group(2, (b"\x02\x00", 1)), "INVALID_ARGUMENT", "0x200"),
        (INSERT, group(2, (b"", 1)), "INVALID_ARGUMENT", "empty"),
        (INSERT, group(2, (1, 65536)), "INVALID_ARGUMENT", "instance"),
        (INSERT, group(1, (2, 2)), "ALREADY_EXISTS", "1"),
        (MODIFY, group(2, (1, 1)), "NOT_FOUND", "2"),
        (MODIFY, group(1, (2, 2), (2, 2)), "INVALID_ARGUMENT", "twice"),
        (DELETE, group(2), "NOT_FOUND", "2"),
    ],
)
def test_group_write_is_refused(primary: Controller, update_type: int, entity: Any, code: str, text: str) -> None:
    there = group(1, (1, 1))
    primary.write(update(INSERT, there))
    [error] = primary.refused(update(update_type, entity))
    assert (code_pb2.Code.Name(error.canonical_code), text in error.message) == (code, True), error
    assert primary.read(group(0)) == [there]


def test_replica_without_port(primary: Controller) -> None:
    entity = group(2)
    entity.packet_replication_engine_entry.multicast_group_entry.replicas.add(instance=1)
    [error] = primary.refused(update(INSERT, entity))
    assert error.canonical_code == code_pb2.INVALID_ARGUMENT


def test_group_read_of_no_group(primary: Controller) -> None:
    [error] = primary.read_refused(group(4))
    assert error.canonical_code == code_pb2.NOT_FOUND


def session(number: int, *replicas: tuple[Any, int], **fields: int) -> Any:
    entity = p4rt.Entity()
    entry = entity.packet_replication_engine_entry.clone_session_entry
    entry.session_id = number
    for port, instance in replicas:
        name = "port" if isinstance(port, bytes) else "egress_port"
        entry.replicas.add(instance=instance, **{name: port})
    for name, value in fields.items():
        setattr(entry, name, value)
    return entity


def test_clone_sessions(primary: Controller) -> None:
    first, second = session(1, (3, 0), (b"\x04", 7), class_of_service=2), session(32767)
    primary.write(update(INSERT, first), update(INSERT, second))
    assert primary.read(session(0)) == [first, second]
    other = session(1, (5, 1))
    primary.write(update(MODIFY, other), update(DELETE, second))
    assert primary.read(session(1)) == primary.read(session(0)) == [other]
    assert primary.read(group(0)) == []


@pytest.mark.parametrize(
    ("update_type", "entity", "code", "text"),
    [
        (INSERT, session(0), "INVALID_ARGUMENT", "id 0 is not in 1..32767"),
        (INSERT, session(32768), "INVALID_ARGUMENT", "id 32768"),
        (INSERT, session(4), "ALREADY_EXISTS", "session 4"),
        (MODIFY, session(5), "NOT_FOUND", "session 5"),
        (DELETE, session(5), "NOT_FOUND", "session 5"),
        (INSERT, session(5, (512, 0)), "INVALID_ARGUMENT", "port"),
        (INSERT, session(5, (1, 65536)), "INVALID_ARGUMENT", "instance"),
        (INSERT, session(5, (1, 0), (b"\x01", 0)), "INVALID_ARGUMENT", "twice"),
        (INSERT, session(5, packet_length_bytes=64), "UNIMPLEMENTED", "packet_length_bytes is 64"),
    ],
)
def test_clone_session_write_is_refused(
    primary: Controller, update_type: int, entity: Any, code: str, text: str
) -> None:
    primary.write(update(INSERT, session(4)))
    [error] = primary.refused(update(update_type, entity))
    assert code_pb2.Code.Name(error.canonical_code) == code
    assert text in error.message
    [error] = primary.read_refused(session(5))
    assert error.canonical_code == code_pb2.NOT_FOUND


def test_a_replication_entry_of_no_kind(primary: Controller) -> None:
    entity = p4rt.Entity()
    entity.packet_replication_engine_entry.SetInParent()
    [error] = primary.read_refused(entity)
    assert error.canonical_code == code_pb2.INVALID_ARGUMENT
