# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The Read RPC's requests as generators of entities (specification: "Read RPC", "Wildcard Reads")."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from p4.v1 import p4runtime_pb2

from softswitch.device import Device
from softswitch.errors import DeviceError, NotFoundError
from softswitch.p4runtime import counters, groups, tables
from softswitch.p4runtime.entries import decode_key, encode_action, encode_key
from softswitch.p4runtime.errors import InvalidArgumentError, P4RuntimeError, UnimplementedError, from_device
from softswitch.p4runtime.p4info import Table
from softswitch.p4runtime.pipeline import EntryNote, Pipeline
from softswitch.runtime.entries import CounterValue, Entry

#: Small enough for a client's default limit of 4 MiB a message, even with one more entity in it.
RESPONSE_BYTES = 1 << 20


@dataclass(frozen=True)
class Result:
    """What was read, and one outcome (error or None) per request of the batch."""

    entities: list[Any]
    outcomes: list[P4RuntimeError | None]


def collect(device: Device, pipeline: Pipeline, requests: Iterable[Any]) -> Result:
    """Answer each request; a refused one adds no entity and does not stop the others."""
    result = Result([], [])
    for request in requests:
        try:
            entities = list(_read_one(device, pipeline, request))
        except P4RuntimeError as error:
            result.outcomes.append(error)
        except DeviceError as error:
            result.outcomes.append(from_device(error))
        else:
            result.outcomes.append(None)
            result.entities.extend(entities)
    return result


def responses(entities: Iterable[Any]) -> Iterator[Any]:
    """``ReadResponse`` messages of about RESPONSE_BYTES each; none for no entity."""
    response, size = p4runtime_pb2.ReadResponse(), 0
    for entity in entities:
        response.entities.append(entity)
        size += entity.ByteSize()
        if size >= RESPONSE_BYTES:
            yield response
            response, size = p4runtime_pb2.ReadResponse(), 0
    if response.entities:
        yield response


def _read_one(device: Device, pipeline: Pipeline, request: Any) -> Iterator[Any]:
    kind = request.WhichOneof("entity")
    match kind:
        case "table_entry":
            return _table_entries(device, pipeline, request.table_entry)
        case "counter_entry":
            return counters.read(device, pipeline.info, request.counter_entry)
        case "direct_counter_entry":
            return _direct_counters(device, pipeline, request.direct_counter_entry)
        case "packet_replication_engine_entry":
            return groups.read(device, pipeline.notes.groups, request.packet_replication_engine_entry)
        case None:
            raise InvalidArgumentError("the request has no entity; a read names the kind it wants")
        case _:
            raise UnimplementedError(f"reading a {kind} is not offered")


def _table_entries(device: Device, pipeline: Pipeline, request: Any) -> Iterator[Any]:
    if request.HasField("time_since_last_hit"):
        raise InvalidArgumentError("time_since_last_hit is set, but no table has an idle timeout")
    read = _default_entry if request.is_default_action else _entries
    for table in _tables(pipeline, request):
        try:
            messages = list(read(device, pipeline, table, request))
        except NotFoundError:
            if request.table_id:
                raise
            continue  # the compiler may drop a table that P4Info lists: nothing to read there
        yield from (p4runtime_pb2.Entity(table_entry=message) for message in messages if _passes(message, request))


def _tables(pipeline: Pipeline, request: Any) -> list[Table]:
    if request.table_id:
        return [pipeline.info.table(request.table_id)]
    if request.match:
        raise InvalidArgumentError("match fields without a table id")
    return list(pipeline.info.tables.values())


def _passes(message: Any, request: Any) -> bool:
    """Apply the filters, whose default values mean "any"."""
    action_id = request.action.action.action_id
    if action_id and action_id != message.action.action.action_id:
        return False
    for name in ("priority", "controller_metadata", "metadata"):
        wanted = getattr(request, name)
        if wanted and wanted != getattr(message, name):
            return False
    return True


def _entries(device: Device, pipeline: Pipeline, table: Table, request: Any) -> Iterator[Any]:
    for entry in _matching(device, table, request):
        message = _key_message(table, entry)
        message.action.CopyFrom(encode_action(pipeline.info, entry.action))
        message.is_const = entry.is_const
        _add_note(message, pipeline.notes.entries.get((table.name, entry.key, entry.priority)))
        if request.HasField("counter_data") and table.has_direct_counter:
            message.counter_data.CopyFrom(counters.encode_data(entry.counter or CounterValue()))
        yield message


def _matching(device: Device, table: Table, request: Any) -> list[Entry]:
    found = device.entries(table.name)
    if not request.match:
        return found
    key = decode_key(table, request.match)
    return [entry for entry in found if entry.key == key]


def _default_entry(device: Device, pipeline: Pipeline, table: Table, request: Any) -> Iterator[Any]:
    if request.match or request.priority:
        raise InvalidArgumentError(f"table {table.name!r}: a default entry has neither match fields nor a priority")
    message = p4runtime_pb2.TableEntry(table_id=table.id, is_default_action=True)
    action = device.default_action(table.name)
    if action is not None:
        message.action.CopyFrom(encode_action(pipeline.info, action))
    _add_note(message, pipeline.notes.defaults.get(table.name))
    yield message


def _key_message(table: Table, entry: Entry) -> Any:
    return p4runtime_pb2.TableEntry(
        table_id=table.id, match=encode_key(table, entry.key), priority=entry.priority if table.needs_priority else 0
    )


def _add_note(message: Any, note: EntryNote | None) -> None:
    if note is not None:
        message.metadata = note.metadata
        message.controller_metadata = note.controller_metadata


def _direct_counters(device: Device, pipeline: Pipeline, request: Any) -> Iterator[Any]:
    entry = request.table_entry
    if entry.table_id:
        wanted = [tables.direct_counter_table(pipeline, entry)]
    elif entry.match:
        raise InvalidArgumentError("match fields without a table id")
    else:
        wanted = [table for table in pipeline.info.tables.values() if table.has_direct_counter]
    for table in wanted:
        found = [tables.decode_row(table, entry).find(device)] if entry.match else device.entries(table.name)
        for row in found:
            entity = p4runtime_pb2.Entity()
            entity.direct_counter_entry.table_entry.CopyFrom(_key_message(table, row))
            entity.direct_counter_entry.data.CopyFrom(counters.encode_data(row.counter or CounterValue()))
            yield entity
