# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Expressions to Python text, with the range of their values.

Values are evaluated with unbounded precision, as in bmv2. Every expression carries the interval its value
lies in; a mask is written only where the interval leaves the type, and operations on constants are
done here. That matters with 1024-bit words, where each operation left out saves an allocation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from softswitch import ir
from softswitch.layout import Storage

MAX_SHIFT = 4096  # a longer left shift leaves nothing of any field (2048 bits) once it is wrapped


@dataclass(frozen=True)
class Value:
    """Python text, parenthesised where needed, of an integer in [low, high]."""

    text: str
    low: int
    high: int

    @property
    def constant(self) -> int | None:
        return self.low if self.low == self.high else None


def constant(value: int) -> Value:
    text = str(value) if abs(value) < 10 else f"{value:#x}"
    return Value(text if value >= 0 else f"({text})", value, value)


def full(width: int) -> int:
    return (1 << width) - 1


def _bits(value: Value) -> int:
    return max(value.low.bit_length(), value.high.bit_length())


def wrap(value: Value, width: int, *, signed: bool) -> str:
    """Text of ``value`` as it is stored in ``width`` bits."""
    if signed:
        half = 1 << (width - 1)
        if value.low >= -half and value.high < half:
            return value.text
        if value.constant is not None:
            return constant(((value.low + half) & full(width)) - half).text
        return f"(({value.text} + {half:#x} & {full(width):#x}) - {half:#x})"
    if value.low >= 0 and value.high <= full(width):
        return value.text
    if value.constant is not None:
        return constant(value.low & full(width)).text
    return f"({value.text} & {full(width):#x})"


class ExprEmitter:
    """``params`` gives the value of each action parameter: a local name, or a constant in specialised code."""

    def __init__(self, storage: Storage, lookahead: Callable[[ir.Lookahead], str] | None = None) -> None:
        self._storage = storage
        self._lookahead = lookahead
        self.params: list[Value] = []

    # -- data ------------------------------------------------------------

    def data(self, expr: ir.Expr) -> Value:  # noqa: PLR0911, PLR0912 - one case per expression
        """An integer."""
        match expr:
            case ir.Const(value):
                return constant(value)
            case ir.FieldRef(header, name, width, signed):
                return self._field(self._storage.fields[header, name], width, signed)
            case ir.Valid(header):
                return Value(self._storage.valid(header), 0, 1)
            case ir.Param(index, _):
                return self.params[index]
            case ir.Lookahead(_, width):
                if self._lookahead is None:
                    raise AssertionError("lookahead outside the parser")
                return Value(self._lookahead(expr), 0, full(width))
            case ir.Cast(op, operand, width):
                return self._cast(op, self.data(operand), width)
            case ir.Ternary(condition, then, otherwise):
                yes, no = self.data(then), self.data(otherwise)
                text = f"({yes.text} if {self.boolean(condition)} else {no.text})"
                return Value(text, min(yes.low, no.low), max(yes.high, no.high))
            case ir.Unary("~", operand):
                inner = self.data(operand)
                if inner.constant is not None:
                    return constant(~inner.constant)
                return Value(f"(~{inner.text})", ~inner.high, ~inner.low)
            case ir.Unary("-", operand):
                inner = self.data(operand)
                if inner.constant is not None:
                    return constant(-inner.constant)
                return Value(f"(-{inner.text})", -inner.high, -inner.low)
            case ir.Unary("b2d", ir.Const(value)):
                return constant(int(value != 0))
            case ir.Unary("b2d", ir.Unary("d2b", ir.Valid(header))):
                return Value(self._storage.valid(header), 0, 1)
            case ir.Binary("&", left, right):
                return self._and(left, right)
            case ir.Binary(op, left, right) if op in _ARITHMETIC:
                return _ARITHMETIC[op](self.data(left), self.data(right))
        return Value(f"(1 if {self.boolean(expr)} else 0)", 0, 1)

    def _field(self, name: str, width: int, signed: bool) -> Value:
        if signed:
            half = 1 << (width - 1)
            return Value(name, -half, half - 1)
        return Value(name, 0, full(width))

    def _cast(self, op: str, value: Value, width: int) -> Value:
        half = 1 << (width - 1)
        low, high = (0, full(width)) if op == "usat_cast" else (-half, half - 1)
        if value.low >= low and value.high <= high:
            return value
        if op == "two_comp_mod":
            return Value(wrap(value, width, signed=True), low, high)
        ends = [min(max(end, low), high) for end in (value.low, value.high)]
        return Value(f"min(max({value.text}, {low:#x}), {high:#x})", *ends)

    def _and(self, left: ir.Expr, right: ir.Expr) -> Value:
        """``&``, most often p4c's mask to a type's width."""
        if isinstance(left, ir.Const):
            left, right = right, left
        if isinstance(right, ir.Const) and isinstance(left, ir.Unary) and left.op == "~":
            inner = self.data(left.operand)
            mask = right.value
            if inner.low >= 0 and inner.high <= mask and mask & (mask + 1) == 0:
                return _xor(inner, constant(mask))
        return _and(self.data(left), self.data(right))

    # -- booleans --------------------------------------------------------

    def boolean(self, expr: ir.Expr) -> str:  # noqa: PLR0911 - one case per expression
        """Text that is true or false in Python; any operand of an ``if``."""
        match expr:
            case ir.Binary(op, left, right) if op in ("==", "!=", "<", "<=", ">", ">="):
                return f"({self.data(left).text} {op} {self.data(right).text})"
            case ir.Binary("and" | "or" as op, left, right):
                return f"({self.boolean(left)} {op} {self.boolean(right)})"
            case ir.Unary("not", operand):
                return f"(not {self.boolean(operand)})"
            case ir.Unary("d2b", ir.Unary("b2d", operand)):
                return self.boolean(operand)
            case ir.Unary("d2b", operand):
                return self.boolean(operand) if _is_boolean(operand) else self.data(operand).text
            case ir.Unary("b2d", operand):
                return self.boolean(operand)
            case ir.Ternary(condition, then, otherwise):
                return f"({self.boolean(then)} if {self.boolean(condition)} else {self.boolean(otherwise)})"
        return self.data(expr).text


def _is_boolean(expr: ir.Expr) -> bool:
    if isinstance(expr, ir.Binary):
        return expr.op in ("==", "!=", "<", "<=", ">", ">=", "and", "or")
    return isinstance(expr, ir.Unary) and expr.op in ("not", "d2b", "b2d")


# ---------------------------------------------------------------- operators on values with ranges


def _add(left: Value, right: Value) -> Value:
    return _folded("+", left, right, left.low + right.low, left.high + right.high)


def _sub(left: Value, right: Value) -> Value:
    return _folded("-", left, right, left.low - right.high, left.high - right.low)


def _mul(left: Value, right: Value) -> Value:
    corners = [a * b for a in (left.low, left.high) for b in (right.low, right.high)]
    return _folded("*", left, right, min(corners), max(corners))


def _folded(op: str, left: Value, right: Value, low: int, high: int) -> Value:
    if low == high:
        return constant(low)
    if op != "*":
        if right.constant == 0:
            return left
        if left.constant == 0 and op == "+":
            return right
    elif 1 in (left.constant, right.constant):
        return right if left.constant == 1 else left
    return Value(f"({left.text} {op} {right.text})", low, high)


def _and(left: Value, right: Value) -> Value:
    if left.constant is not None and right.constant is not None:
        return constant(left.constant & right.constant)
    if left.constant is not None:
        left, right = right, left
    mask = right.constant
    if mask == 0:
        return constant(0)
    if mask is not None and mask & (mask + 1) == 0 and left.low >= 0 and left.high <= mask:
        return left
    text = f"({left.text} & {right.text})"
    highs = [value.high for value in (left, right) if value.low >= 0]
    if highs:
        return Value(text, 0, min(highs))
    bits = max(_bits(left), _bits(right))
    return Value(text, -(1 << bits), full(bits))


def _or(left: Value, right: Value) -> Value:
    return _union("|", left, right)


def _xor(left: Value, right: Value) -> Value:
    return _union("^", left, right)


def _union(op: str, left: Value, right: Value) -> Value:
    if left.constant is not None and right.constant is not None:
        return constant(left.constant | right.constant if op == "|" else left.constant ^ right.constant)
    if left.constant == 0:
        return right
    if right.constant == 0:
        return left
    bits = max(_bits(left), _bits(right))
    low = 0 if left.low >= 0 and right.low >= 0 else -(1 << bits)
    return Value(f"({left.text} {op} {right.text})", low, full(bits))


def _shift_left(left: Value, right: Value) -> Value:
    if right.constant == 0:
        return left
    distance = min(max(right.high, 0), MAX_SHIFT)
    low, high = min(left.low << distance, left.low, 0), max(left.high << distance, 0)
    if right.constant is not None:
        if left.constant is not None:
            return constant(left.constant << distance)
        if right.constant > MAX_SHIFT:
            return constant(0)
    text = f"({left.text} << {right.text})"
    if right.high > MAX_SHIFT and right.constant is None:
        text = f"({left.text} << {right.text} if {right.text} <= {MAX_SHIFT} else 0)"
    return Value(text, low, high)


def _shift_right(left: Value, right: Value) -> Value:
    if right.constant == 0:
        return left
    if left.constant is not None and right.constant is not None:
        return constant(left.constant >> right.constant)
    least = min(max(right.low, 0), MAX_SHIFT)
    low = left.low >> least if left.low >= 0 and right.constant is not None else min(left.low >> least, 0)
    high = left.high >> least if left.high >= 0 else -1
    return Value(f"({left.text} >> {right.text})", low, high)


def _divide(left: Value, right: Value) -> Value:
    if right.constant:
        return Value(f"({left.text} // {right.text})", 0, max(left.high, 0))
    return Value(f"({left.text} // {right.text} if {right.text} else 0)", 0, max(left.high, 0))


def _modulo(left: Value, right: Value) -> Value:
    if right.constant:
        return Value(f"({left.text} % {right.text})", 0, right.constant - 1)
    return Value(f"({left.text} % {right.text} if {right.text} else 0)", 0, max(right.high - 1, 0))


_ARITHMETIC: dict[str, Callable[[Value, Value], Value]] = {
    "+": _add,
    "-": _sub,
    "*": _mul,
    "/": _divide,
    "%": _modulo,
    "<<": _shift_left,
    ">>": _shift_right,
    "|": _or,
    "^": _xor,
}
