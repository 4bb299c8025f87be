# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The P4Info of a program that came without one, from the command line. Its ids are this switch's own."""

from __future__ import annotations

from typing import Final

from p4.config.v1 import p4info_pb2

from softswitch.p4runtime.p4info import (
    ActionInfo,
    ActionProfile,
    ActionScope,
    Counter,
    KeyField,
    MatchType,
    P4Info,
    TableInfo,
    ValueInfo,
)
from softswitch.program import ir

_KINDS: Final = {
    ir.MatchKind.EXACT: MatchType.EXACT,
    ir.MatchKind.LPM: MatchType.LPM,
    ir.MatchKind.TERNARY: MatchType.TERNARY,
    ir.MatchKind.RANGE: MatchType.RANGE,
}


def info_of(program: ir.Program) -> P4Info:
    """Return tables, actions, action profiles, counters and meters. What controllers alone use is left out."""
    parameters = {action.name: action.parameters for action in program.actions}
    actions = {
        name: ActionInfo(number, name, tuple(ValueInfo(n, p.name, p.width) for n, p in enumerate(of_name, 1)))
        for number, (name, of_name) in enumerate(parameters.items(), 1)
    }
    numbered = dict(enumerate(program.tables.values(), 1))
    names = dict.fromkeys(table.profile for table in numbered.values() if table.profile is not None)
    profiles = {name: number for number, name in enumerate(names, 1)}
    by_index = {action.index: actions[action.name].id for action in program.actions}
    arrays = [each for each in program.counters.values() if each.table is None]
    meters = [each for each in program.meters.values() if each.table is None]
    return P4Info(
        tables={number: _table(number, table, by_index, profiles) for number, table in numbered.items()},
        actions={action.id: action for action in actions.values()},
        actions_by_name=actions,
        counters={number: Counter(number, each.name, each.size) for number, each in enumerate(arrays, 1)},
        meters={number: Counter(number, each.name, each.size) for number, each in enumerate(meters, 1)},
        digests={},
        value_sets={},
        profiles={number: _profile(number, name, numbered) for name, number in profiles.items()},
        types=p4info_pb2.P4Info().type_info,
        packet_in=None,
        packet_out=None,
        others={},
    )


def _table(number: int, table: ir.Table, actions: dict[int, int], profiles: dict[str, int]) -> TableInfo:
    return TableInfo(
        id=number,
        name=table.name,
        fields=tuple(KeyField(n, key.name, key.width, _KINDS[key.kind]) for n, key in enumerate(table.keys, 1)),
        scopes={actions[index]: ActionScope.ENTRY_AND_DEFAULT for index in table.actions},
        is_const=table.entries is not None and table.entries_const,
        has_initial_entries=bool(table.entries),
        has_const_default=table.default_const,
        has_direct_counter=table.has_counter,
        has_direct_meter=table.meter_target is not None,
        has_idle_timeout=False,
        implementation_id=0 if table.profile is None else profiles[table.profile],
        size=table.size,
    )


def _profile(number: int, name: str, tables: dict[int, ir.Table]) -> ActionProfile:
    users = {table_id: table for table_id, table in tables.items() if table.profile == name}
    has_selector = any(table.selector is not None for table in users.values())
    return ActionProfile(number, name, tuple(users), has_selector, size=0, max_group_size=0)
