# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Static analysis of expressions: the interval of the value.

It says how wide a number must be to hold the value exactly, and whether the value may be negative.
"""

from __future__ import annotations

from softswitch.errors import UnsupportedProgramError
from softswitch.program import ir
from softswitch.program.numbers import MAX_SHIFT, full

Interval = tuple[int, int]
_CACHED = (ir.Unary, ir.Binary, ir.Cast, ir.Ternary)


class Known:
    """A value in [low, high] that an engine has computed already; an operand like any other."""

    low: int
    high: int


Expr = ir.Expr | Known


class Bounds:
    """Computes the interval of expressions, and remembers them: p4c's expressions are deep."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Expr, Interval]] = {}

    def __call__(self, expr: Expr) -> Interval:
        if not isinstance(expr, _CACHED):
            return _leaf(expr)
        known = self._known.get(id(expr))
        if known is None:
            known = expr, self._compute(expr)
            self._known[id(expr)] = known
        return known[1]

    def constant(self, expr: Expr) -> int | None:
        low, high = self(expr)
        return low if low == high else None

    def _compute(self, expr: ir.Unary | ir.Binary | ir.Cast | ir.Ternary) -> Interval:
        match expr:
            case ir.Unary("~" | "-" as op, operand):
                low, high = self(operand)
                return (~high, ~low) if op == "~" else (-high, -low)
            case ir.Cast(op, operand, width):
                return _cast(op, self(operand), width)
            case ir.Ternary(_, then, otherwise):
                return _hull(self(then), self(otherwise))
            case ir.Binary("&" | "|" | "^" as op, left, right) if self._are_constant(left, right):
                value = _bitwise(op, self(left)[0], self(right)[0])
                return value, value
            case ir.Binary(op, left, right) if op in _OPERATORS:
                return _OPERATORS[op](self(left), self(right))
        return 0, 1

    def _are_constant(self, *exprs: Expr) -> bool:
        return all(self.constant(expr) is not None for expr in exprs)


def _bitwise(op: str, left: int, right: int) -> int:
    if op == "^":
        return left ^ right
    return left & right if op == "&" else left | right


def _leaf(expr: Expr) -> Interval:
    match expr:
        case ir.Const(value):
            return value, value
        case Known():
            return expr.low, expr.high
        case ir.FieldRef(_, _, width, True):
            return -(1 << (width - 1)), full(width - 1)
        case ir.FieldRef(_, _, width) | ir.Param(_, width) | ir.Lookahead(_, width):
            return 0, full(width)
    return 0, 1


def _hull(left: Interval, right: Interval) -> Interval:
    return min(left[0], right[0]), max(left[1], right[1])


def _cast(op: str, value: Interval, width: int) -> Interval:
    low, high = (0, full(width)) if op == "usat_cast" else (-(1 << (width - 1)), full(width - 1))
    if low <= value[0] and value[1] <= high:
        return value
    if op == "two_comp_mod":
        return low, high
    return min(max(value[0], low), high), min(max(value[1], low), high)


# ---------------------------------------------------------------- operators


def _corners(left: Interval, right: Interval) -> Interval:
    products = [a * b for a in left for b in right]
    return min(products), max(products)


def _refuse_negative(what: str, *values: Interval) -> None:
    if any(low < 0 for low, _ in values):
        raise UnsupportedProgramError(f"{what} of a number that may be negative")


def _divide(left: Interval, right: Interval) -> Interval:
    _refuse_negative("division", left, right)
    return 0, left[1] // max(right[0], 1)


def _modulo(left: Interval, right: Interval) -> Interval:
    _refuse_negative("remainder", left, right)
    return 0, max(min(left[1], right[1] - 1), 0)


def _shift_left(value: Interval, distance: Interval) -> Interval:
    least, most = max(distance[0], 0), min(max(distance[1], 0), MAX_SHIFT)
    if least > MAX_SHIFT:
        return 0, 0
    ends = [end << by for end in value for by in (least, most)]
    return (min(ends), max(ends)) if distance[1] <= MAX_SHIFT else (min(*ends, 0), max(*ends, 0))


def _shift_right(value: Interval, distance: Interval) -> Interval:
    """Distances are limited to what shifts out every bit of the value."""
    enough = max(end.bit_length() for end in value) + 1
    least, most = (min(max(by, 0), enough) for by in distance)
    if distance[0] < 0:
        most = enough
    ends = [end >> by for end in value for by in (least, most)]
    return min(ends), max(ends)


def _and(left: Interval, right: Interval) -> Interval:
    highs = [high for low, high in (left, right) if low >= 0]
    if highs:
        return 0, min(highs)
    bits = _bits(left, right)
    return -(1 << bits), full(bits)


def _union(left: Interval, right: Interval) -> Interval:
    bits = _bits(left, right)
    return (0 if left[0] >= 0 and right[0] >= 0 else -(1 << bits)), full(bits)


def _bits(*values: Interval) -> int:
    return max(end.bit_length() for value in values for end in value)


_OPERATORS = {
    "+": lambda left, right: (left[0] + right[0], left[1] + right[1]),
    "-": lambda left, right: (left[0] - right[1], left[1] - right[0]),
    "*": _corners,
    "/": _divide,
    "%": _modulo,
    "<<": _shift_left,
    ">>": _shift_right,
    "&": _and,
    "|": _union,
    "^": _union,
}
