# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Value sets of the parser (specification: "ValueSetEntry"). Members are exact values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from p4.v1 import p4runtime_pb2

from softswitch.device import Device
from softswitch.p4runtime import values
from softswitch.p4runtime.errors import InvalidArgumentError, ResourceExhaustedError, UnimplementedError
from softswitch.p4runtime.p4info import KeyField, P4Info, ValueSet

#: Members as they were written, by value set.
Members = dict[int, list[Any]]


def write(device: Device, info: P4Info, kept: Members, entry: Any) -> None:
    """Replace the members of one value set."""
    found = info.value_set(entry.value_set_id)
    if len(entry.members) > found.size:
        raise ResourceExhaustedError(f"value set {found.name!r}: {len(entry.members)} members, it takes {found.size}")
    device.set_value_set(found.name, [_member(found, member) for member in entry.members])
    kept[found.id] = list(p4runtime_pb2.ValueSetEntry.FromString(entry.SerializeToString()).members)


def entities(info: P4Info, kept: Mapping[int, list[Any]], asked: Any) -> Iterator[Any]:
    """An ``Entity`` for each value set that a read asks for: one, or all (id 0)."""
    wanted = [info.value_set(asked.value_set_id)] if asked.value_set_id else info.value_sets.values()
    for found in wanted:
        entity = p4runtime_pb2.Entity()
        entity.value_set_entry.value_set_id = found.id
        entity.value_set_entry.members.extend(kept.get(found.id, ()))
        yield entity


def _member(found: ValueSet, member: Any) -> tuple[int, ...]:
    what = f"value set {found.name!r}"
    given = {match.field_id: match for match in member.match}
    if len(given) != len(member.match) or given.keys() != {field.id for field in found.fields}:
        raise InvalidArgumentError(f"{what}: a member has each of its {len(found.fields)} match fields once")
    return tuple(_value(f"{what}, field {field.name!r}", field, given[field.id]) for field in found.fields)


def _value(what: str, field: KeyField, match: Any) -> int:
    kind = match.WhichOneof("field_match_type")
    if kind != field.kind.name.lower():
        raise InvalidArgumentError(f"{what}: is matched {field.kind.name.lower()}, the request has {kind}")
    if kind != "exact":
        raise UnimplementedError(f"{what}: {kind} members are not offered")
    return values.decode(match.exact.value, field.width, what)
