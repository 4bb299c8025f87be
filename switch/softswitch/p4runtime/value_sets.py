# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Value sets of the parser (specification: "ValueSetEntry")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from p4.v1 import p4runtime_pb2

from softswitch.device import Device
from softswitch.p4runtime.entries import decode_match
from softswitch.p4runtime.errors import InvalidArgumentError, ResourceExhaustedError
from softswitch.p4runtime.p4info import P4Info, ValueSet
from softswitch.runtime.entries import KeyMatch

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


def _member(found: ValueSet, member: Any) -> tuple[KeyMatch, ...]:
    what = f"value set {found.name!r}"
    given = {match.field_id: match for match in member.match}
    if len(given) != len(member.match) or not given.keys() <= {field.id for field in found.fields}:
        raise InvalidArgumentError(f"{what}: a member has each of its {len(found.fields)} match fields once")
    return tuple(decode_match(field, given.get(field.id), f"{what}, field {field.name!r}") for field in found.fields)
