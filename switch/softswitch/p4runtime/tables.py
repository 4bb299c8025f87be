# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Writing table entries, default entries and direct counters.

Specification: "TableEntry", "Default Entry", "Constant Tables", "Direct Resources".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from p4.v1 import p4runtime_pb2

from softswitch.device import Device
from softswitch.p4runtime import externs
from softswitch.p4runtime.entries import decode_action, decode_key, decode_priority
from softswitch.p4runtime.errors import (
    InvalidArgumentError,
    NotThereError,
    PermissionDeniedError,
    UnimplementedError,
)
from softswitch.p4runtime.p4info import TableInfo
from softswitch.p4runtime.pipeline import EntryNote, ForwardingPipeline, check_metadata
from softswitch.p4runtime.profiles import EntryKey
from softswitch.runtime.entries import ActionCall, ActionSet, CounterValue, Entry, KeyMatch, MeterRates

INSERT = p4runtime_pb2.Update.INSERT
_MODIFY = p4runtime_pb2.Update.MODIFY
_DELETE = p4runtime_pb2.Update.DELETE
_NO_NOTE = EntryNote()


class TableRow(NamedTuple):
    """The identity of an entry: the part of a ``TableEntry`` that tells it from others."""

    table: TableInfo
    key: tuple[KeyMatch, ...]
    priority: int

    @property
    def where(self) -> EntryKey:
        return self.table.name, self.key, self.priority

    def find(self, device: Device) -> Entry:
        """Find the row in the device. Raises NotThereError."""
        return self._known(device.entry(self.table.name, self.key, self.priority))

    def among(self, entries: Iterable[Entry]) -> Entry:
        """Return the row's entry among ``entries``. Raises NotThereError."""
        found = (entry for entry in entries if entry.key == self.key and entry.priority == self.priority)
        return self._known(next(found, None))

    def _known(self, entry: Entry | None) -> Entry:
        if entry is None:
            raise NotThereError(f"table {self.table.name!r} has no entry {self.key} of priority {self.priority}")
        return entry


def decode_row(table: TableInfo, message: Any) -> TableRow:
    """Return the identity of an entry. Raises InvalidArgumentError if match fields or priority break a rule."""
    if not table.fields:
        raise InvalidArgumentError(f"table {table.name!r} has no key, so no entry but the default one")
    return TableRow(table, decode_key(table, message.match), decode_priority(table, message.priority))


def write(device: Device, pipeline: ForwardingPipeline, update_type: int, message: Any) -> None:
    """Apply one update of a ``TableEntry``."""
    table = pipeline.info.table(message.table_id)
    check_metadata(f"table {table.name!r}", message.metadata)
    if message.is_const:
        raise InvalidArgumentError(f"table {table.name!r}: is_const is for the program to set, not for a request")
    if message.is_default_action:
        _write_default(device, pipeline, table, update_type, message)
        return
    row = decode_row(table, message)
    if update_type == _DELETE:
        _check_not_const(device, row)
        device.delete(table.name, row.key, row.priority)
        if table.implementation_id:
            pipeline.notes.profiles.refer(table, row.where, None)
        if pipeline.idle is not None and table.has_idle_timeout:
            pipeline.idle.delete(row.where)
        _note_entry(pipeline, row, _NO_NOTE)
        return
    if message.HasField("action") or update_type == INSERT:
        _check_not_const(device, row)
    _put(device, pipeline, row, update_type, message)


def write_direct_counter(device: Device, pipeline: ForwardingPipeline, message: Any) -> None:
    """Set the counter of one entry (``DirectCounterEntry``). Without ``data`` nothing changes."""
    table = direct_table(pipeline, message.table_entry, "counter")
    row = decode_row(table, message.table_entry)
    row.find(device)
    if message.HasField("data"):
        value = externs.decode_data(message.data, f"direct counter of table {table.name!r}")
        device.write_direct_counter(table.name, row.key, row.priority, value)


def write_direct_meter(device: Device, pipeline: ForwardingPipeline, message: Any) -> None:
    """Configure the meter of one entry (``DirectMeterEntry``). Without ``config`` its packets are green."""
    table = direct_table(pipeline, message.table_entry, "meter")
    row = decode_row(table, message.table_entry)
    if message.HasField("counter_data"):
        raise UnimplementedError(f"table {table.name!r}: counter_data of direct meters is not offered")
    rates = _decode_rates(table, message, "config")
    row.find(device)
    _configure(device, row, rates)


def direct_table(pipeline: ForwardingPipeline, entry: Any, kind: str) -> TableInfo:
    """Return the table that a request for direct counters or meters names; ``kind``: "counter" or "meter".

    Raises InvalidArgumentError for a table without them, and UnimplementedError for a default entry.
    """
    table = pipeline.info.table(entry.table_id)
    if not has_direct(table, kind):
        raise InvalidArgumentError(f"table {table.name!r} has no direct {kind}")
    if entry.is_default_action:
        raise UnimplementedError(f"table {table.name!r}: the direct {kind} of a default entry is not offered")
    return table


def has_direct(table: TableInfo, kind: str) -> bool:
    """Return whether the table's entries have direct counters or meters (``kind``)."""
    return table.has_direct_counter if kind == "counter" else table.has_direct_meter


def _decode_rates(table: TableInfo, message: Any, name: str) -> MeterRates | None:
    if not message.HasField(name):
        return None
    return externs.decode_meter(f"direct meter of table {table.name!r}", getattr(message, name))


def _configure(device: Device, row: TableRow, rates: MeterRates | None) -> None:
    if rates is not None or device.direct_meter_rates(*row.where) is not None:
        device.set_direct_meter(row.table.name, row.key, row.priority, rates)


def _write_default(
    device: Device, pipeline: ForwardingPipeline, table: TableInfo, update_type: int, message: Any
) -> None:
    what = f"table {table.name!r}, default entry"
    if update_type != _MODIFY:
        raise InvalidArgumentError(f"{what}: always exists, so the only update is MODIFY")
    if message.match or message.priority:
        raise InvalidArgumentError(f"{what}: takes neither match fields nor a priority")
    if table.has_const_default:
        raise PermissionDeniedError(f"{what}: is const")
    _refuse_absent(table, message)
    if message.HasField("counter_data"):
        raise UnimplementedError(f"{what}: the direct counter of a default entry is not offered")
    if not message.HasField("action"):
        device.set_default_action(table.name, None)
        pipeline.notes.defaults.pop(table.name, None)
        return
    if table.implementation_id:
        raise PermissionDeniedError(f"{what}: is const where the table has an action profile")
    action = decode_action(pipeline.info, table, message.action, is_default=True)
    device.set_default_action(table.name, action)
    pipeline.notes.defaults[table.name] = _note_of(message)


def _put(device: Device, pipeline: ForwardingPipeline, row: TableRow, update_type: int, message: Any) -> None:
    """INSERT or MODIFY. Everything is decoded before the device sees anything."""
    table = row.table
    _refuse_absent(table, message)
    counter = _decode_counter(table, message)
    rates = _decode_rates(table, message, "meter_config")
    if message.HasField("action"):
        entry = Entry(row.key, _decode_action(pipeline, table, message.action), row.priority)
        if update_type == INSERT:
            device.insert(table.name, entry)
        else:
            device.modify(table.name, entry)
        if table.implementation_id:
            pipeline.notes.profiles.refer(table, row.where, message.action)
    elif update_type == INSERT:
        raise InvalidArgumentError(f"table {table.name!r}: an INSERT needs an action")
    else:
        row.find(device)
    if counter is not None:
        device.write_direct_counter(table.name, row.key, row.priority, counter)
    if table.has_direct_meter:
        _configure(device, row, rates)
    _note_entry(pipeline, row, _note_of(message))
    if pipeline.idle is not None and table.has_idle_timeout:
        pipeline.idle.write(row.where, message.idle_timeout_ns)


def _decode_action(pipeline: ForwardingPipeline, table: TableInfo, action: Any) -> ActionCall | ActionSet:
    if table.implementation_id:
        return pipeline.notes.profiles.resolve(pipeline.info, table, action)
    return decode_action(pipeline.info, table, action, is_default=False)


def _check_not_const(device: Device, row: TableRow) -> None:
    """Raises PermissionDeniedError for a const table and for a const entry of a preinitialised one."""
    table = row.table
    if table.is_const:
        raise PermissionDeniedError(f"table {table.name!r} is const: only its direct counters may change")
    if not table.has_initial_entries:
        return
    entry = device.entry(table.name, row.key, row.priority)
    if entry is not None and entry.is_const:
        raise PermissionDeniedError(f"table {table.name!r}: entry {row.key} is const")


def _refuse_absent(table: TableInfo, message: Any) -> None:
    metered = table.has_direct_meter
    if message.HasField("meter_counter_data") and metered:
        raise UnimplementedError(f"table {table.name!r}: meter_counter_data is not offered")
    if message.HasField("meter_config") and metered and message.is_default_action:
        raise UnimplementedError(f"table {table.name!r}: the direct meter of a default entry is not offered")
    for name in ("meter_config", "meter_counter_data"):
        if message.HasField(name) and not metered:
            raise InvalidArgumentError(f"table {table.name!r}: {name} is set, but it has no direct meter")
    if message.HasField("time_since_last_hit") and table.has_idle_timeout:
        raise InvalidArgumentError(f"table {table.name!r}: time_since_last_hit is read, not written")
    if message.idle_timeout_ns < 0:
        raise InvalidArgumentError(f"table {table.name!r}: idle_timeout_ns is {message.idle_timeout_ns}, below 0")
    timed = table.has_idle_timeout and not message.is_default_action
    if (message.idle_timeout_ns and not timed) or message.HasField("time_since_last_hit"):
        raise InvalidArgumentError(f"table {table.name!r} has no idle timeout")


def _decode_counter(table: TableInfo, message: Any) -> CounterValue | None:
    if not message.HasField("counter_data"):
        return None
    if not table.has_direct_counter:
        raise InvalidArgumentError(f"table {table.name!r}: counter_data is set, but it has no direct counter")
    return externs.decode_data(message.counter_data, f"direct counter of table {table.name!r}")


def _note_of(message: Any) -> EntryNote:
    if not message.metadata and not message.controller_metadata:
        return _NO_NOTE
    return EntryNote(message.metadata, message.controller_metadata)


def _note_entry(pipeline: ForwardingPipeline, row: TableRow, note: EntryNote) -> None:
    notes = pipeline.notes.entries
    if note != _NO_NOTE:
        notes[row.where] = note
    elif notes:
        notes.pop(row.where, None)
