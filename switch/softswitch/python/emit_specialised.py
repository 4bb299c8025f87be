# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Specialised actions: functions written for one entry, with its action data as constants.

An entry carries such a function if its action data is wide and its action only computes.
"""

from __future__ import annotations

from collections.abc import Sequence

from softswitch.program import ir
from softswitch.program.limits import Budget
from softswitch.program.traverse import FieldKey, expr_fields, flatten, operands, valid_headers, written_field
from softswitch.python.emit_context import Context
from softswitch.python.emit_expr import ExprEmitter
from softswitch.python.emit_stmt import StatementEmitter
from softswitch.python.source_writer import Writer
from softswitch.python.values import constant

SPECIALISE_WIDTH = 64


def is_specialised(action: ir.Action) -> bool:
    """Return True if entries carry a function for this action: wide action data, and only assignments and ifs."""
    wide = any(parameter.width > SPECIALISE_WIDTH for parameter in action.parameters)
    return wide and all(isinstance(s, ir.Assign | ir.If) for s in flatten(action.body))


def kept_by_entries(program: ir.Program) -> set[FieldKey]:
    """Fields that a specialised function may return unchanged: its arguments, even if nothing else reads them."""
    kept: set[FieldKey] = set()
    for action in program.actions:
        statements = list(flatten(action.body))
        if is_specialised(action) and any(isinstance(statement, ir.If) for statement in statements):
            kept.update(key for statement in statements if (key := written_field(statement)) is not None)
    return kept


def _interface(context: Context, action: ir.Action) -> tuple[list[str], list[str], list[str]]:
    """The locals that the action reads, the locals that it writes, and the headers that it changes."""
    fields = context.storage.fields
    reads: list[str] = []
    writes: list[str] = []
    headers: list[str] = []
    conditional = False
    for statement in flatten(action.body):
        conditional = conditional or isinstance(statement, ir.If)
        for operand in operands(statement):
            reads += [fields[key] for key in expr_fields(operand)]
            reads += [context.storage.valid(header) for header in valid_headers(operand)]
        written = written_field(statement)
        if written is not None and written in fields:
            writes.append(fields[written])
            headers.append(written[0])
    if conditional:
        reads += writes
    return list(dict.fromkeys(reads)), list(dict.fromkeys(writes)), list(dict.fromkeys(headers))


def call_specialised(context: Context, action: ir.Action, out: Writer) -> None:
    """Write the call of the entry's function."""
    reads, writes, headers = _interface(context, action)
    if not writes:
        return
    targets = ", ".join(writes)
    out.line(f"{targets} = entry[2]({', '.join(reads)})")
    for header in headers:
        if context.keeps_position(header):
            out.line(f"{context.storage.layouts[header].position} = -1")


def specialised_source(context: Context, action: ir.Action, args: Sequence[int]) -> str:
    """Source of a function ``specialised`` that computes ``action`` with ``args`` as constants."""
    reads, writes, headers = _interface(context, action)
    budget = Budget()
    out = Writer(budget)
    with out.block(f"def specialised({', '.join(reads)}):"):
        expressions = ExprEmitter(context, budget=budget)
        expressions.params = [constant(value) for value in args]
        statements = StatementEmitter(context, out, expressions)
        statements.body(action.body, set(headers), action.source, tail=True)
        out.line(f"return {', '.join(writes) or 'None'}")
    return out.text()
