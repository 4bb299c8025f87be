# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Emits the parser and the deparser as Python.

Every path through the parser's states is written out, so that offsets are constants. Headers that egress cannot change
are packed once for all replicas.
"""

from __future__ import annotations

from dataclasses import dataclass

from softswitch.errors import ProgramTooLargeError, placed
from softswitch.program import ir
from softswitch.program.emitted_text import literal
from softswitch.program.limits import PARSER_STEPS, full
from softswitch.program.standard import STANDARD, STANDARD_WIDTHS
from softswitch.program.traverse import FieldKey, has_loop, lookaheads
from softswitch.python.emit_code import (
    PyContext,
    UnitKind,
    Writer,
    group_width,
    pack_arguments,
    struct_codes,
    unpack_targets,
)
from softswitch.python.emit_expr import PyExprEmitter
from softswitch.python.emit_stmt import PyStatementEmitter
from softswitch.python.values import PyValue, wrap

MAX_STATES = 2000


@dataclass(frozen=True)
class Position:
    """An offset in bytes from the start of the frame.

    It is a constant; after an advance by a computed number, a constant plus the variable ``base``.
    """

    offset: int = 0
    base: str = ""

    def text(self, more: int = 0) -> str:
        return f"{self.base} + {self.offset + more}" if self.base else str(self.offset + more)

    def plus(self, more: int) -> Position:
        return Position(self.offset + more, self.base)


class ParserEmitter:
    """Writes the parser as a loop that runs once.

    ``break`` leaves it, with ``payload`` set to the number of bytes consumed.
    """

    def __init__(self, context: PyContext, out: Writer) -> None:
        self._context = context
        self._out = out
        self._at = Position()
        self._expressions = PyExprEmitter(context, self._peek)
        self._statements = PyStatementEmitter(context, out, self._expressions)
        self._written = 0
        self._numbers: dict[str, int] = {}  # of states, in a parser with loops

    def emit(self) -> dict[str, str]:
        """Write the parser; return ``struct`` formats by header name, for headers that the code unpacks."""
        parser = self._context.program.parser
        if has_loop(parser):
            self._loop(parser)
        else:
            with self._out.block("while True:"):
                self._state(parser.start, Position())
        return {
            header: ">" + "".join(struct_codes(group) for group in self._context.storage.layouts[header].groups)
            for header in sorted(self._context.usage.extracted)
        }

    def _loop(self, parser: ir.Parser) -> None:
        """One round of the loop is one state, which starts at byte ``base``."""
        self._numbers = {name: number for number, name in enumerate(parser.states)}
        self._out.line(f"state = {self._numbers[parser.start]}")
        self._out.line("base = 0")
        self._out.line(f"steps = {PARSER_STEPS}")
        with self._out.block("while True:"):
            self._out.line("steps -= 1")
            with self._out.block("if steps < 0:"):
                self._leave(Position(0, "base"), str(self._context.program.errors["ParserTimeout"]))
            for number, state in enumerate(parser.states.values()):
                with self._out.block(f"{'elif' if number else 'if'} state == {number}:"), placed(_place(state)):
                    self._enter(state)
                    at = Position(0, "base")
                    for op in state.ops:
                        at = self._op(op, at)
                    self._transition(state, at)

    def _state(self, name: str | None, at: Position) -> None:
        if name is None:
            self._leave(at)
            return
        if self._numbers:
            self._out.line(f"base = {at.text()}")
            self._out.line(f"state = {self._numbers[name]}")
            self._out.line("continue")
            return
        self._written += 1
        if self._written > MAX_STATES:
            raise ProgramTooLargeError(
                f"more than {MAX_STATES} paths through the parser; use the native engine", f"parser state {name!r}"
            )
        state = self._context.program.parser.states[name]
        self._enter(state)
        with placed(_place(state)):
            for op in state.ops:
                at = self._op(op, at)
            self._transition(state, at)

    def _enter(self, state: ir.ParserState) -> None:
        self._out.comment(f"state {state.name}")
        self._out.trace(f"state({literal(state.name)})")

    def _leave(self, at: Position, error: str | None = None) -> None:
        self._out.trace(f"parsed({at.text()}, {error})")
        local = self._context.storage.fields.get((STANDARD, "parser_error"))
        if error is not None and local is not None:
            self._out.line(f"{local} = {error}")
        self._out.line(f"payload = {at.text()}")
        self._out.line("break")

    def _need(self, at: Position, size_bytes: int) -> None:
        if size_bytes == 0:
            return
        with self._out.block(f"if size < {at.text(size_bytes)}:"):
            self._leave(at, str(self._context.program.errors["PacketTooShort"]))

    # -- operations ------------------------------------------------------

    def _op(self, op: ir.ParserOp, at: Position) -> Position:
        self._at = at
        match op:
            case ir.Extract(header):
                self._need(at, self._context.storage.layouts[header].header.size_bytes)
                return self._extract(header, at)
            case ir.ExtractVarbit():
                return self._extract_varbit(op, at)
            case ir.Choose(index, branches):
                return self._choose(index, branches, at)
            case ir.Advance(bits):
                return self._advance(bits, at)
            case ir.Verify(condition, error):
                self._need_lookahead(condition, at)
                with self._out.block(f"if not {self._expressions.boolean(condition)}:"):
                    code = wrap(self._expressions.data(error), STANDARD_WIDTHS["parser_error"], signed=False)
                    self._leave(at, code)
            case ir.Assign(_, value):
                self._need_lookahead(value, at)
                self._statements.body([op], set(), ir.Source(), tail=False)
            case _:
                self._statements.body([op], set(), ir.Source(), tail=False)
        return at

    def _extract(self, header: str, at: Position) -> Position:
        layout = self._context.storage.layouts[header]
        targets: list[str] = []
        statements: list[str] = []
        for index, group in enumerate(layout.groups):
            names, lines = unpack_targets(group, index)
            targets += names
            statements += lines
        if targets:
            self._out.line(
                f"{', '.join(targets)}{',' if len(targets) == 1 else ''} = unpack_{layout.valid}(frame, {at.text()})"
            )
            self._out.extend(statements)
        self._out.line(f"{layout.valid} = 1")
        if self._context.keeps_position(header):
            self._out.line(f"{layout.position} = {at.text()}")
        self._out.trace(f"extract({literal(header)}, frame, {at.text()})")
        return at.plus(layout.header.size_bytes)

    def _extract_varbit(self, op: ir.ExtractVarbit, at: Position) -> Position:
        headers, errors = self._context.program.headers, self._context.program.errors
        self._need_lookahead(op.bits, at)
        length = self._expressions.data(op.bits)
        fixed = headers[op.header].size_bytes + (headers[op.rest].size_bytes if op.rest else 0)
        self._out.line(f"step = {length.text}")
        with self._out.block("if step & 7:"):
            self._leave(at, str(errors.get("ParserInvalidArgument", 0)))
        with self._out.block(f"if size < {at.text(fixed)} + (step >> 3):"):
            self._leave(at, str(errors["PacketTooShort"]))
        with self._out.block(f"if step > {8 * (op.most_bytes - fixed)}:"):
            self._leave(at, str(errors["HeaderTooShort"]))
        behind = self._extract(op.header, at)
        end = f"{behind.text()} + (step >> 3)"
        value = PyValue(f"from_bytes(frame[{behind.text()}:{end}])", 0, full(op.value.width))
        self._statements.store(op.value, value, set())
        self._statements.store(op.length, PyValue("step", 0, op.value.width), set())
        self._out.trace(f"extract_varbit({literal(op.header)}, frame[{behind.text()}:{end}])")
        self._out.line(f"base = {end}")
        at = Position(0, "base")
        return self._extract(op.rest, at) if op.rest else at

    def _choose(self, index: ir.FieldRef, branches: tuple[tuple[ir.ParserOp, ...], ...], at: Position) -> Position:
        local = self._context.storage.fields[index.header, index.field]
        after = at
        for number, branch in enumerate(branches):
            with self._out.block(f"{'elif' if number else 'if'} {local} == {number}:"):
                after = at
                for op in branch:
                    after = self._op(op, after)
        with self._out.block("else:"):
            self._leave(at, str(self._context.program.errors["StackOutOfBounds"]))
        return after  # the same for all branches: they extract headers of one type

    def _advance(self, bits: ir.Expr, at: Position) -> Position:
        amount = self._expressions.data(bits)
        invalid = str(self._context.program.errors.get("ParserInvalidArgument", 0))
        if amount.constant is not None:
            if amount.constant % 8:
                self._leave(at, invalid)
                return at
            self._need(at, amount.constant // 8)
            return at.plus(amount.constant // 8)
        self._out.line(f"step = {amount.text}")
        with self._out.block("if step & 7:"):
            self._leave(at, invalid)
        with self._out.block(f"if size < {at.text()} + (step >> 3):"):
            self._leave(at, str(self._context.program.errors["PacketTooShort"]))
        self._out.line(f"base = {at.text()} + (step >> 3)")
        return Position(0, "base")

    # -- lookahead and select --------------------------------------------

    def _need_lookahead(self, expr: ir.Expr, at: Position) -> None:
        bits = max((peek.offset + peek.width for peek in lookaheads(expr)), default=0)
        self._need(at, -(-bits // 8))

    def _peek(self, peek: ir.Lookahead) -> str:
        first, last = peek.offset // 8, -(-(peek.offset + peek.width) // 8)
        start, end = self._at.text(first), self._at.text(last)
        text = f"from_bytes(frame[{start}:{end}])"
        shift = 8 * last - peek.offset - peek.width
        if shift:
            text = f"({text} >> {shift})"
        if 8 * (last - first) - shift > peek.width:
            text = f"({text} & {(1 << peek.width) - 1:#x})"
        return text

    def _transition(self, state: ir.ParserState, at: Position) -> None:
        self._at = at
        names: list[str] = []
        for index, part in enumerate(state.key):
            self._need_lookahead(part, at)
            text = self._expressions.data(part).text
            if isinstance(part, ir.FieldRef) and part.signed:
                text = f"({text} & {(1 << part.width) - 1:#x})"  # cases are written as bits
            if isinstance(part, ir.Lookahead):
                self._out.line(f"key{index} = {text}")
                text = f"key{index}"
            names.append(text)
        if names:
            self._out.trace(f"select({literal(state.name)}, ({', '.join(names)},))")
        for case in state.cases:
            condition = self._condition(case, names, state.key)
            if not condition:
                self._state(case.next_state, at)
                return
            with self._out.block(f"if {condition}:"):
                self._state(case.next_state, at)
        self._state(state.default, at)

    def _condition(self, case: ir.Case, names: list[str], key: tuple[ir.Expr, ...]) -> str:
        if case.value_set is not None:
            return f"({', '.join(names)},) in {self._context.names.value_sets[case.value_set]}"
        parts = []
        for name, part, value, mask in zip(names, key, case.values, case.masks, strict=True):
            width = part.width if isinstance(part, ir.FieldRef | ir.Lookahead) else 1
            if mask == (1 << width) - 1:
                parts.append(f"{name} == {value:#x}")
            elif mask:
                parts.append(f"{name} & {mask:#x} == {value:#x}")
        return " and ".join(parts)


def _place(state: ir.ParserState) -> str:
    return f"parser state {state.name!r}"


class DeparserEmitter:
    def __init__(self, context: PyContext, out: Writer) -> None:
        self._context = context
        self._out = out
        usage = context.usage
        self._order = [name for name in context.program.deparser if name in usage.extracted or name in usage.changed]
        self._formats: dict[str, str] = {}
        self._pieces: list[str] = []

    def formats(self) -> dict[str, str]:
        """Return ``struct`` formats by name, for headers that may be packed from fields."""
        return self._formats

    def before_replicas(self) -> None:
        """Write the parts that are the same for all replicas, and record the pieces of a frame."""
        run: list[str] = []
        count = 0

        def flush() -> None:
            nonlocal count
            if not run:
                return
            text = run[0] if len(run) == 1 else f"join_bytes(({', '.join(run)}))"
            self._out.line(f"part{count} = {text}")
            self._pieces.append(f"part{count}")
            count += 1
            run.clear()

        for header in self._order:
            if header in self._context.usage.late_headers:
                flush()
                self._pieces.append(self._bytes(header))
            else:
                run.append(self._bytes(header))
            varbit = self._context.program.varbits.get(header)
            if varbit is None:
                continue
            if header in self._context.usage.late_headers or _key(varbit.length) in self._context.usage.late:
                flush()
                self._pieces.append(self._varbit(header, varbit))
            else:
                run.append(self._varbit(header, varbit))
        run.append("frame[payload:]")
        flush()

    def per_replica(self) -> str:
        """Return Python text of the frame that leaves."""
        return self._pieces[0] if len(self._pieces) == 1 else f"join_bytes(({', '.join(self._pieces)}))"

    def traced(self, data: str) -> str:
        """The recorder's call for a frame that leaves: headers, whether they are in it, bits of their varbit field."""
        storage, parts = self._context.storage, []
        for header in self._order:
            varbit = self._context.program.varbits.get(header)
            bits = "0" if varbit is None else storage.fields[_key(varbit.length)]
            parts.append(f"({literal(header)}, {storage.valid(header)}, {bits}), ")
        return f"deparse(({''.join(parts)}), {data})"

    def _bytes(self, header: str) -> str:
        layout = self._context.storage.layouts[header]
        end = f"{layout.position} + {layout.header.size_bytes}"
        kept = f"frame[{layout.position}:{end}]"
        if header not in self._context.usage.changed:
            text = kept
        elif header in self._context.usage.extracted:
            text = f"{kept} if {layout.position} >= 0 else {self._packed(header)}"
        else:
            text = self._packed(header)
        return f"(({text}) if {layout.valid} else b'')"

    def _varbit(self, header: str, varbit: ir.Varbit) -> str:
        storage = self._context.storage
        value, length = storage.fields[_key(varbit.value)], storage.fields[_key(varbit.length)]
        return f"({value}.to_bytes({length} >> 3) if {storage.valid(header)} else b'')"

    def _packed(self, header: str) -> str:
        layout = self._context.storage.layouts[header]
        if len(layout.groups) == 1 and group_width(layout.groups[0]) > 64 and len(layout.groups[0]) == 1:
            unit = layout.groups[0][0]
            if unit.kind is UnitKind.INTEGER and not unit.signed:
                return f"{unit.local}.to_bytes({unit.width // 8})"
        self._formats[header] = ">" + "".join(struct_codes(group) for group in layout.groups)
        arguments = [text for group in layout.groups for text in pack_arguments(group)]
        return f"pack_{layout.valid}({', '.join(arguments)})"


def _key(field: ir.FieldRef) -> FieldKey:
    return field.header, field.field
