# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Emits statements as lines of Python, with checksums, hashes and specialised actions.

Actions are inlined. A specialised action is a function written for one entry, with its action data as constants: an
entry carries one if its action data is wide and its action only computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from softswitch.errors import UnsupportedProgramError
from softswitch.program import ir
from softswitch.program.analysis import HASH_WIDTHS, is_word_aligned, runs_of
from softswitch.program.emitted_text import literal
from softswitch.program.limits import LOOP_BLOCKS, CodeBudget
from softswitch.program.standard import HIDDEN, PACKET_LENGTH, STANDARD
from softswitch.program.traverse import FieldKey, expr_fields, flatten, operands, valid_headers, written_field
from softswitch.python.emit_code import HeaderLayout, PyContext, PyStorage, UnitKind, Writer, bare
from softswitch.python.emit_expr import PyExprEmitter
from softswitch.python.values import PyValue, constant, wrap
from softswitch.runtime.impair import LIMB_BITS

# Python refuses to read more than 200 parentheses within each other.
_NESTED_MOST: Final = 64


def hash_value(
    calculation: ir.Calculation, storage: PyStorage, program: ir.Program, out: Writer, valid: str | None = None
) -> PyValue:
    """Return the hash over ``calculation``'s input. May write lines to ``out`` that prepare it.

    ``valid``: a header known to be valid here. The fields of any other header count only if it is valid at run time.
    """
    if calculation.algorithm == "csum16" and is_word_aligned(calculation, program):
        return _checksum(calculation, storage, program, valid)
    _join(calculation, storage, program, out, valid)
    return PyValue(
        f"hash_{calculation.algorithm}(joined, joined_bits)", 0, (1 << HASH_WIDTHS[calculation.algorithm]) - 1
    )


# ---------------------------------------------------------------- the internet checksum, without joining


def _checksum(calculation: ir.Calculation, storage: PyStorage, program: ir.Program, valid: str | None) -> PyValue:
    """The internet checksum (RFC 1071), from sums of chunks: the ones' complement sum is a sum modulo 65535."""
    total = sum(chunk.width for chunk in calculation.chunks)
    end = -(-total // 16) * 16
    sums: list[str] = []
    for header, chunks in runs_of(calculation, program):
        terms: list[str] = []
        for chunk in chunks:
            end -= chunk.width
            term = _chunk(chunk, storage)
            if term != "0":
                terms.append(f"({term} << {end % 16})" if end % 16 else term)
        text = " + ".join(terms) or "0"
        guarded = header and header != valid
        sums.append(f"(({text}) if {storage.valid(header)} else 0)" if guarded else text)
    return PyValue(f"(checksum_of({' + '.join(sums)}))", 0, 0xFFFF)


def _chunk(chunk: ir.Chunk, storage: PyStorage) -> str:
    if isinstance(chunk.value, ir.Const):
        return constant(chunk.value.value & ((1 << chunk.width) - 1)).text
    local = storage.fields[chunk.value.header, chunk.value.field]
    return f"({local} & {(1 << chunk.width) - 1:#x})" if chunk.value.signed else local


# ---------------------------------------------------------------- hashes over joined bits


def _join(calculation: ir.Calculation, storage: PyStorage, program: ir.Program, out: Writer, valid: str | None) -> None:
    out.line("joined = joined_bits = 0")
    for header, chunks in runs_of(calculation, program):
        width = sum(chunk.width for chunk in chunks)
        text = "joined"
        lengths = str(width)
        lines = []
        for number, chunk in enumerate(chunks, 1):
            shift = str(chunk.width)
            if chunk.length is not None:
                shift = storage.fields[chunk.length.header, chunk.length.field]
                lengths = f"{lengths} - {chunk.width} + {shift}"
            text = f"({text} << {shift} | {_chunk(chunk, storage)})"
            if number % _NESTED_MOST == 0:
                lines.append(f"joined = {text}")
                text = "joined"
        lines += [f"joined = {text}", f"joined_bits += {lengths}"]
        if header and header != valid:
            with out.block(f"if {storage.valid(header)}:"):
                out.extend(lines)
        else:
            out.extend(lines)
    if calculation.payload:
        out.line("joined = joined << -joined_bits % 8 << 8 * (size - payload) | from_bytes(frame[payload:])")
        out.line("joined_bits += -joined_bits % 8 + 8 * (size - payload)")


class PyStatementEmitter:
    """Writes statements to ``out``. ``params`` are the values of the enclosing action's parameters."""

    def __init__(self, context: PyContext, out: Writer, expressions: PyExprEmitter) -> None:
        self._context = context
        self._out = out
        self._expressions = expressions

    def action(self, action: ir.Action, params: Sequence[PyValue]) -> None:
        """Write the body of one action; ``exit`` becomes ``break``."""
        self._expressions.params = list(params)
        self.body(action.body, set(), action.source, tail=True)
        self._expressions.params = []

    def body(self, statements: Sequence[ir.Statement], changed: set[str], source: ir.Source, *, tail: bool) -> None:
        """Write statements. ``changed``: headers marked as changed so far. ``tail``: the action ends after them."""
        for number, statement in enumerate(statements):
            last = tail and number == len(statements) - 1
            match statement:
                case ir.If(condition, then, otherwise):
                    test = self._expressions.boolean(condition)
                    if statement.source is not ir.UNKNOWN_SOURCE:
                        test = self._out.watched(test, "", statement.source)
                    with self._out.block(f"if {bare(test)}:"):
                        self.body(then, set(changed), source, tail=last)
                    if otherwise:
                        with self._out.block("else:"):
                            self.body(otherwise, set(changed), source, tail=last)
                case ir.Loop(blocks):
                    self._loop(blocks, source)
                    changed.clear()
                case ir.Exit():
                    if not last:
                        raise UnsupportedProgramError(
                            "statements after exit are not supported by the Python engine", str(source)
                        )
                    self._out.trace("exit()")
                    self._out.line("break")
                case _:
                    self._simple(statement, changed)

    def _loop(self, blocks: tuple[ir.Block, ...], source: ir.Source) -> None:
        self._out.line("block = 0")
        with self._out.block(f"for _ in range({LOOP_BLOCKS}):"):
            for number, block in enumerate(blocks):
                with self._out.block(f"{'elif' if number else 'if'} block == {number}:"):
                    self.body(block.statements, set(), source, tail=False)
                    if block.condition is None or block.then == block.otherwise:
                        self._out.line("break" if block.then is None else f"block = {block.then}")
                        continue
                    test = self._out.watched(self._expressions.boolean(block.condition), "", source)
                    with self._out.block(f"if {bare(test)}:"):
                        self._out.line("break" if block.then is None else f"block = {block.then}")
                    with self._out.block("else:"):
                        self._out.line("break" if block.otherwise is None else f"block = {block.otherwise}")

    # -- single statements -----------------------------------------------

    def _simple(self, statement: ir.Statement, changed: set[str]) -> None:  # noqa: PLR0912 - one case per statement
        match statement:
            case ir.Assign(target, value):
                self.store(target, self._expressions.data(value), changed)
            case ir.AssignHeader(target, source):
                self._copy_header(target, source, changed)
            case ir.SetValid(header):
                self._set_valid(header, changed)
            case ir.SetInvalid(header, counted):
                self._set_invalid(header, counted=counted)
            case ir.RegisterRead(target, register, index):
                self._register_read(target, register, index, changed)
            case ir.RegisterWrite(register, index, value):
                self._register_write(register, index, value)
            case ir.Count(counter, index):
                self._count(counter, index)
            case ir.ExecuteMeter(target, meter, index):
                self._meter(target, meter, index, changed)
            case ir.MarkToDrop():
                self._out.trace(f"mark_to_drop({literal(str(statement.source))})")
                self._mark_to_drop()
            case ir.Truncate(length):
                self._out.line(f"limit = min(limit, {bare(self._expressions.data(length).text)})")
                self._out.trace("truncate(limit)")
            case ir.Random(target, low, high):
                self._random(target, low, high, changed)
            case ir.Hash(target, base, calculation, modulus):
                self._hash(target, base, calculation, modulus, changed)
            case ir.LogMessage(text, values):
                texts = "".join(self._expressions.data(value).text + ", " for value in values)
                self._out.line(f"log_message({literal(text)}, ({texts}))")
                self._out.trace(f"message({literal(text)}, ({texts}))")

    def store(self, target: ir.FieldRef, value: PyValue, changed: set[str]) -> None:
        """Write ``target = value``, wrapped. Writes nothing for a field that the program never reads."""
        local = self._context.storage.fields.get((target.header, target.field))
        text = wrap(value, target.width, signed=target.signed)
        self._told(target, bare(text))
        if local is None:
            return
        if text != local:
            self._out.line(f"{local} = {bare(text)}")
        self._mark(target.header, changed)

    def _told(self, target: ir.FieldRef, value: str) -> None:
        """Tell an assignment, unless the field is the loader's own."""
        if target.header != HIDDEN:
            self._out.trace(f"assign({_named(target)}, {value})")

    def _mark(self, header: str, changed: set[str]) -> None:
        if header in changed or not self._context.keeps_position(header):
            return
        changed.add(header)
        self._out.line(f"{self._context.storage.layouts[header].position} = -1")

    def _layout(self, header: str) -> HeaderLayout:
        return self._context.storage.layouts[header]

    def _copy_header(self, target: str, source: str, changed: set[str]) -> None:
        destination, origin = self._layout(target), self._layout(source)
        self._out.trace(f"copy_header({literal(target)}, {literal(source)}, {origin.valid})")
        with self._out.block(f"if {origin.valid}:"):
            self._out.line(f"{destination.valid} = 1")
            for member in self._context.program.headers[target].fields:
                ours = self._context.storage.fields.get((target, member.name))
                theirs = self._context.storage.fields.get((source, member.name))
                if ours is not None and theirs is not None:
                    self._out.line(f"{ours} = {theirs}")
            self._mark(target, set(changed))
        with self._out.block("else:"):
            self._out.line(f"{destination.valid} = 0")

    def _set_valid(self, header: str, changed: set[str]) -> None:
        layout = self._layout(header)
        self._out.trace(f"validity({literal(header)}, True)")
        with self._out.block(f"if not {layout.valid}:"):
            self._out.line(f"{layout.valid} = 1")
            clear_fields(self._out, layout)
            if self._context.track_length:
                self._out.line(f"{PACKET_LENGTH} += {layout.header.size_bytes}")
            self._mark(header, set(changed))

    def _set_invalid(self, header: str, *, counted: bool) -> None:
        layout = self._layout(header)
        self._out.trace(f"validity({literal(header)}, False)")
        if self._context.track_length and counted:
            with self._out.block(f"if {layout.valid}:"):
                self._out.line(f"{PACKET_LENGTH} -= {layout.header.size_bytes}")
        self._out.line(f"{layout.valid} = 0")

    # -- stateful objects ------------------------------------------------

    def _index(self, index: PyValue, size: int) -> tuple[str, str]:
        """Index text, and an ``if`` line that checks it against ``size`` (empty if it is always inside)."""
        if index.low >= 0 and index.high < size:
            return index.text, ""
        text = index.text
        return text, f"if {text} < {size}:" if index.low >= 0 else f"if 0 <= {text} < {size}:"

    def _guarded(self, guard: str, lines: list[str]) -> None:
        if guard:
            with self._out.block(guard):
                self._out.extend(lines)
        else:
            self._out.extend(lines)

    def _register_read(self, target: ir.FieldRef, register: str, index: ir.Expr, changed: set[str]) -> None:
        local = self._context.storage.fields.get((target.header, target.field))
        if local is None and not self._out.traces:
            return
        declared = self._context.program.registers[register]
        where, guard = self._index(self._expressions.data(index), declared.size)
        self._out.trace(f"register('read', {literal(register)}, {self._context.names.registers[register]}, {where})")
        if local is None:
            return
        cell = f"{self._context.names.registers[register]}[{bare(where)}]"
        low = -(1 << (declared.width - 1)) if declared.signed else 0
        value = PyValue(cell, low, (1 << declared.width) - 1)
        self._guarded(guard, [f"{local} = {bare(wrap(value, target.width, signed=target.signed))}"])
        self._mark(target.header, changed)

    def _register_write(self, register: str, index: ir.Expr, value: ir.Expr) -> None:
        declared = self._context.program.registers[register]
        where, guard = self._index(self._expressions.data(index), declared.size)
        text = wrap(self._expressions.data(value), declared.width, signed=declared.signed)
        cells = self._context.names.registers[register]
        self._guarded(guard, [f"{cells}[{bare(where)}] = {bare(text)}"])
        self._out.trace(f"register('write', {literal(register)}, {cells}, {where})")

    def _count(self, counter: str, index: ir.Expr) -> None:
        declared = self._context.program.counters[counter]
        where, guard = self._index(self._expressions.data(index), declared.size)
        self._out.trace(f"count({literal(counter)}, {where})")
        lines = ["cell[0] += 1", "cell[1] += size"]
        self._guarded(guard, [f"cell = {self._context.names.counters[counter]}[{bare(where)}]", *lines])

    def _meter(self, target: ir.FieldRef, meter: str, index: ir.Expr, changed: set[str]) -> None:
        where, guard = self._index(self._expressions.data(index), self._context.program.meters[meter].size)
        local = self._context.storage.fields.get((target.header, target.field), "unused")
        colour = PyValue(f"{self._context.names.meters[meter]}({bare(where)}, size, now())", 0, 2)
        # Executed even if the target is never read: it takes tokens.
        told = self._out.traced(f"meter({literal(meter)}, {where}, {_named(target)}, {local})")
        self._guarded(guard, [f"{local} = {bare(wrap(colour, target.width, signed=target.signed))}", *told])
        self._mark(target.header, changed)

    def _mark_to_drop(self) -> None:
        fields = self._context.storage.fields
        self._out.line(f"{fields[STANDARD, 'egress_spec']} = {self._context.program.drop_port}")
        if (STANDARD, "mcast_grp") in fields:
            self._out.line(f"{fields[STANDARD, 'mcast_grp']} = 0")

    # -- random and hash -------------------------------------------------

    def _random(self, target: ir.FieldRef, low: ir.Expr, high: ir.Expr, changed: set[str]) -> None:
        bottom, top = self._expressions.data(low), self._expressions.data(high)
        with self._out.block(f"if {bottom.text} <= {top.text}:"):
            limbs = max(1, -(-target.width // LIMB_BITS))
            drawn = PyValue(f"random_integer({bare(bottom.text)}, {bare(top.text)}, {limbs})", bottom.low, top.high)
            local = self._context.storage.fields.get((target.header, target.field))
            # Drawn even if the target is never read: the sequence must not depend on what is read.
            self._out.line(f"{local or 'unused'} = {bare(wrap(drawn, target.width, signed=target.signed))}")
            self._out.trace(f"random({_named(target)}, {local or 'unused'})")
            self._mark(target.header, set(changed))

    def _hash(self, target: ir.FieldRef, base: ir.Expr, calculation: str, modulus: ir.Expr, changed: set[str]) -> None:
        described = self._context.program.calculations[calculation]
        digest = hash_value(described, self._context.storage, self._context.program, self._out)
        self._out.trace(f"hash({literal(calculation)}, {literal(described.algorithm)}, {digest.text})")
        divisor, start = self._expressions.data(modulus), self._expressions.data(base)
        text = digest.text
        if divisor.constant is None:
            text = f"{text} % ({divisor.text} or 1)"
            digest = PyValue(text, 0, digest.high)
        elif digest.high >= max(divisor.constant, 1):
            text = f"{text} % {max(divisor.constant, 1)}"
            digest = PyValue(text, 0, max(divisor.constant, 1) - 1)
        total = PyValue(f"({text} + {start.text})", start.low, digest.high + start.high)
        self.store(target, digest if start.constant == 0 else total, changed)


def _named(target: ir.FieldRef) -> str:
    """The first two arguments of the recorder's calls that tell a field's new value."""
    return f"{literal(target.header)}, {literal(target.field)}"


def clear_fields(out: Writer, layout: HeaderLayout) -> None:
    """Write that all fields of ``layout``'s header become 0."""
    out.zero(unit.local for unit in layout.units if unit.kind is UnitKind.INTEGER)
    for unit in layout.units:
        if unit.kind is UnitKind.BYTES:
            out.line(f"{unit.local} = bytes({unit.width // 8})")


SPECIALISE_WIDTH = 64


def is_specialised(action: ir.Action) -> bool:
    """Return True if entries carry a function for this action: wide action data, and only assignments and ifs."""
    wide = any(parameter.width > SPECIALISE_WIDTH for parameter in action.parameters)
    return wide and all(isinstance(s, ir.Assign | ir.If) for s in flatten(action.body))


def kept_by_entries(program: ir.Program) -> set[FieldKey]:
    """Return the fields that a specialised function may return unchanged: its arguments, even if nothing else reads
    them."""
    kept: set[FieldKey] = set()
    for action in program.actions:
        statements = list(flatten(action.body))
        if is_specialised(action) and any(isinstance(statement, ir.If) for statement in statements):
            kept.update(key for statement in statements if (key := written_field(statement)) is not None)
    return kept


def _interface(context: PyContext, action: ir.Action) -> tuple[list[str], list[str], list[str]]:
    """The locals that the action reads, the locals that it writes, and the headers that it changes."""
    fields = context.storage.fields
    reads: list[str] = []
    writes: list[str] = []
    headers: list[str] = []
    conditional = False
    for statement in flatten(action.body):
        conditional = conditional or isinstance(statement, ir.If)
        for operand in operands(statement):
            reads += [fields[key] for key in expr_fields(operand)]
            reads += [context.storage.valid(header) for header in valid_headers(operand)]
        written = written_field(statement)
        if written is not None and written in fields:
            writes.append(fields[written])
            headers.append(written[0])
    if conditional:
        reads += writes
    return list(dict.fromkeys(reads)), list(dict.fromkeys(writes)), list(dict.fromkeys(headers))


def call_specialised(context: PyContext, action: ir.Action, out: Writer) -> None:
    """Write the call of the entry's function."""
    reads, writes, headers = _interface(context, action)
    if not writes:
        return
    targets = ", ".join(writes)
    out.line(f"{targets} = entry[2]({', '.join(reads)})")
    for header in headers:
        if context.keeps_position(header):
            out.line(f"{context.storage.layouts[header].position} = -1")


def specialised_source(context: PyContext, action: ir.Action, args: Sequence[int]) -> str:
    """Return the source of a function ``specialised`` that computes ``action`` with ``args`` as constants."""
    reads, writes, headers = _interface(context, action)
    budget = CodeBudget()
    out = Writer(budget)
    with out.block(f"def specialised({', '.join(reads)}):"):
        expressions = PyExprEmitter(context, budget=budget)
        expressions.params = [constant(value) for value in args]
        statements = PyStatementEmitter(context, out, expressions)
        statements.body(action.body, set(headers), action.source, tail=True)
        out.line(f"return {', '.join(writes) or 'None'}")
    return out.text()
