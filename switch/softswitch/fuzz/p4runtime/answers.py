# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The oracle of reads: what a request must be answered with, or which codes it may be refused with."""

from __future__ import annotations

from typing import Any

from p4.v1 import p4runtime_pb2

from softswitch.fuzz.p4runtime.decode import ABSENT, INVALID, UNIMPLEMENTED, Faults, key_of
from softswitch.fuzz.p4runtime.judge import counted_table, identity_of, indices_of
from softswitch.fuzz.p4runtime.model import Model
from softswitch.fuzz.p4runtime.schema import Table

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
