# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Integers in generated Python: their text, the interval of their values, and operators on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from softswitch.program.limits import MAX_SHIFT, full


@dataclass(frozen=True)
class PyValue:
    """Python text, parenthesised where needed, of an integer in [low, high]."""

    text: str
    low: int
    high: int

    @property
    def constant(self) -> int | None:
        return self.low if self.low == self.high else None


def constant(value: int) -> PyValue:
    text = str(value) if abs(value) < 10 else f"{value:#x}"
    return PyValue(text if value >= 0 else f"({text})", value, value)


def _bits(value: PyValue) -> int:
    return max(value.low.bit_length(), value.high.bit_length())


def wrap(value: PyValue, width: int, *, signed: bool) -> str:
    """Return the text of ``value`` modulo 2^width, as it is stored in a field of ``width`` bits."""
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


# ---------------------------------------------------------------- operators on values with ranges


def _add(left: PyValue, right: PyValue) -> PyValue:
    return _folded("+", left, right, left.low + right.low, left.high + right.high)


def _sub(left: PyValue, right: PyValue) -> PyValue:
    return _folded("-", left, right, left.low - right.high, left.high - right.low)


def _mul(left: PyValue, right: PyValue) -> PyValue:
    corners = [a * b for a in (left.low, left.high) for b in (right.low, right.high)]
    return _folded("*", left, right, min(corners), max(corners))


def _folded(op: str, left: PyValue, right: PyValue, low: int, high: int) -> PyValue:
    if low == high:
        return constant(low)
    if op != "*":
        if right.constant == 0:
            return left
        if left.constant == 0 and op == "+":
            return right
    elif 1 in (left.constant, right.constant):
        return right if left.constant == 1 else left
    return PyValue(f"({left.text} {op} {right.text})", low, high)


def value_and(left: PyValue, right: PyValue) -> PyValue:
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
        return PyValue(text, 0, min(highs))
    bits = max(_bits(left), _bits(right))
    return PyValue(text, -(1 << bits), full(bits))


def _or(left: PyValue, right: PyValue) -> PyValue:
    return _union("|", left, right)


def value_xor(left: PyValue, right: PyValue) -> PyValue:
    return _union("^", left, right)


def _union(op: str, left: PyValue, right: PyValue) -> PyValue:
    if left.constant is not None and right.constant is not None:
        return constant(left.constant | right.constant if op == "|" else left.constant ^ right.constant)
    if left.constant == 0:
        return right
    if right.constant == 0:
        return left
    bits = max(_bits(left), _bits(right))
    low = 0 if left.low >= 0 and right.low >= 0 else -(1 << bits)
    return PyValue(f"({left.text} {op} {right.text})", low, full(bits))


def _shift_left(left: PyValue, right: PyValue) -> PyValue:
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
    return PyValue(text, low, high)


def _shift_right(left: PyValue, right: PyValue) -> PyValue:
    if right.constant == 0:
        return left
    if left.constant is not None and right.constant is not None:
        return constant(left.constant >> right.constant)
    least = min(max(right.low, 0), MAX_SHIFT)
    low = left.low >> least if left.low >= 0 and right.constant is not None else min(left.low >> least, 0)
    high = left.high >> least if left.high >= 0 else -1
    return PyValue(f"({left.text} >> {right.text})", low, high)


def _divide(left: PyValue, right: PyValue) -> PyValue:
    if right.constant:
        return PyValue(f"({left.text} // {right.text})", 0, max(left.high, 0))
    return PyValue(f"({left.text} // {right.text} if {right.text} else 0)", 0, max(left.high, 0))


def _modulo(left: PyValue, right: PyValue) -> PyValue:
    if right.constant:
        return PyValue(f"({left.text} % {right.text})", 0, right.constant - 1)
    return PyValue(f"({left.text} % {right.text} if {right.text} else 0)", 0, max(right.high - 1, 0))


ARITHMETIC: dict[str, Callable[[PyValue, PyValue], PyValue]] = {
    "+": _add,
    "-": _sub,
    "*": _mul,
    "/": _divide,
    "%": _modulo,
    "<<": _shift_left,
    ">>": _shift_right,
    "|": _or,
    "^": value_xor,
}
