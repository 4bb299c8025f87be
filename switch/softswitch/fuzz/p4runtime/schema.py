# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a P4Info lets a controller write, as the fuzzer and its oracle read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from p4.config.v1 import p4info_pb2

_KINDS = {
    p4info_pb2.MatchField.EXACT: "exact",
    p4info_pb2.MatchField.LPM: "lpm",
    p4info_pb2.MatchField.TERNARY: "ternary",
    p4info_pb2.MatchField.RANGE: "range",
    p4info_pb2.MatchField.OPTIONAL: "optional",
}


@dataclass(frozen=True)
class Field:
    """``kind``: of the match, as the member of FieldMatch is called; empty for a parameter."""

    id: int
    width: int
    kind: str = ""

    @property
    def most(self) -> int:
        return (1 << self.width) - 1


@dataclass(frozen=True)
class Table:
    """``actions``: parameters by action id. ``entry_actions``, ``default_actions``: where each may be used."""

    id: int
    name: str
    fields: tuple[Field, ...]
    actions: Mapping[int, tuple[Field, ...]]
    entry_actions: frozenset[int]
    default_actions: frozenset[int]
    size: int
    is_const: bool
    has_initial_entries: bool
    has_const_default: bool
    counted: bool

    @property
    def has_priorities(self) -> bool:
        return any(field.kind in ("ternary", "range", "optional") for field in self.fields)


@dataclass(frozen=True)
class Schema:
    """``counters``: sizes by id."""

    tables: Mapping[int, Table]
    counters: Mapping[int, int]


def schema_of(info: Any) -> Schema:
    parameters = {
        action.preamble.id: tuple(Field(param.id, param.bitwidth) for param in action.params) for action in info.actions
    }
    counted = {counter.direct_table_id for counter in info.direct_counters}
    return Schema(
        {table.preamble.id: _table(table, parameters, table.preamble.id in counted) for table in info.tables},
        {counter.preamble.id: counter.size for counter in info.counters},
    )


def _table(table: Any, parameters: Mapping[int, tuple[Field, ...]], counted: bool) -> Table:
    scopes = {ref.id: ref.scope for ref in table.action_refs}
    return Table(
        id=table.preamble.id,
        name=table.preamble.name,
        fields=tuple(Field(field.id, field.bitwidth, _KINDS[field.match_type]) for field in table.match_fields),
        actions={number: parameters[number] for number in scopes},
        entry_actions=frozenset(n for n, scope in scopes.items() if scope != p4info_pb2.ActionRef.DEFAULT_ONLY),
        default_actions=frozenset(n for n, scope in scopes.items() if scope != p4info_pb2.ActionRef.TABLE_ONLY),
        size=table.size,
        is_const=table.is_const_table,
        has_initial_entries=table.has_initial_entries,
        has_const_default=table.const_default_action_id != 0,
        counted=counted,
    )
