# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Emits expressions as Python text, with the interval of their values.

Values are evaluated with unbounded precision, as in bmv2. A mask is written only where the interval exceeds the type,
and operations on constants are evaluated here. With 1024-bit words each operation left out saves an allocation.
"""

from __future__ import annotations

from collections.abc import Callable

from softswitch.errors import ProgramTooLargeError
from softswitch.program import ir
from softswitch.program.limits import CodeBudget, full
from softswitch.python.emit_code import PyContext
from softswitch.python.values import ARITHMETIC, PyValue, constant, value_and, value_xor, wrap

MAX_TEXT = 1 << 20  # characters of one expression


class PyExprEmitter:
    """Emits expressions. ``params`` has the value of each action parameter: a local name, or a constant in specialised
    code."""

    def __init__(
        self,
        context: PyContext,
        lookahead: Callable[[ir.Lookahead], str] | None = None,
        *,
        budget: CodeBudget | None = None,
    ) -> None:
        self._storage = context.storage
        self._lookahead = lookahead
        self._budget = budget or context.budget
        self.params: list[PyValue] = []

    # -- data ------------------------------------------------------------

    def data(self, expr: ir.Expr) -> PyValue:
        """Return Python text of an integer."""
        self._budget.step()
        value = self._data(expr)
        if len(value.text) > MAX_TEXT:
            raise ProgramTooLargeError(
                f"an expression takes more than {MAX_TEXT} characters in Python; use the native engine"
            )
        return value

    def _data(self, expr: ir.Expr) -> PyValue:  # noqa: PLR0911, PLR0912 - one case per expression
        match expr:
            case ir.Const(value):
                return constant(value)
            case ir.FieldRef(header, name, width, signed):
                return self._field(self._storage.fields[header, name], width, signed)
            case ir.Valid(header):
                return PyValue(self._storage.valid(header), 0, 1)
            case ir.Param(index, _):
                return self.params[index]
            case ir.Lookahead(_, width):
                if self._lookahead is None:
                    raise AssertionError("lookahead outside the parser")
                return PyValue(self._lookahead(expr), 0, full(width))
            case ir.Cast(op, operand, width):
                return self._cast(op, self.data(operand), width)
            case ir.Mux(condition, then, otherwise):
                yes, no = self.data(then), self.data(otherwise)
                text = f"({yes.text} if {self.boolean(condition)} else {no.text})"
                return PyValue(text, min(yes.low, no.low), max(yes.high, no.high))
            case ir.Unary("~", operand):
                return _inverted(self.data(operand))
            case ir.Unary("-", operand):
                inner = self.data(operand)
                if inner.constant is not None:
                    return constant(-inner.constant)
                return PyValue(f"(-{inner.text})", -inner.high, -inner.low)
            case ir.Unary("b2d", ir.Const(value)):
                return constant(int(value != 0))
            case ir.Unary("b2d", ir.Unary("d2b", ir.Valid(header))):
                return PyValue(self._storage.valid(header), 0, 1)
            case ir.Binary("&", left, right):
                return self._and(left, right)
            case ir.Binary(op, left, right) if op in ARITHMETIC:
                return ARITHMETIC[op](self.data(left), self.data(right))
        return PyValue(f"(1 if {self.boolean(expr)} else 0)", 0, 1)

    def _field(self, name: str, width: int, signed: bool) -> PyValue:
        if signed:
            half = 1 << (width - 1)
            return PyValue(name, -half, half - 1)
        return PyValue(name, 0, full(width))

    def _cast(self, op: str, value: PyValue, width: int) -> PyValue:
        half = 1 << (width - 1)
        low, high = (0, full(width)) if op == "usat_cast" else (-half, half - 1)
        if value.low >= low and value.high <= high:
            return value
        if op == "two_comp_mod":
            return PyValue(wrap(value, width, signed=True), low, high)
        ends = [min(max(end, low), high) for end in (value.low, value.high)]
        return PyValue(f"min(max({value.text}, {low:#x}), {high:#x})", *ends)

    def _and(self, left: ir.Expr, right: ir.Expr) -> PyValue:
        """``&``, most often p4c's mask to a type's width."""
        if isinstance(left, ir.Const):
            left, right = right, left
        if isinstance(right, ir.Const) and isinstance(left, ir.Unary) and left.op == "~":
            inner = self.data(left.operand)
            mask = right.value
            if inner.low >= 0 and inner.high <= mask and mask & (mask + 1) == 0:
                return value_xor(inner, constant(mask))
            return value_and(_inverted(inner), self.data(right))
        return value_and(self.data(left), self.data(right))

    # -- booleans --------------------------------------------------------

    def boolean(self, expr: ir.Expr) -> str:  # noqa: PLR0911 - one case per expression
        """Return Python text that is true or false, for a condition."""
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
            case ir.Mux(condition, then, otherwise):
                return f"({self.boolean(then)} if {self.boolean(condition)} else {self.boolean(otherwise)})"
        return self.data(expr).text


def _inverted(inner: PyValue) -> PyValue:
    if inner.constant is not None:
        return constant(~inner.constant)
    return PyValue(f"(~{inner.text})", ~inner.high, ~inner.low)


def _is_boolean(expr: ir.Expr) -> bool:
    if isinstance(expr, ir.Binary):
        return expr.op in ("==", "!=", "<", "<=", ">", ">=", "and", "or")
    return isinstance(expr, ir.Unary) and expr.op in ("not", "d2b", "b2d")
