# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Finds what expressions and statements contain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from softswitch.program import ir

FieldKey = tuple[str, str]  # header, field


def expr_fields(expr: ir.Expr) -> Iterator[FieldKey]:
    """The fields whose value ``expr`` uses."""
    match expr:
        case ir.FieldRef(header, name, _, _):
            yield header, name
        case ir.Unary(_, operand) | ir.Cast(_, operand, _):
            yield from expr_fields(operand)
        case ir.Binary(_, left, right):
            yield from expr_fields(left)
            yield from expr_fields(right)
        case ir.Ternary(condition, then, otherwise):
            for part in (condition, then, otherwise):
                yield from expr_fields(part)


def operands(statement: ir.Statement) -> tuple[ir.Expr, ...]:  # noqa: PLR0911 - one case per statement
    """The expressions that ``statement`` itself evaluates, without those inside the branches of an If."""
    match statement:
        case ir.Assign(_, value):
            return (value,)
        case ir.RegisterRead(_, _, index) | ir.Count(_, index) | ir.ExecuteMeter(_, _, index):
            return (index,)
        case ir.RegisterWrite(_, index, value):
            return (index, value)
        case ir.Random(_, low, high):
            return (low, high)
        case ir.Hash(_, base, _, modulus):
            return (base, modulus)
        case ir.LogMessage(_, values):
            return values
        case ir.If(condition, _, _):
            return (condition,)
        case ir.Truncate(length):
            return (length,)
        case ir.Loop(blocks):
            return tuple(block.condition for block in blocks if block.condition is not None)
    return ()


def flatten(statements: Iterable[ir.Statement]) -> Iterator[ir.Statement]:
    """Every statement, with those inside branches."""
    for statement in statements:
        yield statement
        if isinstance(statement, ir.If):
            yield from flatten(statement.then)
            yield from flatten(statement.otherwise)
        elif isinstance(statement, ir.Loop):
            for block in statement.blocks:
                yield from flatten(block.statements)


def written_field(statement: ir.Statement) -> FieldKey | None:
    """The field that ``statement`` assigns, None if it assigns none."""
    if isinstance(statement, ir.Assign | ir.RegisterRead | ir.Random | ir.Hash | ir.ExecuteMeter):
        return statement.target.header, statement.target.field
    return None


def lookaheads(expr: ir.Expr) -> Iterator[ir.Lookahead]:
    """Every lookahead inside ``expr``."""
    match expr:
        case ir.Lookahead():
            yield expr
        case ir.Unary(_, operand) | ir.Cast(_, operand, _):
            yield from lookaheads(operand)
        case ir.Binary(_, left, right):
            yield from lookaheads(left)
            yield from lookaheads(right)
        case ir.Ternary(condition, then, otherwise):
            for part in (condition, then, otherwise):
                yield from lookaheads(part)


def valid_headers(expr: ir.Expr) -> list[str]:
    """Headers whose validity ``expr`` uses."""
    match expr:
        case ir.Valid(header):
            return [header]
        case ir.Unary(_, operand) | ir.Cast(_, operand, _):
            return valid_headers(operand)
        case ir.Binary(_, left, right):
            return valid_headers(left) + valid_headers(right)
        case ir.Ternary(condition, then, otherwise):
            return valid_headers(condition) + valid_headers(then) + valid_headers(otherwise)
    return []


def parser_ops(ops: Iterable[ir.ParserOp]) -> Iterator[ir.ParserOp]:
    """Every operation, with those inside a choice between elements of a stack."""
    for op in ops:
        yield op
        if isinstance(op, ir.Choose):
            for branch in op.branches:
                yield from parser_ops(branch)


def extracted_headers(op: ir.ParserOp) -> list[str]:
    """The headers that ``op`` itself extracts."""
    match op:
        case ir.Extract(header):
            return [header]
        case ir.ExtractVarbit(header, rest=rest):
            return [header, rest] if rest else [header]
    return []
