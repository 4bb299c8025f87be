# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Writes: carries out the updates of a request, one by one, or many similar ones at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

from p4.v1 import p4runtime_pb2

from softswitch.device import Device
from softswitch.errors import DeviceError
from softswitch.p4runtime import externs, replication, tables
from softswitch.p4runtime.batching import BatchedUpdates, UpdateBatch
from softswitch.p4runtime.entries import decode_call, decode_key, decode_priority
from softswitch.p4runtime.errors import (
    BatchError,
    InvalidArgumentError,
    P4RuntimeError,
    UnimplementedError,
    from_device,
)
from softswitch.p4runtime.p4info import KeyField, MatchType, P4Info, TableInfo
from softswitch.p4runtime.pipeline import ForwardingPipeline
from softswitch.p4runtime.roles import FULL, Access, entity_id
from softswitch.p4runtime.tables import INSERT
from softswitch.runtime.entries import ActionCall, Entry, Exact, KeyMatch, Lpm

Columns = tuple[Sequence[int], ...]


def insert_batch(
    device: Device, pipeline: ForwardingPipeline, updates: BatchedUpdates, allowed: Access
) -> list[P4RuntimeError | None] | None:
    """Insert entries, and return the error of each or None, as if they were written one after the other.

    Returns None and changes nothing if an update breaks a rule before it reaches the device, or is not an INSERT into a
    table with plain entries.
    """
    tables: dict[str, list[tuple[int, Entry]]] = {}
    for layout in updates.layouts:
        table = pipeline.info.tables.get(layout.first.entity.table_entry.table_id)
        if table is None or not _is_simple(table, layout, allowed):
            return None
        entries = _batch_entries(pipeline.info, table, layout)
        if entries is None:
            return None
        tables.setdefault(table.name, []).extend(zip(layout.numbers, entries, strict=True))
    outcomes: list[P4RuntimeError | None] = [None] * len(updates)
    for name, numbered in tables.items():
        numbered.sort()  # numbers differ, so entries are not compared
        for (number, _), error in zip(numbered, _inserted(device, name, numbered), strict=True):
            if error is not None:
                outcomes[number] = from_device(error)
    return outcomes


def _inserted(device: Device, table: str, numbered: Sequence[tuple[int, Entry]]) -> list[DeviceError | None]:
    try:
        return device.insert_many(table, [entry for _, entry in numbered])
    except DeviceError as error:
        return [error] * len(numbered)


def _is_simple(table: TableInfo, layout: UpdateBatch, allowed: Access) -> bool:
    plain = table.has_plain_entries and not table.needs_priority
    return plain and layout.first.type == INSERT and allowed.has(table.id)


def _batch_entries(info: P4Info, table: TableInfo, layout: UpdateBatch) -> Iterable[Entry] | None:
    """None where a value breaks a rule, or all of the layout do."""
    entry = layout.first.entity.table_entry
    action = entry.action.action
    try:
        key = decode_key(table, entry.match)
        call = decode_call(info, table, action, is_default=False)
        decode_priority(table, entry.priority)
    except P4RuntimeError:
        return None
    columns = iter(layout.columns)
    fields = {
        match.field_id: (next(columns), next(columns)) if match.which == "lpm" else (next(columns),)
        for match in entry.match
    }
    given = {param.param_id: next(columns) for param in action.params}
    count = len(layout.numbers)
    keys = [
        _matches(field, fields[number]) if number in fields else [match] * count
        for (number, (field, _)), match in zip(table.named_fields.items(), key, strict=True)
    ]
    params = info.actions[action.action_id].params
    if None in keys or not all(_fit(given[param.id], param.width) for param in params):
        return None
    args = zip(*[given[param.id] for param in params], strict=True) if params else repeat((), count)
    calls = map(ActionCall, repeat(call.name), args)
    return map(Entry, zip(*keys, strict=True), calls)


def _matches(field: KeyField, columns: Columns) -> Sequence[KeyMatch] | None:
    """None where one breaks a rule of :func:`softswitch.p4runtime.entries.decode_match`."""
    if not _fit(columns[0], field.width):
        return None
    if field.kind is MatchType.EXACT:
        return list(map(Exact, columns[0]))
    values, lengths = columns
    if min(lengths) < 1 or max(lengths) > field.width:
        return None
    behind = [(1 << field.width - length) - 1 for length in range(field.width + 1)]
    if any(value & behind[length] for value, length in zip(values, lengths, strict=True)):
        return None
    return list(map(Lpm, values, lengths))


def _fit(values: Sequence[int], width: int) -> bool:
    return max(values) < 1 << width


_UPDATE = p4runtime_pb2.Update
_WRITE_REQUEST = p4runtime_pb2.WriteRequest


def check_atomicity(atomicity: int) -> None:
    """Raise UnimplementedError for the optional modes, InvalidArgumentError for an unknown one."""
    if atomicity not in _WRITE_REQUEST.Atomicity.values():
        raise InvalidArgumentError(f"atomicity {atomicity} is unknown")
    if atomicity != _WRITE_REQUEST.CONTINUE_ON_ERROR:
        name = _WRITE_REQUEST.Atomicity.Name(atomicity)
        raise UnimplementedError(f"atomicity {name} is not offered; CONTINUE_ON_ERROR is")


def apply(device: Device, pipeline: ForwardingPipeline, updates: Iterable[Any], allowed: Access = FULL) -> int:
    """Attempt every update in order. ``allowed``: which objects the role that asks may write. Returns the number of
    updates.

    Raises BatchError if any failed; the others have been carried out. A table is changed once for all of them.
    """
    with device.batch():
        outcomes = insert_batch(device, pipeline, updates, allowed) if isinstance(updates, BatchedUpdates) else None
        if outcomes is None:
            outcomes = [_outcome(device, pipeline, allowed, update) for update in updates]
    if any(outcomes):
        raise BatchError("updates", outcomes)
    return len(outcomes)


def _outcome(device: Device, pipeline: ForwardingPipeline, allowed: Access, update: Any) -> P4RuntimeError | None:
    try:
        if allowed is not FULL:
            allowed.require(entity_id(update.entity), f"what the {update.entity.WhichOneof('entity')} is about")
        _apply_one(device, pipeline, update)
    except P4RuntimeError as error:
        return error
    except DeviceError as error:
        return from_device(error)
    return None


def _apply_one(device: Device, pipeline: ForwardingPipeline, update: Any) -> None:
    kind = update.entity.WhichOneof("entity")
    if update.type not in (_UPDATE.INSERT, _UPDATE.MODIFY, _UPDATE.DELETE):
        raise InvalidArgumentError(f"update type {update.type} is not INSERT, MODIFY or DELETE")
    match kind:
        case "table_entry":
            tables.write(device, pipeline, update.type, update.entity.table_entry)
        case "counter_entry":
            _require_modify(update, "counter entries")
            externs.write_counter(device, pipeline.info, update.entity.counter_entry)
        case "direct_counter_entry":
            _require_modify(update, "direct counter entries")
            tables.write_direct_counter(device, pipeline, update.entity.direct_counter_entry)
        case "direct_meter_entry":
            _require_modify(update, "direct meter entries")
            tables.write_direct_meter(device, pipeline, update.entity.direct_meter_entry)
        case "packet_replication_engine_entry":
            entry = update.entity.packet_replication_engine_entry
            if entry.WhichOneof("type") == "clone_session_entry":
                replication.write_session(device, pipeline.notes.sessions, update.type, entry.clone_session_entry)
            else:
                replication.write_group(device, pipeline.notes.groups, update.type, entry)
        case None:
            raise InvalidArgumentError("the update has no entity")
        case _:
            _apply_extern(device, pipeline, kind, update)


def _apply_extern(device: Device, pipeline: ForwardingPipeline, kind: str, update: Any) -> None:
    match kind:
        case "meter_entry":
            _require_modify(update, "meter entries")
            externs.write_meter(device, pipeline.info, update.entity.meter_entry)
        case "action_profile_member":
            member = update.entity.action_profile_member
            pipeline.notes.profiles.write_member(device, pipeline.info, update.type, member)
        case "action_profile_group":
            group = update.entity.action_profile_group
            pipeline.notes.profiles.write_group(device, pipeline.info, update.type, group)
        case "value_set_entry":
            _require_modify(update, "value sets")
            externs.write_value_set(device, pipeline.info, pipeline.notes.value_sets, update.entity.value_set_entry)
        case "digest_entry" if pipeline.digests is not None:
            pipeline.digests.write(update.type, update.entity.digest_entry)
            device.on_digest(pipeline.digests.learn if pipeline.digests else None)
        case _:
            raise UnimplementedError(f"writing a {kind} is not offered")


def _require_modify(update: Any, what: str) -> None:
    if update.type != _UPDATE.MODIFY:
        raise InvalidArgumentError(f"{_UPDATE.Type.Name(update.type)}: {what} take MODIFY only")
