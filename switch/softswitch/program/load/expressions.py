# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Loads values and expressions, and checks that every value in them is bounded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from softswitch.errors import placed
from softswitch.program import ir
from softswitch.program.bounds import Bounds
from softswitch.program.limits import EXPRESSION_DEPTH, STATE_BITS, VALUE_BITS, WIDTH
from softswitch.program.load.node import Node, shown, unsupported

DATA_OPS = frozenset(["+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^"])
COMPARE_OPS = frozenset(["==", "!=", "<", "<=", ">", ">="])
BOOL_OPS = frozenset(["and", "or"])
UNARY_OPS = frozenset(["~", "-", "not", "d2b", "b2d"])
CAST_OPS = frozenset(["two_comp_mod", "usat_cast", "sat_cast"])
VALID_FIELD = "$valid$"


@dataclass(frozen=True)
class Scope:
    """Where an expression stands.

    ``params``: widths of the enclosing action's parameters. ``lookahead``: whether the parser runs it. ``depth``: in
    how many expressions it lies.
    """

    source: ir.Source
    params: tuple[int, ...] = ()
    lookahead: bool = False
    depth: int = 0

    def inside(self) -> Scope:
        return replace(self, depth=self.depth + 1)


class ExprLoader:
    """Resolves names against the program's headers."""

    def __init__(self, headers: Mapping[str, ir.Header]) -> None:
        self.headers = headers
        self._fields = {(header.name, member.name): member for header in headers.values() for member in header.fields}
        self._bounds = Bounds()

    # -- headers and fields ----------------------------------------------

    def header(self, node: Node, source: ir.Source) -> ir.Header:
        """The header that ``node`` names; metadata is none."""
        if not isinstance(node.value, str) or node.value not in self.headers:
            raise unsupported(f"header {shown(node.value)}", source)
        header = self.headers[node.value]
        if header.metadata:
            raise unsupported(f"metadata {header.name!r} in the place of a header", source)
        return header

    def header_name(self, node: Node, source: ir.Source) -> str:
        """The header that a ``{"type": "header"}`` parameter names."""
        if node["type"].value != "header":
            raise unsupported(f"header operand of type {shown(node['type'].value)}", source)
        return self.header(node["value"], source).name

    def field(self, node: Node, source: ir.Source) -> ir.FieldRef:
        """A field that can be written: ``[header, member]``."""
        header, name = node[0].value, node[1].value
        member = self._fields.get((header, name)) if isinstance(header, str) and isinstance(name, str) else None
        if member is None:
            raise unsupported(f"field [{shown(header)}, {shown(name)}]", source)
        return ir.FieldRef(header, name, member.width, member.signed)

    def target(self, node: Node, source: ir.Source) -> ir.FieldRef:
        """The destination of an assignment."""
        if node["type"].value != "field":
            raise unsupported(f"assignment to a {shown(node['type'].value)}", source)
        return self.field(node["value"], source)

    def readable(self, node: Node, source: ir.Source) -> ir.FieldRef | ir.Valid:
        """A field or, for ``[header, "$valid$"]``, a header's validity."""
        if node[1].value == VALID_FIELD:
            return ir.Valid(self.header(node[0], source).name)
        return self.field(node, source)

    # -- expressions -----------------------------------------------------

    def expr(self, node: Node, scope: Scope) -> ir.Expr:  # noqa: PLR0911 - one case per kind
        """Any value; raises UnsupportedProgramError naming what is outside the subset."""
        if scope.depth > EXPRESSION_DEPTH:
            raise node.too_large("expressions nested deeper", EXPRESSION_DEPTH)
        kind = node["type"].value
        match kind:
            case "field":
                return self.readable(node["value"], scope.source)
            case "hexstr":
                return ir.Const(node["value"].hexadecimal())
            case "bool":
                return ir.Const(int(node["value"].flag()))
            case "local" | "runtime_data":
                return self._param(node["value"], scope)
            case "lookahead":
                return self._lookahead(node["value"], scope)
            case "expression":
                value = node["value"]
                if isinstance(value.value, dict) and "op" in value.value:
                    return self._bounded(value, scope)
                return self.expr(value, scope.inside())
        raise unsupported(f"operand of type {shown(kind)}", scope.source)

    def unsigned(self, node: Node, scope: Scope, what: str, most: int | None = None) -> ir.Expr:
        """A value that is never negative, and never above ``most``; ``what`` the number is for."""
        expr = self.expr(node, scope)
        low, high = self._bounds(expr)
        if low < 0:
            raise unsupported(f"{what} that may be negative", scope.source)
        if most is not None and high > most:
            raise unsupported(f"{what} that may be above {most}", scope.source)
        return expr

    def _param(self, node: Node, scope: Scope) -> ir.Param:
        if not scope.params:
            raise node.wrong("names action data where there are none")
        index = node.integer(0, len(scope.params) - 1)
        return ir.Param(index, scope.params[index])

    def _lookahead(self, node: Node, scope: Scope) -> ir.Lookahead:
        if not scope.lookahead:
            raise unsupported("a lookahead outside the parser", scope.source)
        return ir.Lookahead(node[0].integer(0, STATE_BITS), node[1].integer(1, WIDTH))

    def _bounded(self, node: Node, scope: Scope) -> ir.Expr:
        """An operation of which every possible value has at most VALUE_BITS bits."""
        expr = self._operation(node, scope.inside())
        with placed(scope.source):
            low, high = self._bounds(expr)
        if max(low.bit_length(), high.bit_length()) > VALUE_BITS:
            raise node.too_large("a value of more bits", VALUE_BITS)
        if isinstance(expr, ir.Binary) and expr.op in ("<<", ">>") and self._bounds(expr.right)[0] < 0:
            raise unsupported("a shift by a number that may be negative", scope.source)
        return expr

    def _operation(self, node: Node, scope: Scope) -> ir.Expr:
        op = node["op"].value
        if not isinstance(op, str):
            raise node["op"].wrong("is not an operator")
        if op in DATA_OPS or op in COMPARE_OPS or op in BOOL_OPS:
            return ir.Binary(op, self.expr(node["left"], scope), self.expr(node["right"], scope))
        if op in UNARY_OPS:
            return ir.Unary(op, self.expr(node["right"], scope))
        if op in CAST_OPS:
            return ir.Cast(op, self.expr(node["left"], scope), self._cast_width(op, node["right"], scope))
        if op == "?":
            parts = (self.expr(node[key], scope) for key in ("cond", "left", "right"))
            return ir.Ternary(*parts)
        if op == "valid":
            return ir.Unary("d2b", ir.Valid(self.header_name(node["right"], scope.source)))
        if op == "access_field":
            header = self.headers[self.header_name(node["left"], scope.source)]
            member = header.fields[node["right"].integer(0, len(header.fields) - 1)]
            return ir.FieldRef(header.name, member.name, member.width, member.signed)
        raise unsupported(f"operator {shown(op)}", scope.source)

    def _cast_width(self, op: str, node: Node, scope: Scope) -> int:
        width = self.expr(node, scope)
        if not isinstance(width, ir.Const):
            raise unsupported(f"{op} to a width that is not constant", scope.source)
        if not 1 <= width.value <= WIDTH:
            raise unsupported(f"{op} to {shown(width.value)} bits (1..{WIDTH})", scope.source)
        return width.value
