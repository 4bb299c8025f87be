# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Static analysis of expressions: values that are computed already, and the bits that can be 1.

The bits say whether an addition can carry from one 64-bit limb into the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from softswitch.native.emit_carrier import Carrier
from softswitch.program import ir
from softswitch.program.bounds import Bounds, Known
from softswitch.program.numbers import MAX_SHIFT, full

COMPARISONS = frozenset(["==", "!=", "<", "<=", ">", ">="])


@dataclass(frozen=True)
class Temp(Known):
    """A value that the generated code has computed already: C text of an integer in [low, high]."""

    text: str
    carrier: Carrier
    low: int
    high: int


Expr = ir.Expr | Temp


def binary(op: str, left: Expr, right: Expr) -> ir.Binary:
    """A binary expression whose operands may be values that the generated code has computed already."""
    return ir.Binary(op, cast("ir.Expr", left), cast("ir.Expr", right))


class Bits:
    """Bits of an expression modulo 2^width that can be 1 (``possible``), and bits that always are (``certain``)."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds

    def possible(self, expr: Expr, width: int) -> int:  # noqa: PLR0911 - one case per operator
        match expr:
            case ir.Binary("&", left, right):
                return self.possible(left, width) & self.possible(right, width)
            case ir.Binary("|" | "^", left, right):
                return self.possible(left, width) | self.possible(right, width)
            case ir.Binary("<<", left, ir.Const(distance)) if distance <= MAX_SHIFT:
                return self.possible(left, width) << distance & full(width)
            case ir.Binary(">>", left, ir.Const(distance)) if distance <= MAX_SHIFT and self._bounds(left)[0] >= 0:
                return self.possible(left, width + distance) >> distance
            case ir.Binary("+", left, right):
                return sum_bits(self.possible(left, width), self.possible(right, width)) & full(width)
            case ir.Ternary(_, then, otherwise):
                return self.possible(then, width) | self.possible(otherwise, width)
        low, high = self._bounds(expr)
        if low == high:
            return low & full(width)
        return full(min(width, high.bit_length())) if low >= 0 else full(width)

    def certain(self, expr: Expr, width: int) -> int:
        match expr:
            case ir.Binary("|", left, right):
                return self.certain(left, width) | self.certain(right, width)
            case ir.Binary("&", left, right):
                return self.certain(left, width) & self.certain(right, width)
        low, high = self._bounds(expr)
        return low & full(width) if low == high else 0


def sum_bits(left: int, right: int) -> int:
    """Bits that can be 1 in a sum of numbers within these bits: more ones never make fewer carries."""
    return left | right | carries(left, right)


def carries(left: int, right: int) -> int:
    """Positions into which a sum of numbers within these bits can carry."""
    return (left + right) ^ left ^ right


def borrows(certain: int, possible: int) -> int:
    """Positions from which a difference can borrow: left has at least ``certain``, right at most ``possible``."""
    return (certain - possible) ^ certain ^ possible
