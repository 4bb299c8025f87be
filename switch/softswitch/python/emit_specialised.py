# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Actions written for one entry, with its action data as constants.

Where the action data is wide and the action only computes, an entry carries a function compiled for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from softswitch.program import ir
from softswitch.program.traverse import FieldKey, expr_fields, flatten, operands, valid_headers, written_field
from softswitch.python.emit_context import Context
from softswitch.python.emit_expr import ExprEmitter
from softswitch.python.emit_stmt import StatementEmitter
from softswitch.python.source_writer import Writer
from softswitch.python.values import constant

SPECIALISE_WIDTH = 64


def is_specialised(action: ir.Action) -> bool:
    """Whether entries carry a function for this action: wide data, and nothing but computing."""
    wide = any(parameter.width > SPECIALISE_WIDTH for parameter in action.parameters)
    return wide and all(isinstance(s, ir.Assign | ir.If) for s in flatten(action.body))


def kept_by_entries(program: ir.Program) -> set[FieldKey]:
    """Fields that such a function may return as they were: it gets them whether or not anybody reads them."""
    kept: set[FieldKey] = set()
    for action in program.actions:
        statements = list(flatten(action.body))
        if is_specialised(action) and any(isinstance(statement, ir.If) for statement in statements):
            kept.update(key for statement in statements if (key := written_field(statement)) is not None)
    return kept


def _interface(context: Context, action: ir.Action) -> tuple[list[str], list[str], list[str]]:
    """Locals the action reads, locals it writes, and headers it changes."""
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
    reads, writes, headers = _interface(context, action)
    if not writes:
        return
    targets = ", ".join(writes)
    out.line(f"{targets} = entry[2]({', '.join(reads)})")
    for header in headers:
        if context.keeps_position(header):
            out.line(f"{context.storage.layouts[header].position} = -1")


def specialised_source(context: Context, action: ir.Action, args: Sequence[int]) -> str:
    """A function ``specialised`` that computes ``action`` with its data as constants."""
    reads, writes, headers = _interface(context, action)
    out = Writer()
    with out.block(f"def specialised({', '.join(reads)}):"):
        expressions = ExprEmitter(context.storage)
        expressions.params = [constant(value) for value in args]
        statements = StatementEmitter(context, out, expressions)
        statements.body(action.body, set(headers), action.source, tail=True)
        out.line(f"return {', '.join(writes) or 'None'}")
    return out.text()
