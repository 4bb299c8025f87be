# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a switch must hold after the updates it accepted, and how it must say so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2

from softswitch.fuzz.p4runtime.decode import Call, Faults, Identity, action_of, call_of, key_of, matches_of, shortest
from softswitch.fuzz.p4runtime.schema import Schema, Table

Counts = tuple[int, int]  # packets, bytes
#: A table's id, a counter's, a group's or a clone session's, with its kind: what one client of a campaign writes alone.
Resource = tuple[str, int]


@dataclass(frozen=True)
class Note:
    """What a controller has the switch keep for it."""

    metadata: bytes = b""
    controller_metadata: int = 0


@dataclass(frozen=True)
class Held:
    """An entry, but for what identifies it."""

    call: Call
    note: Note = Note()
    counts: Counts = (0, 0)
    is_const: bool = False


@dataclass(frozen=True)
class Default:
    call: Call | None
    note: Note = Note()


#: Port, instance, and whether the port came as a bytestring.
Replica = tuple[int, int, bool]


@dataclass
class Model:
    """``programs_own``: default actions that a reset brings back."""

    schema: Schema
    entries: dict[int, dict[Identity, Held]] = field(default_factory=dict)
    defaults: dict[int, Default] = field(default_factory=dict)
    programs_own: dict[int, Default] = field(default_factory=dict)
    cells: dict[int, list[Counts]] = field(default_factory=dict)
    groups: dict[int, tuple[bytes, frozenset[Replica]]] = field(default_factory=dict)
    #: Class of service and replicas of clone sessions.
    sessions: dict[int, tuple[int, frozenset[Replica]]] = field(default_factory=dict)

    def adopt_entries(self, table: Table, messages: list[Any]) -> None:
        """Believe a read of a table, with counter data: what the program brings is in no P4Info."""
        held = {}
        for message in messages:
            faults = Faults()
            key = key_of(table, message.match, faults)
            call = call_of(table, message.action, is_default=False, faults=faults)
            if key is not None and call is not None:
                counts = (message.counter_data.packet_count, message.counter_data.byte_count)
                note = Note(message.metadata, message.controller_metadata)
                held[key, message.priority] = Held(call, note, counts, message.is_const)
        self.entries[table.id] = held

    def adopt_default(self, table: Table, messages: list[Any]) -> None:
        found = Default(None)
        for message in messages:
            call = call_of(table, message.action, is_default=True, faults=Faults())
            found = Default(call, Note(message.metadata, message.controller_metadata))
        self.defaults[table.id] = found
        self.programs_own.setdefault(table.id, found)

    def adopt_cells(self, counter: int, messages: list[Any]) -> None:
        cells = {each.index.index: (each.data.packet_count, each.data.byte_count) for each in messages}
        self.cells[counter] = [cells.get(index, (0, 0)) for index in range(self.schema.counters[counter])]

    def adopt_group(self, group: int, messages: list[Any]) -> None:
        self.groups.pop(group, None)
        for message in messages:
            self.groups[group] = (message.metadata, _read_replicas(message))

    def adopt_session(self, session: int, messages: list[Any]) -> None:
        self.sessions.pop(session, None)
        for message in messages:
            self.sessions[session] = (message.class_of_service, _read_replicas(message))

    # -- as messages -----------------------------------------------------

    def entry(self, table: Table, identity: Identity, held: Held, *, counted: bool) -> Any:
        key, priority = identity
        message = p4runtime_pb2.TableEntry(
            table_id=table.id,
            match=matches_of(table, key),
            action=action_of(table, held.call),
            priority=priority,
            is_const=held.is_const,
            metadata=held.note.metadata,
            controller_metadata=held.note.controller_metadata,
        )
        if counted and table.counted:
            set_counts(message.counter_data, held.counts)
        return message

    def default(self, table: Table) -> Any:
        kept = self.defaults[table.id]
        message = p4runtime_pb2.TableEntry(
            table_id=table.id,
            is_default_action=True,
            metadata=kept.note.metadata,
            controller_metadata=kept.note.controller_metadata,
        )
        if kept.call is not None:
            message.action.CopyFrom(action_of(table, kept.call))
        return message

    def direct_counter(self, table: Table, identity: Identity, held: Held) -> Any:
        entity = p4runtime_pb2.Entity()
        key, priority = identity
        entity.direct_counter_entry.table_entry.CopyFrom(
            p4runtime_pb2.TableEntry(table_id=table.id, match=matches_of(table, key), priority=priority)
        )
        set_counts(entity.direct_counter_entry.data, held.counts)
        return entity

    def cell(self, counter: int, index: int) -> Any:
        entity = p4runtime_pb2.Entity()
        entity.counter_entry.counter_id = counter
        entity.counter_entry.index.index = index
        set_counts(entity.counter_entry.data, self.cells[counter][index])
        return entity

    def group(self, number: int) -> Any:
        entity = p4runtime_pb2.Entity()
        message = entity.packet_replication_engine_entry.multicast_group_entry
        message.multicast_group_id = number
        message.metadata, replicas = self.groups[number]
        _write_replicas(message, replicas)
        return entity

    def session(self, number: int) -> Any:
        entity = p4runtime_pb2.Entity()
        message = entity.packet_replication_engine_entry.clone_session_entry
        message.session_id = number
        message.class_of_service, replicas = self.sessions[number]
        _write_replicas(message, replicas)
        return entity


def _read_replicas(message: Any) -> frozenset[Replica]:
    return frozenset(
        (int.from_bytes(each.port, "big"), each.instance, True)
        if each.WhichOneof("port_kind") == "port"
        else (each.egress_port, each.instance, False)
        for each in message.replicas
    )


def _write_replicas(message: Any, replicas: frozenset[Replica]) -> None:
    for port, instance, as_bytes in sorted(replicas):
        if as_bytes:
            message.replicas.add(port=shortest(port), instance=instance)
        else:
            message.replicas.add(egress_port=port, instance=instance)


def set_counts(message: Any, counts: Counts) -> None:
    message.SetInParent()
    message.packet_count, message.byte_count = counts


def resource_of(entity: Any) -> Resource | None:
    """What an update's or a read's entity is about; None where it is about nothing that has a state, or about all."""
    match entity.WhichOneof("entity"):
        case "table_entry":
            return ("table", entity.table_entry.table_id)
        case "direct_counter_entry":
            return ("table", entity.direct_counter_entry.table_entry.table_id)
        case "counter_entry":
            return ("counter", entity.counter_entry.counter_id)
        case "packet_replication_engine_entry":
            replication = entity.packet_replication_engine_entry
            if replication.WhichOneof("type") == "multicast_group_entry":
                return ("group", replication.multicast_group_entry.multicast_group_id)
            if replication.WhichOneof("type") == "clone_session_entry":
                return ("session", replication.clone_session_entry.session_id)
    return None


def normal(entity: Any) -> bytes:
    """An entity as bytes, the same for replicas in any order."""
    if entity.WhichOneof("entity") == "packet_replication_engine_entry":
        replication = entity.packet_replication_engine_entry
        group = getattr(replication, replication.WhichOneof("type") or "multicast_group_entry")
        group.replicas.sort(key=lambda each: (int.from_bytes(each.port, "big") or each.egress_port, each.instance))
    return bytes(entity.SerializeToString(deterministic=True))


def everything(model: Model) -> Iterator[Any]:
    """Reads that together show all of the state, each of one resource."""
    for table in model.schema.tables.values():
        asked = p4runtime_pb2.Entity(table_entry=p4runtime_pb2.TableEntry(table_id=table.id))
        if table.counted:
            asked.table_entry.counter_data.SetInParent()
        yield asked
        yield p4runtime_pb2.Entity(table_entry=p4runtime_pb2.TableEntry(table_id=table.id, is_default_action=True))
    for counter in model.schema.counters:
        yield p4runtime_pb2.Entity(counter_entry=p4runtime_pb2.CounterEntry(counter_id=counter))
    groups = p4runtime_pb2.Entity()
    groups.packet_replication_engine_entry.multicast_group_entry.SetInParent()
    yield groups
    sessions = p4runtime_pb2.Entity()
    sessions.packet_replication_engine_entry.clone_session_entry.SetInParent()
    yield sessions


def name_of(code: int) -> str:
    return str(code_pb2.Code.Name(code)) if code in code_pb2.Code.values() else str(code)
