# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Random expressions of the shapes that the loader makes from p4c's JSON.

P4 types every value: where an operation can exceed its type, p4c adds a mask or a cast. `typed` does the same. `loose`
leaves out the outermost wrap, so that a value of any size and sign reaches a store or a comparison. Shift distances and
dividends are never negative.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from differential.draws import Draws, full
from softswitch.program import ir

MAX_LOOKAHEAD = 96


@dataclass
class Scope:
    """The fields and parameters that an expression may use. ``lookahead``: it stands in the parser."""

    fields: list[ir.FieldRef]
    headers: list[str]
    params: list[ir.Param] = field(default_factory=list)
    lookahead: bool = False

    def unsigned(self) -> list[ir.FieldRef]:
        return [member for member in self.fields if not member.signed]


class Expressions:
    def __init__(self, draws: Draws, scope: Scope) -> None:
        self._draws = draws
        self._scope = scope

    # -- data ------------------------------------------------------------

    def typed(self, width: int, *, signed: bool = False, depth: int = 3) -> ir.Expr:
        """A value that fits in bit<width>, or int<width> if ``signed``."""
        draws = self._draws
        if depth <= 0 or draws.chance(0.15):
            return self._leaf(width, signed)
        if not signed and draws.chance(0.2):
            return self._unsigned_only(width, depth)
        forms: list[Callable[[], ir.Expr]] = [
            lambda: self._wrapped(self._arithmetic(width, signed, depth), width, signed),
            lambda: self._wrapped(self._arithmetic(width, signed, depth), width, signed),
            lambda: self._bitwise(width, signed, depth),
            lambda: self._wrapped(self._unary(width, signed, depth), width, signed),
            lambda: self._saturated(width, signed, depth),
            lambda: ir.Binary(">>", self.typed(width, signed=signed, depth=depth - 1), self.distance(depth - 1)),
            lambda: ir.Mux(self.boolean(depth - 1), self.typed(width, signed=signed, depth=depth - 1),
                               self.typed(width, signed=signed, depth=depth - 1)),
            lambda: self._converted(width, signed, depth),
        ]  # fmt: skip
        if signed and draws.chance(0.2):
            # The sign bit comes from a wider value.
            fields: list[ir.Expr] = [member for member in self._scope.fields if member.signed]
            value = draws.one(fields or [ir.Const(-5)])
            return self._wrapped(ir.Binary(">>", value, self.distance(depth - 1)), width, signed=True)
        return draws.one(forms)()

    def loose(self, width: int, *, signed: bool = False, depth: int = 3) -> ir.Expr:
        """A value of about ``width`` bits, sometimes wider, sometimes negative."""
        draws = self._draws
        if draws.chance(0.6):
            return self.typed(width, signed=signed, depth=depth)
        if draws.chance(0.2):
            return draws.one([self._unary, self._arithmetic])(width, signed, depth)
        left, right = (self.typed(self._near(width), signed=draws.chance(0.4), depth=depth - 1) for _ in range(2))
        op = draws.one(["+", "-", "*", "&", "|", "^", "<<", "<=", "and"])
        if op == "<<":
            return ir.Binary("<<", left, self._short_distance(depth - 1))
        if op in ("<=", "and"):
            return self.boolean(depth)
        inner = ir.Binary(op, left, right)
        return (
            inner if draws.chance(0.5) else ir.Binary(draws.one(["+", "-", "|", "^"]), inner, self._leaf(width, signed))
        )

    def distance(self, depth: int) -> ir.Expr:
        """A distance for a shift to the right, or for one whose result is wrapped."""
        draws = self._draws
        if draws.chance(0.3):
            return ir.Const(draws.one([0, 1, 1, 2, 3, 7, 8, 31, 32, 63, 64, 65, 100, 511, 512, 2047, 2048, 5000]))
        width = draws.one([1, 2, 3, 3, 8, 8, 8, 11, 16, 64, min(65, draws.widest), draws.widest])
        return self.typed(width, depth=depth)

    def _short_distance(self, depth: int) -> ir.Expr:
        return ir.Const(self._draws.count(0, 200)) if self._draws.chance(0.5) else self.typed(8, depth=depth)

    def _near(self, width: int) -> int:
        draws = self._draws
        return width if draws.chance(0.6) else draws.one([draws.width(), max(1, width - 1), width])

    def _leaf(self, width: int, signed: bool) -> ir.Expr:
        draws, scope = self._draws, self._scope
        kind = draws.random.random()
        if kind < 0.2:
            return ir.Const(draws.signed(width) if signed else draws.number(width))
        if kind < 0.3 and scope.params:
            return self._cast_of(draws.one(scope.params), width, signed)
        if kind < 0.4 and scope.lookahead:
            return self._cast_of(self.lookahead(), width, signed)
        if kind < 0.45:
            return self._cast_of(ir.Valid(draws.one(scope.headers)), width, signed)
        exact = [member for member in scope.fields if (member.width, member.signed) == (width, signed)]
        if exact and draws.chance(0.7):
            return draws.one(exact)
        return self._cast_of(draws.one(scope.fields), width, signed)

    def lookahead(self) -> ir.Lookahead:
        draws = self._draws
        return ir.Lookahead(draws.one([0, 0, 0, 3, 8, 13]), draws.one([1, 8, 16, 5, 33, 64, 65, MAX_LOOKAHEAD]))

    def _cast_of(self, value: ir.FieldRef | ir.Valid | ir.Lookahead | ir.Param, width: int, signed: bool) -> ir.Expr:
        was = 1 if isinstance(value, ir.Valid) else value.width
        return self._cast(value, was, isinstance(value, ir.FieldRef) and value.signed, width, signed)

    def _cast(self, value: ir.Expr, was: int, was_signed: bool, width: int, signed: bool) -> ir.Expr:
        """``value`` of ``was`` bits cast to ``width`` bits; like p4c, no cast where no bit can be lost."""
        if not was_signed and (was < width or (was == width and not signed)):
            return value
        return self._wrapped(value, width, signed)

    def _wrapped(self, value: ir.Expr, width: int, signed: bool) -> ir.Expr:
        return ir.Cast("two_comp_mod", value, width) if signed else ir.Binary("&", value, ir.Const(full(width)))

    def _arithmetic(self, width: int, signed: bool, depth: int) -> ir.Expr:
        op = self._draws.one(["+", "-", "*", "+", "-", "<<"])
        left = self.typed(width, signed=signed, depth=depth - 1)
        if op == "<<":
            return ir.Binary("<<", left, self._short_distance(depth - 1))
        return ir.Binary(op, left, self.typed(width, signed=signed, depth=depth - 1))

    def _bitwise(self, width: int, signed: bool, depth: int) -> ir.Expr:
        left, right = (self.typed(width, signed=signed, depth=depth - 1) for _ in range(2))
        return ir.Binary(self._draws.one(["&", "|", "^"]), left, right)

    def _unary(self, width: int, signed: bool, depth: int) -> ir.Expr:
        return ir.Unary(self._draws.one(["~", "-"]), self.typed(width, signed=signed, depth=depth - 1))

    def _saturated(self, width: int, signed: bool, depth: int) -> ir.Expr:
        left, right = (self.typed(width, signed=signed, depth=depth - 1) for _ in range(2))
        total = ir.Binary(self._draws.one(["+", "-"]), left, right)
        return ir.Cast("sat_cast" if signed else "usat_cast", total, width)

    def _unsigned_only(self, width: int, depth: int) -> ir.Expr:
        draws = self._draws
        match draws.one(["divide", "slice", "join", "long shift", "boolean"]):
            case "divide":
                divisor = (
                    ir.Const(draws.number(width) or 3) if draws.chance(0.5) else self.typed(width, depth=depth - 1)
                )
                return ir.Binary(draws.one(["/", "%"]), self.typed(width, depth=depth - 1), divisor)
            case "slice":
                wide = self._near(width) + draws.count(0, 20)
                inner = self.typed(min(wide, draws.widest), depth=depth - 1)
                return self._wrapped(ir.Binary(">>", inner, ir.Const(draws.count(0, wide))), width, False)
            case "join" if width > 1:
                low = draws.count(1, width - 1)
                high = ir.Binary("<<", self.typed(width - low, depth=depth - 1), ir.Const(low))
                joined = ir.Binary("|", self._wrapped(high, width, False), self.typed(low, depth=depth - 1))
                return self._wrapped(joined, width, False)
            case "long shift":
                shifted = ir.Binary("<<", self.typed(width, depth=depth - 1), self.distance(depth - 1))
                return self._wrapped(shifted, width, False)
        return ir.Unary("b2d", self.boolean(depth - 1))

    def _converted(self, width: int, signed: bool, depth: int) -> ir.Expr:
        """A value of another type, cast."""
        was, was_signed = self._near(width), self._draws.chance(0.5)
        inner = self.typed(was, signed=was_signed, depth=depth - 1)
        return self._cast(inner, was, was_signed, width, signed)

    # -- booleans --------------------------------------------------------

    def boolean(self, depth: int = 3) -> ir.Expr:
        draws = self._draws
        if depth <= 0:
            return self._simple_boolean()
        match draws.one(["compare"] * 5 + ["and", "or", "not", "simple", "convert", "ternary"]):
            case "compare":
                return self._comparison(depth)
            case "and" | "or" as op:
                return ir.Binary(op, self.boolean(depth - 1), self.boolean(depth - 1))
            case "not":
                return ir.Unary("not", self.boolean(depth - 1))
            case "convert":
                return ir.Unary("d2b", ir.Unary("b2d", self.boolean(depth - 1)))
            case "ternary":
                return ir.Mux(self.boolean(depth - 1), self.boolean(depth - 1), self.boolean(depth - 1))
        return self._simple_boolean()

    def _simple_boolean(self) -> ir.Expr:
        draws, scope = self._draws, self._scope
        match draws.one(["valid"] * 3 + ["field", "const"]):
            case "valid":
                return ir.Unary("d2b", ir.Valid(draws.one(scope.headers)))
            case "field":
                return ir.Unary("d2b", draws.one(scope.fields))
        return ir.Const(draws.count(0, 1))

    def _comparison(self, depth: int) -> ir.Expr:
        draws = self._draws
        member = draws.one(self._scope.fields)
        op = draws.one(["==", "!=", "<", "<=", ">", ">="])
        if draws.chance(0.3):
            constant = draws.signed(member.width) if member.signed else draws.number(member.width)
            return ir.Binary(op, member, ir.Const(constant))
        width, signed = (member.width, member.signed) if draws.chance(0.7) else (draws.width(), draws.chance(0.5))
        left = self.loose(width, signed=signed, depth=depth - 1)
        return ir.Binary(op, left, self.loose(width, signed=signed, depth=depth - 1))
