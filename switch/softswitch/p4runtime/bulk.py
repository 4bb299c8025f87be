# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Inserts that look alike, checked by columns and written together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat

from softswitch.device import Device
from softswitch.errors import DeviceError
from softswitch.p4runtime.access import Access
from softswitch.p4runtime.alike import Alike, AlikeUpdates
from softswitch.p4runtime.entries import decode_call, decode_key, decode_priority
from softswitch.p4runtime.errors import P4RuntimeError, from_device
from softswitch.p4runtime.p4info import KeyField, MatchKind, P4Info, Table
from softswitch.p4runtime.pipeline import Pipeline
from softswitch.p4runtime.tables import INSERT
from softswitch.p4runtime.wire import LpmMatch
from softswitch.runtime.entries import ActionCall, Entry, Exact, KeyMatch, Lpm

Columns = tuple[Sequence[int], ...]


def insert(
    device: Device, pipeline: Pipeline, updates: AlikeUpdates, allowed: Access
) -> list[P4RuntimeError | None] | None:
    """What became of each, as if they were written one after the other. None, and nothing has changed, where one breaks
    a rule before the device sees it, or is no insert into a table with plain entries."""
    tables: dict[str, list[tuple[int, Entry]]] = {}
    for layout in updates.layouts:
        table = pipeline.info.tables.get(layout.first.table_id)
        if table is None or not _is_simple(table, layout, allowed):
            return None
        entries = _entries(pipeline.info, table, layout)
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


def _is_simple(table: Table, layout: Alike, allowed: Access) -> bool:
    plain = table.has_plain_entries and not table.needs_priority
    return plain and layout.first.type == INSERT and allowed.has(table.id)


def _entries(info: P4Info, table: Table, layout: Alike) -> Iterable[Entry] | None:
    """None where a value breaks a rule, or all of the layout do."""
    update = layout.first
    assert update.action is not None, "layouts have an action"
    try:
        key = decode_key(table, update.match)
        call = decode_call(info, table, update.action, is_default=False)
        decode_priority(table, update.priority)
    except P4RuntimeError:
        return None
    columns = iter(layout.columns)
    fields = {
        match.field_id: (next(columns), next(columns)) if isinstance(match, LpmMatch) else (next(columns),)
        for match in update.match
    }
    given = {param.param_id: next(columns) for param in update.action.params}
    count = len(layout.numbers)
    keys = [
        _matches(field, fields[number]) if number in fields else [match] * count
        for (number, (field, _)), match in zip(table.named_fields.items(), key, strict=True)
    ]
    params = info.actions[update.action.action_id].params
    if None in keys or not all(_fit(given[param.id], param.width) for param in params):
        return None
    args = zip(*[given[param.id] for param in params], strict=True) if params else repeat((), count)
    calls = map(ActionCall, repeat(call.name), args)
    return map(Entry, zip(*keys, strict=True), calls)


def _matches(field: KeyField, columns: Columns) -> Sequence[KeyMatch] | None:
    """None where one breaks a rule of :func:`softswitch.p4runtime.entries.decode_match`."""
    if not _fit(columns[0], field.width):
        return None
    if field.kind is MatchKind.EXACT:
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
