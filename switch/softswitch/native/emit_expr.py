# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Emits expressions as C, with bmv2's unbounded precision.

``ring(expr, carrier)`` computes the value modulo 2^carrier.bits, which suffices for a stored value. Comparisons, right
shifts, division and saturation need the value itself: ``exact`` computes it in a type that holds its whole interval.
The bits that can be 1 show whether an addition can carry from one limb into the next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from softswitch.native.emit_code import Code, CStorage
from softswitch.native.limbs import (
    LIMB,
    LIMB_BITS,
    Carrier,
    Kind,
    argument_offsets,
    carrier,
    carrier_of,
    convert,
    limbs,
    shift_left,
    shift_right,
    split_limbs,
)
from softswitch.program import ir
from softswitch.program.analysis import Bounds, Known
from softswitch.program.limits import MAX_SHIFT, full

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
    """Return a binary expression. Its operands may be values that the generated code has already computed."""
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
            case ir.Mux(_, then, otherwise):
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
    """Return the bits that can be 1 in a sum of numbers within these bits: more ones never make fewer carries."""
    return left | right | carries(left, right)


def carries(left: int, right: int) -> int:
    """Return the positions into which a sum of numbers within these bits can carry."""
    return (left + right) ^ left ^ right


def borrows(certain: int, possible: int) -> int:
    """Return the positions from which a difference can borrow: left has at least ``certain``, right at most
    ``possible``."""
    return (certain - possible) ^ certain ^ possible


LARGE_BITINT = 8  # limbs; larger products are computed in a loop: unrolled they take hundreds of instructions


class CExprEmitter:
    """Writes lines to ``code`` that compute an expression. Results are names of constants, or literals.

    ``parameters``: widths of the enclosing action's parameters. ``lookahead``: a function that writes a parser's
    lookahead.
    """

    def __init__(
        self,
        storage: CStorage,
        code: Code,
        parameters: tuple[int, ...] = (),
        lookahead: Callable[[ir.Lookahead], str] | None = None,
    ) -> None:
        self.code = code
        self._storage = storage
        self._parameters = parameters
        self._offsets = argument_offsets(parameters)[0]
        self._lookahead = lookahead
        self.bounds = Bounds()
        self._bits = Bits(self.bounds)

    # -- entry points ----------------------------------------------------

    def exact(self, expr: Expr) -> Temp:
        low, high = self.bounds(expr)
        kind = carrier_of(low, high)
        return Temp(self.ring(expr, kind), kind, low, high)

    def wrapped(self, expr: Expr, width: int) -> str:
        """Return the value modulo 2^width, in carrier(width). Fields are kept in this form, including signed ones."""
        kind = carrier(width)
        text = self.ring(expr, kind)
        low, high = self.bounds(expr)
        return text if low >= 0 and high <= full(width) else self._masked(text, kind, width)

    def index(self, expr: Expr, size: int) -> tuple[str, str]:
        """Return an index as a 64-bit number, and the condition under which it lies in 0..size - 1 ("": always)."""
        low, high = self.bounds(expr)
        text = self.ring(expr, LIMB)
        if low >= 0 and high < size:
            return text, ""
        if carrier_of(low, high) == LIMB:
            return text, f"{text} < {size}u"  # a negative number is a large one here
        inside = binary("and", binary("<=", ir.Const(0), expr), binary("<", expr, ir.Const(size)))
        return text, self.boolean(inside)

    # -- modulo 2^n ------------------------------------------------------

    def ring(self, expr: Expr, kind: Carrier) -> str:
        """Return C text of the value modulo 2^kind.bits."""
        low, high = self.bounds(expr)
        if low == high:
            text = kind.constant(low)
            return text if kind == LIMB else self.code.value(kind, text)
        least = carrier_of(low, high)
        if least.bits < kind.bits:
            return self._converted(self.ring(expr, least), least, kind, signed=low < 0)
        return self._ring(expr, kind)

    def _ring(self, expr: Expr, kind: Carrier) -> str:  # noqa: PLR0911, PLR0912 - one case per expression
        """``ring`` for a value that needs all of ``kind``."""
        self.code.budget.step()
        match expr:
            case Temp(text, own, low):
                return self._converted(text, own, kind, signed=low < 0)
            case ir.FieldRef() | ir.Param() | ir.Lookahead():
                return self._leaf(expr, kind)
            case ir.Valid(header):
                return self.code.read(self._storage.valid[header], LIMB)
            case ir.Cast(op, operand, width):
                return self._cast(op, operand, width, kind)
            case ir.Mux(condition, then, otherwise):
                test = self.boolean(condition)
                return self.code.value(kind, f"{test} ? {self.ring(then, kind)} : {self.ring(otherwise, kind)}")
            case ir.Unary("~", operand):
                return self.code.value(kind, f"~{self.ring(operand, kind)}")
            case ir.Unary("-", operand):
                return self._subtract(ir.Const(0), operand, kind)
            case ir.Binary("&", left, right):
                return self._and(left, right, kind)
            case ir.Binary("|" | "^" as op, left, right):
                return self.code.value(kind, f"{self.ring(left, kind)} {op} {self.ring(right, kind)}")
            case ir.Binary("+", left, right):
                return self._add(left, right, kind, full(kind.bits))
            case ir.Binary("-", left, right):
                return self._subtract(left, right, kind)
            case ir.Binary("*", left, right):
                return self._multiply(left, right, kind)
            case ir.Binary("<<", left, right):
                return self._shift_left(left, right, kind)
            case ir.Binary(">>", left, right):
                return self._shift_right(left, right, kind)
            case ir.Binary("/" | "%" as op, left, right):
                return self._divide(op, left, right, kind)
        return self.code.value(kind, f"{self.boolean(expr)} ? 1 : 0")

    def _converted(self, text: str, source: Carrier, target: Carrier, *, signed: bool) -> str:
        if source == target:
            return text
        return self.code.value(target, convert(text, source, target, signed=signed))

    def _masked(self, text: str, kind: Carrier, width: int) -> str:
        if width == kind.bits:
            return text
        mask = kind.constant(full(width))
        return self.code.value(kind, f"{text} & {mask}")

    def _extended(self, text: str, kind: Carrier, width: int) -> str:
        """A number of ``width`` bits, sign-extended."""
        if width == kind.bits:
            return text
        half = kind.constant(1 << (width - 1))
        flipped = self.code.value(kind, f"{text} ^ {half}")
        return self._operate("-", flipped, half, kind)

    def _operate(self, op: str, left: str, right: str, kind: Carrier) -> str:
        """Sum or difference with carries between limbs."""
        if kind.kind is Kind.VECTOR:
            name = {"+": "add", "-": "subtract"}[op]
            return self.code.value(kind, f"{kind.name}_{name}({left}, {right})")
        return self.code.value(kind, f"{left} {op} {right}")

    # -- leaves ----------------------------------------------------------

    def _leaf(self, expr: ir.FieldRef | ir.Param | ir.Lookahead, kind: Carrier) -> str:
        own = carrier(expr.width)
        if isinstance(expr, ir.FieldRef):
            text = self.code.read(self._storage.fields[expr.header, expr.field], own)
            if expr.signed and kind == own:
                return self._extended(text, own, expr.width)
        elif isinstance(expr, ir.Param):
            text = self.load(f"args + {self._offsets[expr.index]}", expr.width)
        elif self._lookahead is not None:
            text = self._lookahead(expr)
        else:
            raise AssertionError("lookahead outside the parser")
        return self._converted(text, own, kind, signed=False)

    def load(self, limbs_at: str, width: int, *, fresh: bool = False) -> str:
        """Read a number from memory. ``fresh``: the memory may have changed since the last read."""
        kind, count = carrier(width), limbs(width)
        if kind == LIMB:
            text = f"*({limbs_at})"
        elif kind.kind is Kind.VECTOR:
            text = f"{kind.name}_load({limbs_at}, {count})"
        else:
            text = f"{kind.name}_load({limbs_at})"
        if not fresh:
            return self.code.value(kind, text)
        name = self.code.name()
        self.code.line(f"const {kind.name} {name} = {text};")
        return name

    def save(self, limbs_at: str, text: str, width: int) -> None:
        """Write a number to memory. ``text`` is in carrier(width)."""
        kind, count = carrier(width), limbs(width)
        if kind == LIMB:
            self.code.line(f"*({limbs_at}) = {text};")
        elif kind.kind is Kind.VECTOR:
            self.code.line(f"{kind.name}_store({limbs_at}, {count}, {text});")
        else:
            self.code.line(f"{kind.name}_store({limbs_at}, {text});")

    # -- casts -----------------------------------------------------------

    def _cast(self, op: str, operand: Expr, width: int, kind: Carrier) -> str:
        half = 1 << (width - 1)
        low, high = (0, full(width)) if op == "usat_cast" else (-half, half - 1)
        least, most = self.bounds(operand)
        if low <= least and most <= high:
            return self.ring(operand, kind)
        if op == "two_comp_mod":
            if kind.bits <= width:
                return self.ring(operand, kind)
            own = carrier(width)
            return self._converted(self._extended(self.wrapped(operand, width), own, width), own, kind, signed=True)
        value = self.exact(operand)
        too_low, too_high = binary("<", value, ir.Const(low)), binary(">", value, ir.Const(high))
        at_most = ir.Mux(too_high, ir.Const(high), cast("ir.Expr", value))
        return self.ring(ir.Mux(too_low, ir.Const(low), at_most), kind)

    # -- arithmetic ------------------------------------------------------

    def _and(self, left: Expr, right: Expr, kind: Carrier) -> str:
        if self.bounds.constant(left) is not None:
            left, right = right, left
        mask = self.bounds.constant(right)
        if mask is None:
            return self.code.value(kind, f"{self.ring(left, kind)} & {self.ring(right, kind)}")
        mask &= full(kind.bits)
        if isinstance(left, ir.Binary) and left.op == "+" and carrier_of(*self.bounds(left)).bits >= kind.bits:
            text = self._add(left.left, left.right, kind, mask)
        else:
            text = self.ring(left, kind)
        least, most = self.bounds(left)
        covered = full(most.bit_length()) if least >= 0 else full(kind.bits)
        if covered & full(kind.bits) & ~mask == 0:
            return text
        return self.code.value(kind, f"{text} & {self.ring(ir.Const(mask), kind)}")

    def _add(self, left: Expr, right: Expr, kind: Carrier, wanted: int) -> str:
        """``wanted``: bits of the sum that matter."""
        first, second = self.ring(left, kind), self.ring(right, kind)
        if kind.kind is Kind.VECTOR and self._limbs_add_apart(left, right, kind, wanted):
            return self.code.value(kind, f"{first} + {second}")
        return self._operate("+", first, second, kind)

    def _limbs_add_apart(self, left: Expr, right: Expr, kind: Carrier, wanted: int) -> bool:
        """Return True if no carry into a limb changes a wanted bit; it ends at the first position free in both."""
        one, other = self._bits.possible(left, kind.bits), self._bits.possible(right, kind.bits)
        carried = carries(one, other)
        for start in range(LIMB_BITS, kind.bits, LIMB_BITS):
            if not carried >> start & 1:
                continue
            busy = (one | other) >> start
            reach = (busy ^ (busy + 1)) << start  # the bits that a carry which starts here can change
            if reach & wanted:
                return False
        return True

    def _subtract(self, left: Expr, right: Expr, kind: Carrier) -> str:
        first, second = self.ring(left, kind), self.ring(right, kind)
        if kind.kind is Kind.VECTOR:
            certain, possible = self._bits.certain(left, kind.bits), self._bits.possible(right, kind.bits)
            borrowed = borrows(certain, possible)
            if not any(borrowed >> start & 1 for start in range(LIMB_BITS, kind.bits, LIMB_BITS)):
                return self.code.value(kind, f"{first} - {second}")
        return self._operate("-", first, second, kind)

    def _multiply(self, left: Expr, right: Expr, kind: Carrier) -> str:
        if self.bounds.constant(left) is not None:
            left, right = right, left
        factor = self.bounds.constant(right)
        if factor is not None and factor > 0 and factor & (factor - 1) == 0:
            return self._shift_constant(self.ring(left, kind), factor.bit_length() - 1, kind)
        if kind.kind is Kind.LIMB or (kind.kind is Kind.BITINT and kind.limbs < LARGE_BITINT):
            return self.code.value(kind, f"{self.ring(left, kind)} * {self.ring(right, kind)}")
        if factor is not None and kind.kind is Kind.VECTOR:
            low, high = self.bounds(left)
            parts = split_limbs(factor, kind.limbs)
            if factor > 0 and low >= 0 and high * max(parts) < 1 << LIMB_BITS:
                # No limb's product reaches into the next.
                spread = f"({kind.name})({self.ring(left, LIMB)})"
                return self.code.value(kind, f"{spread} * {kind.constant(factor)}")
        return self.code.value(kind, f"{kind.name}_multiply({self.ring(left, kind)}, {self.ring(right, kind)})")

    def _divide(self, op: str, left: Expr, right: Expr, kind: Carrier) -> str:
        """Division by 0 gives 0."""
        low, high = (self.bounds(part) for part in (left, right))
        both = carrier_of(0, max(low[1], high[1]))
        scalar = both if both.kind is not Kind.VECTOR else Carrier(Kind.BITINT, both.limbs)
        first = self._converted(self.ring(left, both), both, scalar, signed=False)
        second = self._converted(self.ring(right, both), both, scalar, signed=False)
        quotient = self.code.value(scalar, f"{second} == 0 ? ({scalar.name})0 : {first} {op} {second}")
        return self._converted(quotient, scalar, kind, signed=False)

    # -- shifts ----------------------------------------------------------

    def _shift_constant(self, text: str, distance: int, kind: Carrier) -> str:
        if distance == 0:
            return text
        if distance >= kind.bits:
            return self.ring(ir.Const(0), kind)
        if kind.kind is Kind.VECTOR:
            return self.code.value(kind, shift_left(text, kind, distance))
        return self.code.value(kind, f"{text} << {distance}")

    def _shift_left(self, left: Expr, right: Expr, kind: Carrier) -> str:
        constant = self.bounds.constant(right)
        text = self.ring(left, kind)
        if constant is not None:
            return self._shift_constant(text, max(constant, 0), kind)
        by, inside = self.index(right, kind.bits)
        shifted = f"{kind.name}_left({text}, {by})" if kind.kind is Kind.VECTOR else f"{text} << {by}"
        if not inside:
            return self.code.value(kind, shifted)
        return self.code.value(kind, f"{inside} ? {shifted} : {kind.constant(0)}")

    def _shift_right(self, left: Expr, right: Expr, kind: Carrier) -> str:
        value = self.exact(left)
        own, signed = value.carrier, value.low < 0
        constant = self.bounds.constant(right)
        if constant is not None and own.kind is Kind.VECTOR and not signed:
            # The interval's rule keeps the distance below the value's bits: else the result would be constant.
            text = self.code.value(own, shift_right(value.text, own, max(constant, 0)))
            return self._converted(text, own, kind, signed=False)
        by, inside = self.index(right, own.bits)
        if own.kind is Kind.VECTOR:
            fill = f"(uint64_t)((int64_t){value.text}[{own.limbs - 1}] >> 63)" if signed else "0"
            shifted = f"{own.name}_right({value.text}, {by}, {fill})"
            nothing = f"({own.name})({fill})"
        elif signed:
            shifted = f"({own.name})(({own.signed_name}){value.text} >> {by})"
            nothing = f"({own.name})(({own.signed_name}){value.text} >> {own.bits - 1})"
        else:
            shifted, nothing = f"{value.text} >> {by}", f"({own.name})0"
        text = self.code.value(own, f"{inside} ? {shifted} : {nothing}" if inside else shifted)
        return self._converted(text, own, kind, signed=signed)

    # -- booleans --------------------------------------------------------

    def boolean(self, expr: Expr) -> str:
        """Return the name of a ``bool`` constant, or a literal."""
        match expr:
            case ir.Binary(op, left, right) if op in COMPARISONS:
                return self._compare(op, left, right)
            case ir.Binary("and" | "or" as op, left, right):
                first, second = self.boolean(left), self.boolean(right)
                return self.code.condition(f"{first} {'&&' if op == 'and' else '||'} {second}")
            case ir.Unary("not", operand):
                return self.code.condition(f"!{self.boolean(operand)}")
            case ir.Unary("d2b" | "b2d", operand):
                return self.boolean(operand)
            case ir.Mux(condition, then, otherwise):
                parts = self.boolean(condition), self.boolean(then), self.boolean(otherwise)
                return self.code.condition(f"{parts[0]} ? {parts[1]} : {parts[2]}")
        return self._compare("!=", expr, ir.Const(0))

    def _compare(self, op: str, left: Expr, right: Expr) -> str:
        first, second = self.bounds(left), self.bounds(right)
        low, high = min(first[0], second[0]), max(first[1], second[1])
        kind = carrier_of(low, high)
        one, other = self.ring(left, kind), self.ring(right, kind)
        if kind.kind is Kind.VECTOR:
            return self._compare_vectors(op, one, other, kind, signed=low < 0)
        if low < 0 and op not in ("==", "!="):
            one, other = f"({kind.signed_name}){one}", f"({kind.signed_name}){other}"
        return self.code.condition(f"{one} {op} {other}")

    def _compare_vectors(self, op: str, left: str, right: str, kind: Carrier, *, signed: bool) -> str:
        if op in ("==", "!="):
            return self.code.condition(f"{'!' if op == '!=' else ''}{kind.name}_equal({left}, {right})")
        if signed:
            sign = self.ring(ir.Const(1 << (kind.bits - 1)), kind)
            left, right = (self.code.value(kind, f"{part} ^ {sign}") for part in (left, right))
        if op in (">", "<="):
            left, right = right, left
        return self.code.condition(f"{'!' if op in ('<=', '>=') else ''}{kind.name}_less({left}, {right})")
