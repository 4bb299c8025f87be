# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Static analysis: the interval of each expression, which fields are read and written, and inputs of checksums.

The interval determines how wide a number must be to hold the value exactly, and whether it may be negative. Engines
leave out fields that the program never reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from softswitch.errors import UnsupportedProgramError
from softswitch.program import ir
from softswitch.program.limits import MAX_SHIFT, full
from softswitch.program.standard import STANDARD
from softswitch.program.traverse import (
    FieldKey,
    expr_fields,
    extracted_headers,
    flatten,
    operands,
    parser_ops,
    written_field,
)

Interval = tuple[int, int]
_CACHED = (ir.Unary, ir.Binary, ir.Cast, ir.Mux)


class Known:
    """A value in [low, high] that an engine has already computed. It is an operand like any other."""

    low: int
    high: int


Expr = ir.Expr | Known


class Bounds:
    """Computes the interval of expressions, and caches it, because p4c's expressions are deep."""

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

    def _compute(self, expr: ir.Unary | ir.Binary | ir.Cast | ir.Mux) -> Interval:
        match expr:
            case ir.Unary("~" | "-" as op, operand):
                low, high = self(operand)
                return (~high, ~low) if op == "~" else (-high, -low)
            case ir.Cast(op, operand, width):
                return _cast(op, self(operand), width)
            case ir.Mux(_, then, otherwise):
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


@dataclass
class Effects:
    """The fields and headers that a part of a program reads and writes.

    ``touched``: headers whose validity or whole content changes. ``copies``: (target, source) of header assignments.
    ``drops``: whether it contains mark_to_drop. ``truncates``: whether it contains truncate.
    """

    reads: set[FieldKey]
    writes: set[FieldKey]
    touched: set[str]
    copies: set[tuple[str, str]]
    drops: bool = False
    truncates: bool = False

    @classmethod
    def none(cls) -> Effects:
        return cls(set(), set(), set(), set())

    def statements(self, statements: Iterable[ir.Statement], program: ir.Program) -> None:
        for statement in flatten(statements):
            for operand in operands(statement):
                self.reads.update(expr_fields(operand))
            written = written_field(statement)
            if written is not None:
                self.writes.add(written)
            match statement:
                case ir.SetValid(header) | ir.SetInvalid(header, _):
                    self.touched.add(header)
                case ir.AssignHeader(target, source):
                    self.touched.add(target)
                    self.copies.add((target, source))
                case ir.MarkToDrop():
                    self.drops = True
                    self.writes.update([(STANDARD, "egress_spec"), (STANDARD, "mcast_grp")])
                case ir.Truncate():
                    self.truncates = True
                case ir.Hash(_, _, calculation, _):
                    self.calculation(program.calculations[calculation])

    def calculation(self, calculation: ir.Calculation) -> None:
        for chunk in calculation.chunks:
            self.reads.update(expr_fields(chunk.value))
            if chunk.length is not None:
                self.reads.update(expr_fields(chunk.length))

    def pipeline(self, pipeline: ir.Pipeline, program: ir.Program) -> None:
        by_index = {action.index: action for action in program.actions}
        for node in pipeline.nodes.values():
            if isinstance(node, ir.Conditional):
                self.reads.update(expr_fields(node.condition))
                continue
            for key in node.keys:
                self.reads.update(expr_fields(key.target))
            if node.selector is not None:
                self.calculation(program.calculations[node.selector])
            if node.meter_target is not None:
                self.writes.add((node.meter_target.header, node.meter_target.field))
            for index in node.actions:
                self.statements(by_index[index].body, program)

    def parser(self, program: ir.Program) -> None:
        for state in program.parser.states.values():
            for part in state.key:
                self.reads.update(expr_fields(part))
            for op in parser_ops(state.ops):
                self._parser_op(op, program)

    def _parser_op(self, op: ir.ParserOp, program: ir.Program) -> None:
        match op:
            case ir.Advance(bits):
                self.reads.update(expr_fields(bits))
            case ir.Verify(condition, error):
                self.reads.update(expr_fields(condition))
                self.reads.update(expr_fields(error))
            case ir.ExtractVarbit(_, value, length, bits):
                self.reads.update(expr_fields(bits))
                self.writes.update([(value.header, value.field), (length.header, length.field)])
            case ir.Choose(index):
                self.reads.update(expr_fields(index))
            case ir.Extract():
                pass
            case _:
                self.statements([op], program)

    def checksums(self, program: ir.Program, *, update: bool) -> None:
        for checksum in program.checksums:
            if not (checksum.update if update else checksum.verify):
                continue
            self.reads.update(expr_fields(checksum.condition))
            self.calculation(program.calculations[checksum.calculation])
            target = (checksum.target.header, checksum.target.field)
            if update:
                self.writes.add(target)
            else:
                self.reads.add(target)


@dataclass(frozen=True)
class Usage:
    """The fields and headers that a whole program reads and writes.

    ``read``: fields whose value the program uses. ``written``: fields that it assigns. ``changed``: headers that a
    statement may change. ``extracted``: headers that the parser extracts. ``late`` and ``late_headers``: fields and
    headers that egress or the checksum update may change. ``copies``: (target, source) of header assignments.
    ``egress_reads``: fields that egress or the checksum update reads. ``truncates``: whether a statement is a truncate.
    """

    read: frozenset[FieldKey]
    written: frozenset[FieldKey]
    changed: frozenset[str]
    extracted: frozenset[str]
    late: frozenset[FieldKey]
    late_headers: frozenset[str]
    copies: frozenset[tuple[str, str]]
    egress_reads: frozenset[FieldKey]
    truncates: bool


def analyse(program: ir.Program) -> Usage:
    """Collect what all parts of ``program`` read and write."""
    early, late = Effects.none(), Effects.none()
    early.parser(program)
    early.checksums(program, update=False)
    early.pipeline(program.ingress, program)
    if program.digest_request is not None:
        learned = [value for digest in program.digests.values() for value in digest.values]
        for value in (program.digest_request, *learned):
            early.reads.update(expr_fields(value))
    late.pipeline(program.egress, program)
    late.checksums(program, update=True)
    if program.passes is not None:
        kept = [*program.passes.requests, *(each for fields in program.passes.lists.values() for each in fields)]
        late.reads.update((each.header, each.field) for each in kept)
    written = early.writes | late.writes
    changed = {header for header, _ in written} | early.touched | late.touched
    for varbit in program.varbits.values():
        late.reads.update([*expr_fields(varbit.value), *expr_fields(varbit.length)])
    extracted = {
        header
        for state in program.parser.states.values()
        for op in parser_ops(state.ops)
        for header in extracted_headers(op)
    }
    return Usage(
        read=frozenset(early.reads | late.reads),
        written=frozenset(written),
        changed=frozenset(h for h in changed if not program.headers[h].metadata),
        extracted=frozenset(extracted),
        late=frozenset(late.writes),
        late_headers=frozenset({h for h, _ in late.writes} | late.touched),
        copies=frozenset(early.copies | late.copies),
        egress_reads=frozenset(late.reads),
        truncates=early.truncates or late.truncates,
    )


HASH_WIDTHS = {"csum16": 16, "xor16": 16, "crc16": 16, "crc32": 32, "identity": 64}


def runs_of(calculation: ir.Calculation, program: ir.Program) -> list[tuple[str, list[ir.Chunk]]]:
    """Group consecutive chunks of one header, with its name. Metadata and constants have the name ''."""

    def header(chunk: ir.Chunk) -> str:
        value = chunk.value
        if chunk.owner:
            return chunk.owner
        return "" if isinstance(value, ir.Const) or program.headers[value.header].metadata else value.header

    return [(name, list(chunks)) for name, chunks in groupby(calculation.chunks, header)]


def is_word_aligned(calculation: ir.Calculation, program: ir.Program) -> bool:
    """Return True if every chunk stays aligned to 16-bit words, whichever headers are valid."""
    if calculation.payload or any(chunk.length is not None for chunk in calculation.chunks):
        return False
    runs = runs_of(calculation, program)
    widths = [sum(chunk.width for chunk in chunks) for _, chunks in runs]
    return all(width % 16 == 0 for width in widths[:-1]) and sum(widths) % 8 == 0
