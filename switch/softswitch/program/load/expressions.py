# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Loads values and expressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from softswitch.errors import UnsupportedProgramError
from softswitch.program import ir

Json = Any  # what json.loads returns; every use below names the shape it expects

DATA_OPS = frozenset(["+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^"])
COMPARE_OPS = frozenset(["==", "!=", "<", "<=", ">", ">="])
BOOL_OPS = frozenset(["and", "or"])
UNARY_OPS = frozenset(["~", "-", "not", "d2b", "b2d"])
CAST_OPS = frozenset(["two_comp_mod", "usat_cast", "sat_cast"])
VALID_FIELD = "$valid$"


def source_of(node: Json, outer: ir.Source | None = None) -> ir.Source:
    """The P4 position in ``node``'s source_info, else that of the enclosing construct."""
    info = node.get("source_info") if isinstance(node, dict) else None
    if info:
        return ir.Source(info.get("filename", ""), int(info.get("line", 0)))
    return outer if outer is not None else ir.Source()


def unsupported(construct: str, source: ir.Source) -> UnsupportedProgramError:
    return UnsupportedProgramError(f"{source}: {construct} is not supported by the soft switch")


def number(text: str) -> int:
    """A bmv2 hexstr: hexadecimal digits, an optional 0x and an optional leading minus."""
    return int(text, 16)


class ExprLoader:
    """Resolves names against the program's headers."""

    def __init__(self, headers: Mapping[str, ir.Header]) -> None:
        self.headers = headers
        self._fields = {(header.name, member.name): member for header in headers.values() for member in header.fields}

    def header_name(self, node: Json, source: ir.Source) -> str:
        """The header a ``{"type": "header"}`` parameter names."""
        if node.get("type") != "header" or node["value"] not in self.headers:
            raise unsupported(f"header operand {node.get('type')} {node.get('value')!r}", source)
        return str(node["value"])

    def field(self, value: Json, source: ir.Source) -> ir.FieldRef:
        """A field that can be written: ``[header, member]``."""
        member = self._fields.get((value[0], value[1]))
        if member is None:
            raise unsupported(f"field {value!r}", source)
        return ir.FieldRef(value[0], value[1], member.width, member.signed)

    def target(self, node: Json, source: ir.Source) -> ir.FieldRef:
        """The destination of an assignment."""
        if node.get("type") != "field":
            raise unsupported(f"assignment to a {node.get('type')}", source)
        return self.field(node["value"], source)

    def readable(self, value: Json, source: ir.Source) -> ir.FieldRef | ir.Valid:
        """A field or, for ``[header, "$valid$"]``, a header's validity."""
        if value[1] == VALID_FIELD:
            if value[0] not in self.headers:
                raise unsupported(f"validity of {value[0]!r}", source)
            return ir.Valid(value[0])
        return self.field(value, source)

    def expr(self, node: Json, source: ir.Source) -> ir.Expr:
        """Any value; raises UnsupportedProgramError naming what is outside the subset."""
        kind = node.get("type")
        value = node.get("value")
        match kind:
            case "field":
                return self.readable(value, source)
            case "hexstr":
                return ir.Const(number(value))
            case "bool":
                return ir.Const(int(bool(value)))
            case "local" | "runtime_data":
                return ir.Param(int(value), 0)
            case "lookahead":
                return ir.Lookahead(int(value[0]), int(value[1]))
            case "expression":
                return self.expr(value, source) if "op" not in value else self._operation(value, source)
        raise unsupported(f"operand of type {kind!r}", source)

    def _operation(self, node: Json, source: ir.Source) -> ir.Expr:
        op = node["op"]
        if op in DATA_OPS or op in COMPARE_OPS or op in BOOL_OPS:
            return ir.Binary(op, self.expr(node["left"], source), self.expr(node["right"], source))
        if op in UNARY_OPS:
            return ir.Unary(op, self.expr(node["right"], source))
        if op in CAST_OPS:
            width = self.expr(node["right"], source)
            if not isinstance(width, ir.Const):
                raise unsupported(f"{op} to a width that is not constant", source)
            return ir.Cast(op, self.expr(node["left"], source), width.value)
        if op == "?":
            return ir.Ternary(
                self.expr(node["cond"], source), self.expr(node["left"], source), self.expr(node["right"], source)
            )
        if op == "valid":
            return ir.Unary("d2b", ir.Valid(self.header_name(node["right"], source)))
        if op == "access_field":
            header = self.headers[self.header_name(node["left"], source)]
            member = header.fields[int(node["right"])]
            return ir.FieldRef(header.name, member.name, member.width, member.signed)
        raise unsupported(f"operator {op!r}", source)


def bind_params(expr: ir.Expr, widths: tuple[int, ...]) -> ir.Expr:
    """Fill in the widths of the action parameters that ``expr`` uses."""
    match expr:
        case ir.Param(index, _):
            return ir.Param(index, widths[index])
        case ir.Unary(op, operand):
            return ir.Unary(op, bind_params(operand, widths))
        case ir.Binary(op, left, right):
            return ir.Binary(op, bind_params(left, widths), bind_params(right, widths))
        case ir.Cast(op, operand, width):
            return ir.Cast(op, bind_params(operand, widths), width)
        case ir.Ternary(condition, then, otherwise):
            return ir.Ternary(bind_params(condition, widths), bind_params(then, widths), bind_params(otherwise, widths))
    return expr
