# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Read of tables: wildcards, filters, counters on request, batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from google.rpc import code_pb2
from helpers.p4runtime.client import Controller, Program, code_of, insert
from p4.v1 import p4runtime_pb2 as p4rt
from softswitch.p4runtime import rpcs
from softswitch.p4runtime.read import EntityReader


def keyed(entry: Any) -> bytes:
    return bytes(entry.SerializeToString(deterministic=True))


def same(read: list[Any], expected: list[Any]) -> bool:
    """Equal as sets: the specification leaves the order open."""
    return sorted(map(keyed, read)) == sorted(map(keyed, expected))


@pytest.fixture
def rows(primary: Controller, program: Program) -> dict[str, Any]:
    """Entries of three tables, written to the switch."""
    forward, drop = program.action("forward", port=b"\x01"), program.action("drop")
    made = {
        "exact 1": program.entry("exact_t", action=forward, dst=("exact", b"\x01")),
        "exact 2": program.entry("exact_t", action=drop, dst=("exact", b"\x02")),
        "lpm any": program.entry("lpm_t", action=drop),
        "lpm 8": program.entry("lpm_t", action=forward, src=("lpm", b"\x0a" + b"\x00" * 5, 8)),
        "range 1": program.entry("range_t", action=drop, type=("range", b"\x01", b"\x02")),
        "range 2": program.entry("range_t", action=drop, type=("range", b"\x01", b"\x02")),
    }
    made["range 1"].priority, made["range 2"].priority = 1, 2
    made["exact 1"].metadata = b"one"
    made["exact 2"].controller_metadata = 2
    primary.write(*map(insert, made.values()))
    return made


def program_entries(program: Program) -> list[Any]:
    """The entries that programs/tables.p4 itself declares, as its source says."""
    first = program.entry("const_t", action=program.action("mark", vlan=b"\x01", wide=b"\x02"))
    first.match.extend(program.entry("const_t", type=("ternary", b"\x08\x06", b"\xff\xff")).match)
    first.priority = 2
    second = program.entry("const_t", action=program.action("drop"), type=("ternary", b"\x08\x00", b"\xff\x00"))
    second.priority = 1
    arp = program.entry("initial_t", action=program.action("forward", port=b"\x01"), type=("exact", b"\x08\x06"))
    ip = program.entry("initial_t", action=program.action("forward", port=b"\x02"), type=("exact", b"\x08\x00"))
    for entry in (first, second):
        entry.is_const = True
    return [first, second, arp, ip]


def test_all_tables(primary: Controller, program: Program, rows: dict[str, Any]) -> None:
    expected = [*rows.values(), *program_entries(program)]
    assert same(primary.read_entries(p4rt.TableEntry()), expected)


Ask = Callable[[Program], Any]


def ask(table: str, **fields: Any) -> Ask:
    def made(program: Program) -> Any:
        entry = program.entry(table)
        for name, value in fields.items():
            setattr(entry, name, value)
        return entry

    return made


SELECT: dict[str, tuple[Ask, list[str]]] = {
    "one table": (ask("exact_t"), ["exact 1", "exact 2"]),
    "another table": (ask("lpm_t"), ["lpm any", "lpm 8"]),
    "empty table": (ask("ternary_t"), []),
    "key": (lambda p: p.entry("exact_t", dst=("exact", b"\x02")), ["exact 2"]),
    "key not canonical": (lambda p: p.entry("exact_t", dst=("exact", b"\x00\x02")), ["exact 2"]),
    "key of no entry": (lambda p: p.entry("exact_t", dst=("exact", b"\x03")), []),
    "lpm key": (lambda p: p.entry("lpm_t", src=("lpm", b"\x0a" + b"\x00" * 5, 8)), ["lpm 8"]),
    "lpm key, other length": (lambda p: p.entry("lpm_t", src=("lpm", b"\x0a" + b"\x00" * 5, 9)), []),
    "priority": (ask("range_t", priority=2), ["range 2"]),
    "priority of no entry": (ask("range_t", priority=3), []),
    "metadata": (ask("exact_t", metadata=b"one"), ["exact 1"]),
    "controller metadata": (ask("exact_t", controller_metadata=2), ["exact 2"]),
    "action": (lambda p: p.entry("exact_t", action=p.action("drop")), ["exact 2"]),
    "metadata in all tables": (lambda p: p4rt.TableEntry(metadata=b"one"), ["exact 1"]),
}


@pytest.mark.parametrize(("make", "names"), SELECT.values(), ids=SELECT.keys())
def test_selection(primary: Controller, program: Program, rows: dict[str, Any], make: Ask, names: list[str]) -> None:
    assert same(primary.read_entries(make(program)), [rows[name] for name in names])


def test_a_key_with_its_priority_is_one_entry(primary: Controller, program: Program, rows: dict[str, Any]) -> None:
    asked = program.entry("range_t", type=("range", b"\x01", b"\x02"))
    assert len(primary.read_entries(asked)) == 2
    asked.priority = 1
    assert primary.read_entries(asked) == [rows["range 1"]]


def test_default_entries_come_only_when_asked_for(primary: Controller, program: Program) -> None:
    asked = program.entry("exact_t")
    assert primary.read_entries(asked) == []
    asked.is_default_action = True
    [entry] = primary.read_entries(asked)
    assert (entry.is_default_action, entry.action) == (True, program.action("drop"))
    everywhere = primary.read_entries(p4rt.TableEntry(is_default_action=True))
    assert [e.table_id for e in everywhere] == [table.preamble.id for table in program.p4info.tables]


BAD: dict[str, tuple[Ask, str]] = {
    "match without table": (
        lambda p: p4rt.TableEntry(match=p.entry("exact_t", dst=("exact", b"\x01")).match),
        "INVALID_ARGUMENT",
    ),
    "value too wide": (lambda p: p.entry("exact_t", dst=("exact", b"\x01" * 7)), "INVALID_ARGUMENT"),
    "unknown table": (lambda p: p4rt.TableEntry(table_id=0x02000001), "INVALID_ARGUMENT"),
    "not a table": (lambda p: p4rt.TableEntry(table_id=0x01000001), "INVALID_ARGUMENT"),
    "default with priority": (ask("range_t", is_default_action=True, priority=1), "INVALID_ARGUMENT"),
}


@pytest.mark.parametrize(("make", "code"), BAD.values(), ids=BAD.keys())
def test_refused(primary: Controller, program: Program, make: Ask, code: str) -> None:
    [error] = primary.read_refused(p4rt.Entity(table_entry=make(program)))
    assert code_pb2.Code.Name(error.canonical_code) == code, error


def test_time_since_last_hit_is_refused(primary: Controller, program: Program) -> None:
    asked = program.entry("exact_t")
    asked.time_since_last_hit.SetInParent()
    [error] = primary.read_refused(p4rt.Entity(table_entry=asked))
    assert error.canonical_code == code_pb2.INVALID_ARGUMENT


def test_counter_data_is_read_when_asked_for(primary: Controller, program: Program) -> None:
    entry = program.entry("exact_t", action=program.action("drop"), dst=("exact", b"\x01"))
    entry.counter_data.packet_count, entry.counter_data.byte_count = 5, 600
    primary.write(insert(entry))
    [plain] = primary.read_entries(program.entry("exact_t"))
    assert not plain.HasField("counter_data")
    asked = program.entry("exact_t")
    asked.counter_data.SetInParent()
    assert primary.read_entries(asked) == [entry]


def test_counter_data_over_all_tables_skips_the_uncounted(
    primary: Controller, program: Program, rows: dict[str, Any]
) -> None:
    asked = p4rt.TableEntry()
    asked.counter_data.SetInParent()
    counted = {entry.table_id for entry in primary.read_entries(asked) if entry.HasField("counter_data")}
    assert counted == {program.id("tables", "exact_t")}


def test_batch_reads_what_it_can(primary: Controller, program: Program, rows: dict[str, Any]) -> None:
    unknown_group = p4rt.Entity()
    unknown_group.packet_replication_engine_entry.multicast_group_entry.multicast_group_id = 9
    requests = [
        p4rt.Entity(table_entry=program.entry("lpm_t")),
        unknown_group,
        p4rt.Entity(),
        p4rt.Entity(table_entry=program.entry("exact_t", dst=("exact", b"\x01"))),
    ]
    entities: list[Any] = []

    def read() -> None:
        for response in primary.read_responses(*requests):
            entities.extend(response.entities)

    assert code_of(read) == "UNKNOWN"
    assert same([e.table_entry for e in entities], [rows["lpm any"], rows["lpm 8"], rows["exact 1"]])
    codes = [error.canonical_code for error in primary.read_refused(*requests)]
    assert codes == [code_pb2.OK, code_pb2.NOT_FOUND, code_pb2.INVALID_ARGUMENT, code_pb2.OK]


def test_empty_batch(primary: Controller) -> None:
    assert primary.read() == []


def test_a_read_of_little_takes_one_turn(
    primary: Controller, program: Program, rows: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads take turns, piece by piece: a second piece would wait for one of every other read in progress."""
    pieces: list[bytes | None] = []
    serialised = rpcs._serialised

    def counted(reading: EntityReader) -> bytes | None:
        pieces.append(serialised(reading))
        return pieces[-1]

    monkeypatch.setattr(rpcs, "_serialised", counted)
    assert len(primary.read_entries(p4rt.TableEntry())) == len(rows) + len(program_entries(program))
    assert len(pieces) == 1


def test_a_long_answer_comes_in_parts(primary: Controller, program: Program) -> None:
    one = program.entry("exact_t", action=program.action("drop"), dst=("exact", b"\x01"))
    one.metadata = bytes(1000)
    two = program.entry("exact_t", action=program.action("drop"), dst=("exact", b"\x02"))
    two.metadata = bytes(1000)
    primary.write(insert(one), insert(two))
    request = p4rt.Entity(table_entry=program.entry("exact_t"))
    responses: Iterator[Any] = primary.read_responses(*[request] * 2000)
    sizes = [len(response.entities) for response in responses]
    assert sum(sizes) == 4000
    assert len(sizes) > 1


UNOFFERED = [
    "extern_entry",
    "register_entry",
]


@pytest.mark.parametrize("kind", UNOFFERED)
def test_what_a_program_has_not_is_read_as_nothing_and_not_written(primary: Controller, kind: str) -> None:
    entity = p4rt.Entity()
    getattr(entity, kind).SetInParent()
    assert primary.read(entity) == []
    [error] = primary.refused(p4rt.Update(type=p4rt.Update.INSERT, entity=entity))
    assert error.canonical_code == code_pb2.UNIMPLEMENTED
    assert kind in error.message


IDS = {"value_set_entry": "value_set_id", "register_entry": "register_id", "extern_entry": "extern_type_id"}
IDS |= dict.fromkeys(("action_profile_member", "action_profile_group"), "action_profile_id")
IDS |= {"meter_entry": "meter_id", "digest_entry": "digest_id"}


@pytest.mark.parametrize("kind", IDS)
def test_an_object_that_a_program_has_not_is_not_read(primary: Controller, kind: str) -> None:
    entity = p4rt.Entity()
    setattr(getattr(entity, kind), IDS[kind], 77)
    [error] = primary.read_refused(entity)
    assert error.canonical_code == code_pb2.INVALID_ARGUMENT
    assert "0x0000004d" in error.message


def test_the_whole_state_is_read_at_once(primary: Controller, program: Program, rows: dict[str, Any]) -> None:
    """Specification: "Wildcard Reads"."""
    entities = []
    for kind in (field.name for field in p4rt.Entity.DESCRIPTOR.fields):
        entities.append(p4rt.Entity())
        getattr(entities[-1], kind).SetInParent()
    replication = next(each for each in entities if each.HasField("packet_replication_engine_entry"))
    replication.packet_replication_engine_entry.multicast_group_entry.SetInParent()
    entities.append(p4rt.Entity())
    entities[-1].packet_replication_engine_entry.clone_session_entry.SetInParent()
    found = [each.WhichOneof("entity") for each in primary.read(*entities)]
    assert found.count("table_entry") == len(rows) + len(program_entries(program))
    assert found.count("counter_entry") == 8
    assert found.count("direct_counter_entry") == sum(name.startswith("exact") for name in rows)


def test_every_entity_kind_is_either_offered_or_tested_as_unoffered() -> None:
    offered = {"table_entry", "counter_entry", "direct_counter_entry", "packet_replication_engine_entry"}
    offered |= {"meter_entry", "digest_entry", "value_set_entry", "action_profile_member"}
    offered |= {"action_profile_group", "direct_meter_entry"}
    assert {field.name for field in p4rt.Entity.DESCRIPTOR.fields} == offered | set(UNOFFERED)


def test_reading_needs_neither_stream_nor_primary(
    primary: Controller, connect: Callable[[], Controller], program: Program
) -> None:
    assert len(connect().read_entries(p4rt.TableEntry())) == len(program_entries(program))


def test_read_of_another_device(primary: Controller) -> None:
    def read() -> None:
        list(primary.stub.Read(p4rt.ReadRequest(device_id=99), timeout=60))

    assert code_of(read) == grpc.StatusCode.NOT_FOUND.name
