# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Loads values and expressions, and checks that every value in them has bounds."""

from __future__ import annotations

from collections.abc import Mapping

from softswitch.errors import placed
from softswitch.program import ir
from softswitch.program.analysis import Bounds
from softswitch.program.limits import EXPRESSION_DEPTH, STATE_BITS, VALUE_BITS, WIDTH
from softswitch.program.load.node import JsonNode, shown, unsupported
from softswitch.program.load.references import (
    HEADER_OPS,
    VALID_FIELD,
    References,
    Scope,
    all_of,
    any_valid,
    chosen,
    inside,
    members_of,
)
from softswitch.program.load.storage import Aggregates, Hidden, Stack, UnionStack, VarbitHeader

DATA_OPS = frozenset(["+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^"])
COMPARE_OPS = frozenset(["==", "!=", "<", "<=", ">", ">="])
BOOL_OPS = frozenset(["and", "or"])
UNARY_OPS = frozenset(["~", "-", "not", "d2b", "b2d"])
CAST_OPS = frozenset(["two_comp_mod", "usat_cast", "sat_cast"])
_INDEX = ir.Const(0xFFFFFFFF)


class ExprLoader(References):
    """Loads expressions."""

    def __init__(
        self,
        headers: Mapping[str, ir.Header],
        aggregates: Aggregates | None = None,
        varbits: Mapping[str, VarbitHeader] | None = None,
        hidden: Hidden | None = None,
    ) -> None:
        super().__init__(headers, aggregates, varbits, hidden)
        self._bounds = Bounds()

    # -- expressions -----------------------------------------------------

    def expr(self, node: JsonNode, scope: Scope) -> ir.Expr:  # noqa: PLR0911 - one case per kind
        """Load any value. Raises UnsupportedProgramError naming what is outside the subset."""
        if scope.depth > EXPRESSION_DEPTH:
            raise node.too_large("expressions nested deeper", EXPRESSION_DEPTH)
        kind = node["type"].value
        match kind:
            case "field" if isinstance(node["value"][0].value, dict) and node["value"][1].value == VALID_FIELD:
                headers = self.choices(node["value"][0], scope)
                return chosen([(when, ir.Valid(name)) for when, name in headers])
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
            case "stack_field":
                return self.last(node["value"], scope.source)[0]
            case "union_stack_field":
                return self.last_of_union(node["value"], scope.source)[0]
            case "expression":
                value = node["value"]
                if isinstance(value.value, dict) and "op" in value.value:
                    return self._bounded(value, scope)
                return self.expr(value, scope.inside())
        raise unsupported(f"operand of type {shown(kind)}", scope.source)

    def unsigned(self, node: JsonNode, scope: Scope, what: str, most: int | None = None) -> ir.Expr:
        """Load a value that is never negative and never above ``most``. ``what``: its purpose, for errors."""
        expr = self.expr(node, scope)
        low, high = self._bounds(expr)
        if low < 0:
            raise unsupported(f"{what} that may be negative", scope.source)
        if most is not None and high > most:
            raise unsupported(f"{what} that may be above {most}", scope.source)
        return expr

    def _param(self, node: JsonNode, scope: Scope) -> ir.Param:
        if not scope.params:
            raise node.wrong("names action data where there are none")
        index = node.integer(0, len(scope.params) - 1)
        return ir.Param(index, scope.params[index])

    def _lookahead(self, node: JsonNode, scope: Scope) -> ir.Lookahead:
        if not scope.lookahead:
            raise unsupported("a lookahead outside the parser", scope.source)
        return ir.Lookahead(node[0].integer(0, STATE_BITS), node[1].integer(1, WIDTH))

    def _bounded(self, node: JsonNode, scope: Scope) -> ir.Expr:
        """An operation of which every possible value has at most VALUE_BITS bits."""
        expr = self._operation(node, scope.inside())
        with placed(scope.source):
            low, high = self._bounds(expr)
        if max(low.bit_length(), high.bit_length()) > VALUE_BITS:
            raise node.too_large("a value of more bits", VALUE_BITS)
        if isinstance(expr, ir.Binary) and expr.op in ("<<", ">>") and self._bounds(expr.right)[0] < 0:
            raise unsupported("a shift by a number that may be negative", scope.source)
        return expr

    def _operation(self, node: JsonNode, scope: Scope) -> ir.Expr:  # noqa: PLR0911 - one case per operator
        op = node["op"].value
        if not isinstance(op, str):
            raise node["op"].wrong("is not an operator")
        if op in ("==", "!=") and self._is_header(node["left"]):
            same = self._same(node, scope)
            return same if op == "==" else ir.Unary("not", same)
        if op in ("==", "!=") and (left := self.varbit(node["left"], scope.source)) is not None:
            equal = self._same_varbits(left, node["right"], scope)
            return equal if op == "==" else ir.Unary("not", equal)
        if op in DATA_OPS or op in COMPARE_OPS or op in BOOL_OPS:
            return ir.Binary(op, self.expr(node["left"], scope), self.expr(node["right"], scope))
        if op in UNARY_OPS:
            return ir.Unary(op, self.expr(node["right"], scope))
        if op in CAST_OPS:
            return ir.Cast(op, self.expr(node["left"], scope), self._cast_width(op, node["right"], scope))
        if op == "?":
            parts = (self.expr(node[key], scope) for key in ("cond", "left", "right"))
            return ir.Mux(*parts)
        if op == "valid":
            return ir.Unary(
                "d2b", chosen([(when, ir.Valid(name)) for when, name in self.choices(node["right"], scope)])
            )
        if op == "valid_union":
            unions = self.unions(node["right"], scope)
            return ir.Unary("d2b", chosen([(when, any_valid(union.members.values())) for when, union in unions]))
        if op == "access_field":
            fields = [(when, self.member(name, node["right"])) for when, name in self.choices(node["left"], scope)]
            return chosen(fields)
        if op == "last_stack_index":
            return ir.Binary("&", ir.Binary("-", self.any_stack(node["right"], scope.source).next, ir.Const(1)), _INDEX)
        if op == "size_stack":
            return ir.Const(len(self.any_stack(node["right"], scope.source).elements))
        raise unsupported(f"operator {shown(op)}", scope.source)

    def any_stack(self, node: JsonNode, source: ir.Source) -> Stack | UnionStack:
        node = inside(node)
        return self.stack(node, source) if node["type"].value == "header_stack" else self.union_stack(node, source)

    def _is_header(self, node: JsonNode) -> bool:
        """Return True for an operand that is a header or a union, as `==` takes it too."""
        node = inside(node)
        if "op" in members_of(node):
            return node["op"].value in HEADER_OPS
        return "type" in members_of(node) and node["type"].value in ("header", "header_union")

    def _same_varbits(self, left: ir.Varbit, node: JsonNode, scope: Scope) -> ir.Expr:
        right = self.varbit(node, scope.source)
        if right is None:
            raise unsupported("a comparison of a varbit field with another value", scope.source)
        return all_of([ir.Binary("==", left.value, right.value), ir.Binary("==", left.length, right.length)])

    def _same(self, node: JsonNode, scope: Scope) -> ir.Expr:
        """Equal headers: both invalid, or both valid with equal fields. Of unions one must be valid."""
        if inside(node["left"]).value.get("type") == "header_union":
            left, right = (list(self.unions(node[side], scope)[0][1].members.values()) for side in ("left", "right"))
            pairs = [self._same_headers(*pair) for pair in zip(left, right, strict=True)]
            return ir.Binary("and", ir.Unary("d2b", any_valid(left)), all_of(pairs))
        left_choices, right_choices = (self.choices(node[side], scope) for side in ("left", "right"))
        if left_choices[0][0] is not None or right_choices[0][0] is not None:
            raise unsupported("a comparison of headers at computed indices", scope.source)
        return self._same_headers(left_choices[0][1], right_choices[0][1])

    def _same_headers(self, left: str, right: str) -> ir.Expr:
        pairs = list(zip(self.headers[left].fields, self.headers[right].fields, strict=False))
        equal: list[ir.Expr] = [
            ir.Binary("==", self._fields[left, one.name], self._fields[right, other.name]) for one, other in pairs
        ]
        validities = ir.Unary("d2b", ir.Valid(left)), ir.Unary("d2b", ir.Valid(right))
        both = all_of([*validities, *equal])
        neither = all_of([ir.Unary("not", each) for each in validities])
        return ir.Binary("or", neither, both)

    def _cast_width(self, op: str, node: JsonNode, scope: Scope) -> int:
        width = self.expr(node, scope)
        if not isinstance(width, ir.Const):
            raise unsupported(f"{op} to a width that is not constant", scope.source)
        if not 1 <= width.value <= WIDTH:
            raise unsupported(f"{op} to {shown(width.value)} bits (1..{WIDTH})", scope.source)
        return width.value
