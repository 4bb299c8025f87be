# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Does a P4Info describe the program that came with it?

The two are files of one compilation, and a controller may send those of two. The compiler drops tables and counters
that no packet reaches, so what P4Info alone has is no fault. It also adds tables of its own, which have no key or look
up the cases of a switch statement. A table that P4 hides from control planes is not in the P4Info either. None of these
has keys and no entries of its own.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from typing import Final

from softswitch.p4runtime.data import encoder_of, numbers_of
from softswitch.p4runtime.errors import InvalidArgumentError, UnimplementedError
from softswitch.p4runtime.p4info import MatchKind, P4Info, Scope, Table, Value
from softswitch.program import ir

# p4c's name for the table of a switch statement, which may have the case `default` only.
_OF_SWITCH: Final = re.compile(r"switch_\d+_table\w*")
_CURE = "send P4Info and JSON of one compilation"
_KINDS = {
    MatchKind.EXACT: ir.MatchKind.EXACT,
    MatchKind.LPM: ir.MatchKind.LPM,
    MatchKind.TERNARY: ir.MatchKind.TERNARY,
    MatchKind.OPTIONAL: ir.MatchKind.TERNARY,
    MatchKind.RANGE: ir.MatchKind.RANGE,
}


def fitted(program: ir.Program, info: P4Info) -> ir.Program:
    """The program with what only P4Info tells: which tables have entries that may change, how many there may be, and
    which rows count because their table has idle timeouts.

    Raises InvalidArgumentError where the two do not fit, by the name of the table, action or counter.
    """
    described = {table.name: table for table in info.tables.values()}
    for table in program.tables.values():
        if table.name in described:
            _check_table(table, described[table.name], program, info)
        elif table.keys and not table.entries and not _OF_SWITCH.fullmatch(table.name):
            raise _unfit(f"the JSON's table {table.name!r} is not in the P4Info")
    for counter in info.counters.values():
        declared = program.counters.get(counter.name)
        if declared is not None and declared.size != counter.size:
            raise _unfit(
                f"counter {counter.name!r} has {counter.size} cells in the P4Info, {declared.size} in the JSON"
            )
    _check_digests(program, info)
    initial = {
        table.name: table.size for table in described.values() if table.has_initial_entries and not table.is_const
    }
    idle = {table.name for table in described.values() if table.has_idle_timeout}
    return program if not initial and not idle else _adapted(program, initial, idle)


def _check_digests(program: ir.Program, info: P4Info) -> None:
    declared = {digest.name: len(digest.values) for digest in program.digests.values()}
    for digest in info.digests.values():
        with suppress(UnimplementedError):  # of a type that is refused when a controller asks for it
            size = numbers_of(encoder_of(digest.type_spec, info.types, digest.name))
            if declared.get(digest.name, size) != size:
                found = f"{size} values in the P4Info, {declared[digest.name]} in the JSON"
                raise _unfit(f"digest {digest.name!r} has {found}")
    for meter in info.meters.values():
        known = program.meters.get(meter.name)
        if known is not None and known.size != meter.size:
            raise _unfit(f"meter {meter.name!r} has {meter.size} cells in the P4Info, {known.size} in the JSON")


def _unfit(what: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"the P4Info does not fit the JSON: {what}; {_CURE}")


def _check_table(table: ir.Table, described: Table, program: ir.Program, info: P4Info) -> None:
    where = f"table {table.name!r}"
    if len(table.keys) != len(described.fields):
        raise _unfit(f"{where} has {len(described.fields)} match fields in the P4Info, {len(table.keys)} in the JSON")
    for key, field in zip(table.keys, described.fields, strict=True):
        what = f"{where}, match field {field.name!r}"
        if _KINDS[field.kind] is not key.kind:
            raise _unfit(f"{what} is {field.kind.name.lower()} in the P4Info, {key.kind.value} in the JSON")
        _check_width(what, field, key.width)
    if described.has_direct_counter != table.has_counter:
        raise _unfit(
            f"{where} has a direct counter in {'the P4Info' if described.has_direct_counter else 'the JSON'} only"
        )
    _check_actions(where, table, described, program, info)


def _check_actions(where: str, table: ir.Table, described: Table, program: ir.Program, info: P4Info) -> None:
    known = {action.name: action for action in program.actions if action.index in table.actions}
    for number, scope in described.scopes.items():
        action = info.actions[number]
        declared = known.get(action.name)
        if declared is None:
            if scope is Scope.DEFAULT_ONLY:
                continue  # of a table whose default action is another, and constant, it may be gone
            raise _unfit(f"{where} has no action {action.name!r} in the JSON")
        what = f"action {action.name!r}"
        if len(declared.parameters) != len(action.params):
            counts = f"{len(action.params)} parameters in the P4Info, {len(declared.parameters)} in the JSON"
            raise _unfit(f"{what} has {counts}")
        for parameter, value in zip(declared.parameters, action.params, strict=True):
            _check_width(f"{what}, parameter {value.name!r}", value, parameter.width)


def _check_width(what: str, value: Value, width: int) -> None:
    if value.width != width and not value.is_translated:
        raise _unfit(f"{what} has {value.width} bits in the P4Info, {width} in the JSON")


def _adapted(program: ir.Program, sizes: dict[str, int], counted: set[str]) -> ir.Program:
    def table(node: ir.Table) -> ir.Table:
        if node.name in sizes:
            node = replace(node, entries_const=False, size=max(node.size, sizes[node.name]))
        return replace(node, has_counter=True) if node.name in counted else node

    def adapted(pipeline: ir.Pipeline) -> ir.Pipeline:
        nodes = {name: table(node) if isinstance(node, ir.Table) else node for name, node in pipeline.nodes.items()}
        return replace(pipeline, nodes=nodes)

    return replace(program, ingress=adapted(program.ingress), egress=adapted(program.egress))
