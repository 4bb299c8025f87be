# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The oracle: which codes an update or a read may be answered with, and what it changes or returns if accepted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2

from fuzz.p4runtime.model import (
    ABSENT,
    DENIED,
    INVALID,
    THERE,
    UNIMPLEMENTED,
    Call,
    Counts,
    Default,
    Faults,
    Held,
    Identity,
    Model,
    Note,
    Replica,
    Table,
    call_of,
    key_of,
    number_of,
)

_UPDATE = p4runtime_pb2.Update
_TYPES = (_UPDATE.INSERT, _UPDATE.MODIFY, _UPDATE.DELETE)
_PORTS = 511  # the last is the one that drops
_WIDEST = 1 << 16  # of a group's id and of an instance
_SESSIONS = 1 << 15


@dataclass(frozen=True)
class Verdict:
    """``codes``: one of them must be the answer; none: the update must be accepted, and then ``change`` is called."""

    codes: frozenset[int]
    why: str
    change: Callable[[], None] | None = None


def verdict_of(faults: Faults, change: Callable[[], None]) -> Verdict:
    return Verdict(frozenset(faults.codes), ", ".join(sorted(set(faults.words))), None if faults else change)


def judge(model: Model, update: Any) -> Verdict:
    faults = Faults()
    if update.type not in _TYPES:
        faults.add(INVALID, "update type")
    entity = update.entity
    match entity.WhichOneof("entity"):
        case "table_entry":
            change = _table_entry(model, update.type, entity.table_entry, faults)
        case "counter_entry":
            change = _counter(model, update.type, entity.counter_entry, faults)
        case "direct_counter_entry":
            change = _direct_counter(model, update.type, entity.direct_counter_entry, faults)
        case "packet_replication_engine_entry":
            change = _group(model, update.type, entity.packet_replication_engine_entry, faults)
        case None:
            faults.add(INVALID, "no entity")
            change = _nothing
        case (
            "meter_entry"
            | "direct_meter_entry"
            | "digest_entry"
            | "value_set_entry"
            | "action_profile_member"
            | "action_profile_group" as kind
        ):  # the program has none
            faults.add(INVALID, f"{kind} of nothing")
            change = _nothing
        case other:
            faults.add(UNIMPLEMENTED, str(other))
            change = _nothing
    return verdict_of(faults, change)


def _nothing() -> None:
    pass


# ---------------------------------------------------------------- tables


def _table_entry(model: Model, kind: int, message: Any, faults: Faults) -> Callable[[], None]:
    table = model.schema.tables.get(message.table_id)
    if table is None:
        faults.add(INVALID, "table unknown")
        return _nothing
    if message.is_const:
        faults.add(INVALID, "is_const set")
    if message.is_default_action:
        return _default(model, table, kind, message, faults)
    identity = identity_of(table, message, faults)
    if (kind in (_UPDATE.INSERT, _UPDATE.DELETE) or message.HasField("action")) and not _changeable(table, faults):
        return _nothing
    if kind == _UPDATE.DELETE:
        _check_there(model, table, identity, faults)
        return lambda: _forget(model, table, identity)
    _refuse_absent(message, faults)
    counts = _counts(table, message, faults)
    call = None
    if message.HasField("action"):
        call = call_of(table, message.action, is_default=False, faults=faults)
    elif kind == _UPDATE.INSERT:
        faults.add(INVALID, "action missing")
    note = Note(message.metadata, message.controller_metadata)
    if kind == _UPDATE.INSERT:
        _check_room(model, table, identity, faults)
    else:
        _check_there(model, table, identity, faults)
    return lambda: _put(model.entries[table.id], identity, call, counts, note)


def identity_of(table: Table, message: Any, faults: Faults) -> Identity | None:
    if not table.fields:
        faults.add(INVALID, "table without a key")
        return None
    key = key_of(table, message.match, faults)
    if (message.priority > 0) if table.has_priorities else (message.priority == 0):
        return None if key is None else (key, message.priority)
    faults.add(INVALID, "priority negative" if message.priority < 0 else "priority")
    return None


def _changeable(table: Table, faults: Faults) -> bool:
    if table.is_const:
        faults.add(DENIED, "table const")
    return not table.is_const


def _check_there(model: Model, table: Table, identity: Identity | None, faults: Faults) -> None:
    if identity is not None and identity not in model.entries[table.id]:
        faults.add(ABSENT, "entry not there")


def _check_room(model: Model, table: Table, identity: Identity | None, faults: Faults) -> None:
    entries = model.entries[table.id]
    if identity in entries:
        faults.add(THERE, "entry there already")
    elif identity is not None and len(entries) >= table.size:
        faults.add(code_pb2.RESOURCE_EXHAUSTED, "table full")


def _refuse_absent(message: Any, faults: Faults) -> None:
    if message.HasField("meter_config") or message.HasField("meter_counter_data"):
        faults.add(INVALID, "no direct meter")
    if message.idle_timeout_ns or message.HasField("time_since_last_hit"):
        faults.add(INVALID, "no idle timeout")


def _counts(table: Table, message: Any, faults: Faults) -> Counts | None:
    if not message.HasField("counter_data"):
        return None
    if not table.counted:
        faults.add(INVALID, "no direct counter")
    return _data(message.counter_data, faults)


def _data(data: Any, faults: Faults) -> Counts:
    if data.packet_count < 0 or data.byte_count < 0:
        faults.add(INVALID, "count negative")
    return data.packet_count, data.byte_count


def _put(
    entries: dict[Identity, Held], identity: Identity | None, call: Call | None, counts: Counts | None, note: Note
) -> None:
    assert identity is not None, "without an identity there was a fault"
    before = entries.get(identity)
    if before is None:
        assert call is not None, "an insert without an action is a fault"
        before = Held(call)
    after = replace(before, note=note, counts=before.counts if counts is None else counts)
    entries[identity] = after if call is None else replace(after, call=call)


def _forget(model: Model, table: Table, identity: Identity | None) -> None:
    assert identity is not None, "without an identity there was a fault"
    del model.entries[table.id][identity]


def _default(model: Model, table: Table, kind: int, message: Any, faults: Faults) -> Callable[[], None]:
    if kind != _UPDATE.MODIFY:
        faults.add(INVALID, "default entries take MODIFY only")
    if message.match or message.priority:
        faults.add(INVALID, "default entry with a key")
    if table.has_const_default:
        faults.add(DENIED, "default const")
    _refuse_absent(message, faults)
    if message.HasField("counter_data"):
        faults.add(UNIMPLEMENTED, "counter of a default entry")
    if not message.HasField("action"):
        return lambda: _reset(model, table)
    call = call_of(table, message.action, is_default=True, faults=faults)
    note = Note(message.metadata, message.controller_metadata)
    return lambda: model.defaults.update({table.id: Default(call, note)})


def _reset(model: Model, table: Table) -> None:
    model.defaults[table.id] = model.programs_own[table.id]


# ---------------------------------------------------------------- counters


def _counter(model: Model, kind: int, message: Any, faults: Faults) -> Callable[[], None]:
    if kind != _UPDATE.MODIFY:
        faults.add(INVALID, "counters take MODIFY only")
    size = model.schema.counters.get(message.counter_id)
    if size is None:
        faults.add(INVALID, "counter unknown")
        return _nothing
    indices = indices_of(size, message, faults)
    if not message.HasField("data"):
        return _nothing
    counts = _data(message.data, faults)
    return lambda: _set_cells(model, message.counter_id, indices, counts)


def indices_of(size: int, message: Any, faults: Faults) -> range:
    if not message.HasField("index"):
        return range(size)
    index = message.index.index
    if index < 0:
        faults.add(INVALID, "index negative")
    elif index >= size:
        faults.add(code_pb2.OUT_OF_RANGE, "index out of range")
    return range(index, index + 1)


def _set_cells(model: Model, counter: int, indices: range, counts: Counts) -> None:
    for index in indices:
        model.cells[counter][index] = counts


def counted_table(model: Model, entry: Any, faults: Faults) -> Table | None:
    """The table of a direct counter."""
    table = model.schema.tables.get(entry.table_id)
    if table is None:
        faults.add(INVALID, "table unknown")
    elif not table.counted:
        faults.add(INVALID, "no direct counter")
    elif entry.is_default_action:
        faults.add(UNIMPLEMENTED, "counter of a default entry")
    else:
        return table
    return None


def _direct_counter(model: Model, kind: int, message: Any, faults: Faults) -> Callable[[], None]:
    if kind != _UPDATE.MODIFY:
        faults.add(INVALID, "direct counters take MODIFY only")
    table = counted_table(model, message.table_entry, faults)
    if table is None:
        return _nothing
    identity = identity_of(table, message.table_entry, faults)
    _check_there(model, table, identity, faults)
    if not message.HasField("data"):
        return _nothing
    counts = _data(message.data, faults)
    return lambda: _set_counts(model, table, identity, counts)


def _set_counts(model: Model, table: Table, identity: Identity | None, counts: Counts) -> None:
    assert identity is not None, "without an identity there was a fault"
    held = model.entries[table.id]
    held[identity] = replace(held[identity], counts=counts)


# ---------------------------------------------------------------- groups


def _group(model: Model, kind: int, entry: Any, faults: Faults) -> Callable[[], None]:
    match entry.WhichOneof("type"):
        case None:
            faults.add(INVALID, "replication entry empty")
            return _nothing
        case "multicast_group_entry":
            message = entry.multicast_group_entry
        case _:
            return _session(model, kind, entry.clone_session_entry, faults)
    number = message.multicast_group_id
    if not 0 < number < _WIDEST:
        faults.add(INVALID, "group id")
    elif kind == _UPDATE.INSERT and number in model.groups:
        faults.add(THERE, "group there already")
    elif kind != _UPDATE.INSERT and number not in model.groups:
        faults.add(ABSENT, "group not there")
    if kind == _UPDATE.DELETE:
        return lambda: _forget_group(model, number)
    replicas = _replicas(message.replicas, faults)
    return lambda: model.groups.update({number: (message.metadata, replicas)})


def _session(model: Model, kind: int, message: Any, faults: Faults) -> Callable[[], None]:
    number = message.session_id
    if not 0 < number < _SESSIONS:
        faults.add(INVALID, "clone session id")
    elif kind == _UPDATE.INSERT and number in model.sessions:
        faults.add(THERE, "clone session there already")
    elif kind != _UPDATE.INSERT and number not in model.sessions:
        faults.add(ABSENT, "clone session not there")
    if kind == _UPDATE.DELETE:
        return lambda: _forget_session(model, number)
    if message.packet_length_bytes:
        faults.add(UNIMPLEMENTED, "clone session that cuts")
    replicas = _replicas(message.replicas, faults)
    return lambda: model.sessions.update({number: (message.class_of_service, replicas)})


def _forget_session(model: Model, number: int) -> None:
    del model.sessions[number]


def _forget_group(model: Model, number: int) -> None:
    del model.groups[number]


def _replicas(messages: Any, faults: Faults) -> frozenset[Replica]:
    replicas: dict[tuple[int, int], bool] = {}
    for message in messages:
        kind = message.WhichOneof("port_kind")
        if kind is None:
            faults.add(INVALID, "replica without a port")
            continue
        port = number_of(message.port, 9, faults) if kind == "port" else message.egress_port
        if port >= _PORTS:
            faults.add(INVALID, "port out of range")
        if message.instance >= _WIDEST:
            faults.add(INVALID, "instance too wide")
        if (port, message.instance) in replicas:
            faults.add(INVALID, "replica twice")
        replicas[port, message.instance] = kind == "port"
    return frozenset((port, instance, as_bytes) for (port, instance), as_bytes in replicas.items())


Entities = list[Any]


def answer(model: Model, request: Any, faults: Faults) -> Entities:
    """All that the request asks for. With ``faults`` it must be refused."""
    match request.WhichOneof("entity"):
        case "table_entry":
            return _table_entries(model, request.table_entry, faults)
        case "counter_entry":
            return _cells(model, request.counter_entry, faults)
        case "direct_counter_entry":
            return _direct_counters(model, request.direct_counter_entry.table_entry, faults)
        case "packet_replication_engine_entry":
            return _groups(model, request.packet_replication_engine_entry, faults)
        case None:
            faults.add(INVALID, "no entity")
        case "direct_meter_entry":
            _direct_meters(model, request.direct_meter_entry, faults)
        case other:
            asked = getattr(request, other)
            if (other == "action_profile_member" and asked.member_id) or (
                other == "action_profile_group" and asked.group_id
            ):
                faults.add(ABSENT, "member not there")
            if other == "meter_entry" and asked.HasField("counter_data"):
                faults.add(UNIMPLEMENTED, "counters of a meter")
            if getattr(asked, _IDS[other]):
                faults.add(INVALID, f"{other} of nothing")
    return []


#: Of kinds of which the program has none: a read of all of them is answered with nothing.
_IDS = {
    "extern_entry": "extern_type_id",
    "action_profile_member": "action_profile_id",
    "action_profile_group": "action_profile_id",
    "meter_entry": "meter_id",
    "value_set_entry": "value_set_id",
    "register_entry": "register_id",
    "digest_entry": "digest_id",
}


def _direct_meters(model: Model, asked: Any, faults: Faults) -> None:
    if asked.HasField("counter_data"):
        faults.add(UNIMPLEMENTED, "counters of a direct meter")
    for _ in _tables(model, asked.table_entry, faults):
        if asked.table_entry.table_id:
            faults.add(INVALID, "no direct meter")


def _tables(model: Model, asked: Any, faults: Faults) -> list[Table]:
    if asked.table_id:
        table = model.schema.tables.get(asked.table_id)
        if table is None:
            faults.add(INVALID, "table unknown")
        return [] if table is None else [table]
    if asked.match:
        faults.add(INVALID, "match without a table")
    return list(model.schema.tables.values())


def _table_entries(model: Model, asked: Any, faults: Faults) -> Entities:
    if asked.HasField("time_since_last_hit"):
        faults.add(INVALID, "no idle timeout")
    found: Entities = []
    for table in _tables(model, asked, faults):
        if asked.is_default_action:
            if asked.match or asked.priority:
                faults.add(INVALID, "default entry with a key")
            messages = [model.default(table)]
        else:
            messages = _rows(model, table, asked, faults)
        found += [p4runtime_pb2.Entity(table_entry=each) for each in messages if _passes(each, asked)]
    return found


def _rows(model: Model, table: Table, asked: Any, faults: Faults) -> Entities:
    counted = asked.HasField("counter_data")
    wanted = key_of(table, asked.match, faults) if asked.match else None
    return [
        model.entry(table, identity, held, counted=counted)
        for identity, held in model.entries[table.id].items()
        if not asked.match or identity[0] == wanted
    ]


def _passes(message: Any, asked: Any) -> bool:
    if asked.action.action.action_id not in (0, message.action.action.action_id):
        return False
    names = ("priority", "controller_metadata", "metadata")
    return all(getattr(asked, name) in (type(getattr(asked, name))(), getattr(message, name)) for name in names)


def _cells(model: Model, asked: Any, faults: Faults) -> Entities:
    if asked.counter_id == 0:
        return [model.cell(counter, index) for counter, size in model.schema.counters.items() for index in range(size)]
    size = model.schema.counters.get(asked.counter_id)
    if size is None:
        faults.add(INVALID, "counter unknown")
        return []
    indices = indices_of(size, asked, faults)
    return [] if faults else [model.cell(asked.counter_id, index) for index in indices]


def _direct_counters(model: Model, asked: Any, faults: Faults) -> Entities:
    if not asked.table_id:
        if asked.match:
            faults.add(INVALID, "match without a table")
        tables = [table for table in model.schema.tables.values() if table.counted]
        return [model.direct_counter(table, *entry) for table in tables for entry in model.entries[table.id].items()]
    table = counted_table(model, asked, faults)
    if table is None:
        return []
    entries = model.entries[table.id]
    if not asked.match:
        return [model.direct_counter(table, *entry) for entry in entries.items()]
    identity = identity_of(table, asked, faults)
    if identity is None:
        return []
    if identity not in entries:
        faults.add(ABSENT, "entry not there")
        return []
    return [model.direct_counter(table, identity, entries[identity])]


def _groups(model: Model, asked: Any, faults: Faults) -> Entities:
    match asked.WhichOneof("type"):
        case None:
            faults.add(INVALID, "replication entry empty")
            return []
        case "multicast_group_entry":
            number = asked.multicast_group_entry.multicast_group_id
        case "clone_session_entry":
            return _sessions(model, asked.clone_session_entry.session_id, faults)
    if number and number not in model.groups:
        faults.add(ABSENT, "group not there")
        return []
    return [model.group(each) for each in ([number] if number else model.groups)]


def _sessions(model: Model, number: int, faults: Faults) -> Entities:
    if number and number not in model.sessions:
        faults.add(ABSENT, "clone session not there")
        return []
    return [model.session(each) for each in ([number] if number else model.sessions)]
