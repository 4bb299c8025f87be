# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Emits the parser, which converts a frame's bits to fields, and the deparser, which converts headers to bytes.

A state of the parser is a function that calls the next one. It gets its position in the frame, in bytes, and keeps it
in constants ``at0``, ``at1``, ... Reads are checked against the frame's length first. The deparser writes directly into
the outgoing frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from softswitch.errors import UnsupportedProgramError, placed
from softswitch.native.emit_code import CContext, Code
from softswitch.native.emit_expr import CExprEmitter, Temp, binary
from softswitch.native.emit_stmt import CStatementEmitter
from softswitch.native.limbs import LIMB, LIMB_BITS, Kind, carrier, carrier_of, limbs
from softswitch.program import ir
from softswitch.program.emitted_text import identifier
from softswitch.program.limits import PARSER_STEPS, full
from softswitch.program.standard import STANDARD, STANDARD_WIDTHS
from softswitch.program.traverse import flatten, has_loop, lookaheads, operands, state_successors, topological


@dataclass(frozen=True)
class Slice:
    """``width`` bits that start ``offset`` bits after a byte of the frame."""

    offset: int
    width: int

    @property
    def byte(self) -> int:
        return self.offset // 8

    @property
    def bit(self) -> int:
        return self.offset % 8

    @property
    def end_byte(self) -> int:
        return -(-(self.offset + self.width) // 8)

    @property
    def is_bytes(self) -> bool:
        return self.bit == 0 and self.width % 8 == 0


def slices(header: ir.Header) -> Iterator[tuple[ir.Field, Slice]]:
    """Return the fields of ``header``, and their places."""
    offset = 0
    for member in header.fields:
        yield member, Slice(offset, member.width)
        offset += member.width


def read_bits(part: Slice, base: str, code: Code, expressions: CExprEmitter) -> str:
    """Return the name of a constant in carrier(part.width) with these bits. ``base``: C text of the address from which
    ``part`` counts."""
    kind = carrier(part.width)
    at = f"{base} + {part.byte}"
    if kind == LIMB:
        return code.value(LIMB, _narrow(part, at))
    if part.is_bytes and kind.kind is Kind.VECTOR and part.width == kind.bits:
        return code.value(kind, f"{kind.name}_get({at})")
    array = code.name()
    count = limbs(part.width)
    code.line(f"uint64_t {array}[{count}];")
    code.line(f"ss_get_bits({array}, {count}, {at}, {part.bit}, {part.width});")
    return expressions.load(array, part.width, fresh=True)


def _narrow(part: Slice, at: str) -> str:
    size_bytes = part.end_byte - part.byte
    unused = 8 * size_bytes - part.bit - part.width
    if size_bytes > LIMB_BITS // 8:
        text = f"(ss_get({at}, 8) << {8 - unused} | (uint64_t)({at})[8] >> {unused})"
    else:
        text = f"ss_get({at}, {size_bytes})"
        text = f"({text} >> {unused})" if unused else text
    return f"{text} & {LIMB.constant(full(part.width))}" if part.bit and part.width < LIMB_BITS else text


def write_header(header: ir.Header, members: dict[str, str], base: str, code: Code, expressions: CExprEmitter) -> None:
    """Write a header's bytes to ``base``, C text of a ``uint8_t *``. ``members``: the state's member for each field."""
    group: list[tuple[str, Slice]] = []
    for member, part in slices(header):
        group.append((code.read(members[member.name], carrier(member.width)), part))
        if (part.offset + part.width) % 8 == 0:
            _write_group(group, base, code, expressions)
            group = []


def _write_group(group: list[tuple[str, Slice]], base: str, code: Code, expressions: CExprEmitter) -> None:
    """Write neighbouring fields that together are whole bytes."""
    first, last = group[0][1], group[-1][1]
    end = last.offset + last.width
    width = end - first.offset
    at = f"{base} + {first.byte}"
    if width <= LIMB_BITS:
        terms = [f"{text} << {end - part.offset - part.width}" for text, part in group]
        code.line(f"ss_put({at}, {width // 8}, {' | '.join(terms)});")
        return
    kind = carrier(width)
    if len(group) == 1 and kind.kind is Kind.VECTOR and width == kind.bits:
        code.line(f"{kind.name}_put({at}, {group[0][0]});")
        return
    code.line(f"memset({at}, 0, {width // 8});")
    for text, part in group:
        array = code.name()
        code.line(f"uint64_t {array}[{limbs(part.width)}];")
        expressions.save(array, text, part.width)
        code.line(f"ss_put_bits({at}, {part.offset - first.offset}, {part.width}, {array});")


_HEAD = "(struct packet *p, size_t at0)"


def emit_parser(context: CContext) -> list[str]:
    """Return lines of C: ``parse(p)`` runs the parser and sets ``p->payload``."""
    parser = context.program.parser

    taken: set[str] = set()
    names = {name: identifier(f"state_{name}", taken) for name in parser.states}
    if has_loop(parser):
        return _with_loops(context, names)
    lines: list[str] = []
    for name in reversed(topological(parser.start, lambda name: state_successors(parser.states[name]))):
        with placed(f"parser state {name!r}"):
            body = _StateEmitter(context, parser.states[name], names).emit()
        lines += [f"static void {names[name]}{_HEAD} {{", *body, "}", ""]
    return [*lines, f"static void parse(struct packet *p) {{ {names[parser.start]}(p, 0); }}", ""]


def _with_loops(context: CContext, names: dict[str, str]) -> list[str]:
    """States return the number of the next one, or ACCEPT, and leave their position in ``p->payload``."""
    parser = context.program.parser
    numbers = {name: number for number, name in enumerate(parser.states)}
    lines = ["#define ACCEPT UINT32_MAX", ""]
    for name, state in parser.states.items():
        with placed(f"parser state {name!r}"):
            body = _StateEmitter(context, state, names, numbers).emit()
        lines += [f"static uint32_t {names[name]}{_HEAD} {{", *body, "}", ""]
    code = context.code()
    code.line(f"uint32_t state = {numbers[parser.start]};")
    code.line("p->payload = 0;")
    with code.block(f"for (uint32_t steps = 0; steps < {PARSER_STEPS}u; steps++)"), code.block("switch (state)"):
        for name, number in numbers.items():
            code.line(f"case {number}: state = {names[name]}(p, p->payload); break;")
        code.line("default: return;")
    code.line("if (state == ACCEPT) return;")
    context.set_standard(code, "parser_error", LIMB.constant(context.program.errors["ParserTimeout"]))
    return [*lines, "static void parse(struct packet *p) {", *code.lines, "}", ""]


class _StateEmitter:
    """``numbers``: of the states, where the parser has loops."""

    def __init__(
        self, context: CContext, state: ir.ParserState, names: dict[str, str], numbers: dict[str, int] | None = None
    ) -> None:
        self._numbers = numbers
        self._context = context
        self._state = state
        self._names = names
        self._code = context.code()
        self._at = "at0"
        self._positions = 1
        self._expressions = CExprEmitter(context.storage, self._code, lookahead=self._peek)
        self._statements = CStatementEmitter(context, self._code, self._expressions, f"parser state {state.name}")

    def emit(self) -> list[str]:
        self._reached("")
        for op in self._state.ops:
            if not self._op(op):
                return self._code.lines
        self._transition()
        return self._code.lines

    def _reached(self, what: str) -> None:
        self._code.lines_of(self._context.reached(f"parser state {self._state.name}{what}"))

    # -- leaving ---------------------------------------------------------

    def _leave(self, error: str | None = None) -> None:
        if error is not None:
            self._reached(f": error at {self._at}")
        member = self._context.storage.fields.get((STANDARD, "parser_error"))
        if error is not None and member is not None:
            self._code.write(member, error)
        self._code.line(f"p->payload = {self._at};")
        self._code.line("return;" if self._numbers is None else "return ACCEPT;")

    def _error(self, name: str) -> str:
        return LIMB.constant(self._context.program.errors.get(name, 0))

    def _go(self, name: str | None, case: str = "") -> None:
        if case:
            self._reached(f": {case}")
        if name is None:
            self._leave()
            return
        if self._numbers is not None:
            self._code.line(f"p->payload = {self._at};")
            self._code.line(f"return {self._numbers[name]};")
            return
        self._code.line(f"{self._names[name]}(p, {self._at});")
        self._code.line("return;")

    def _need(self, size_bytes: int) -> None:
        """Leave the parser if fewer bytes are left. The position is never behind the end of the frame."""
        if size_bytes:
            with self._code.block(f"if (p->size - {self._at} < {size_bytes})"):
                self._leave(self._error("PacketTooShort"))

    def _advance_to(self, text: str) -> None:
        name = f"at{self._positions}"
        self._positions += 1
        self._code.line(f"const size_t {name} = {text};")
        self._at = name

    # -- operations ------------------------------------------------------

    def _op(self, op: ir.ParserOp) -> bool:
        """Write one operation; return False if nothing after it can run."""
        match op:
            case ir.Extract(name):
                header = self._context.program.headers[name]
                self._need(header.size_bytes)
                self._extract(header)
            case ir.ExtractVarbit():
                self._extract_varbit(op)
            case ir.Choose(index, branches):
                self._choose(index, branches)
            case ir.Advance(bits):
                return self._advance(bits)
            case ir.Verify(condition, error):
                self._need_lookahead(condition, error)
                with self._code.block(f"if (!{self._expressions.boolean(condition)})"):
                    self._leave(self._expressions.wrapped(error, STANDARD_WIDTHS["parser_error"]))
            case _:
                self._need_lookahead(*(operand for statement in flatten([op]) for operand in operands(statement)))
                self._statements.body([op])
        return True

    def _extract(self, header: ir.Header) -> None:
        code, storage = self._code, self._context.storage
        for member, part in slices(header):
            name = storage.fields.get((header.name, member.name))
            if name is not None:
                code.write(name, read_bits(part, f"p->frame + {self._at}", code, self._expressions))
        code.write(storage.valid[header.name], "1ull")
        position = storage.positions.get(header.name)
        if position is not None:
            code.write(position, f"(int64_t){self._at}")
        self._advance_to(f"{self._at} + {header.size_bytes}")

    def _extract_varbit(self, op: ir.ExtractVarbit) -> None:
        code, headers = self._code, self._context.program.headers
        self._need_lookahead(op.bits)
        if carrier_of(*self._expressions.bounds(op.bits)) != LIMB:
            raise UnsupportedProgramError("a varbit field with a length beyond 64 bits is not supported")
        bits = self._expressions.wrapped(op.bits, LIMB.bits)
        rest = headers[op.rest] if op.rest else None
        fixed = headers[op.header].size_bytes + (rest.size_bytes if rest else 0)
        with code.block(f"if ({bits} & 7)"):
            self._leave(self._error("ParserInvalidArgument"))
        # Two comparisons: a sum could wrap.
        left = f"p->size - {self._at}"
        with code.block(f"if ({left} < {fixed} || {left} - {fixed} < {bits} >> 3)"):
            self._leave(self._error("PacketTooShort"))
        most = 8 * (op.most_bytes - fixed)
        with code.block(f"if ({bits} > {most}u)"):
            self._leave(self._error("HeaderTooShort"))
        self._extract(headers[op.header])
        width = op.value.width
        array = code.name()
        code.line(f"uint64_t {array}[{limbs(width)}];")
        code.line(f"ss_get_bits({array}, {limbs(width)}, p->frame + {self._at}, 0, (uint32_t){bits});")
        value = Temp(self._expressions.load(array, width, fresh=True), carrier(width), 0, full(width))
        self._statements.store(op.value, value)
        self._statements.store(op.length, Temp(bits, LIMB, 0, most))
        self._advance_to(f"{self._at} + ({bits} >> 3)")
        if rest:
            self._extract(rest)

    def _choose(self, index: ir.FieldRef, branches: tuple[tuple[ir.ParserOp, ...], ...]) -> None:
        code, start = self._code, self._at
        chosen = code.read(self._context.storage.fields[index.header, index.field], carrier(index.width))
        after = f"at{self._positions}"
        self._positions += 1
        code.line(f"size_t {after};")
        for number, branch in enumerate(branches):
            with code.block(f"{'else ' if number else ''}if ({chosen} == {number})"):
                for op in branch:
                    self._op(op)
                code.line(f"{after} = {self._at};")
            self._at = start
        with code.block("else"):
            self._leave(self._error("StackOutOfBounds"))
        self._at = after

    def _advance(self, bits: ir.Expr) -> bool:
        low, high = self._expressions.bounds(bits)
        if low == high:
            if low % 8:
                self._leave(self._error("ParserInvalidArgument"))
                return False
            self._need(low // 8)
            self._advance_to(f"{self._at} + {low // 8}")
            return True
        if low < 0 or carrier_of(low, high) != LIMB:
            raise UnsupportedProgramError("advance by a number beyond 64 bits is not supported")
        self._need_lookahead(bits)
        step = self._expressions.wrapped(bits, LIMB.bits)
        with self._code.block(f"if ({step} & 7)"):
            self._leave(self._error("ParserInvalidArgument"))
        with self._code.block(f"if (p->size - {self._at} < {step} >> 3)"):
            self._leave(self._error("PacketTooShort"))
        self._advance_to(f"{self._at} + ({step} >> 3)")
        return True

    # -- lookahead and select --------------------------------------------

    def _need_lookahead(self, *exprs: ir.Expr) -> None:
        ends = (peek.offset + peek.width for expr in exprs for peek in lookaheads(expr))
        self._need(-(-max(ends, default=0) // 8))

    def _peek(self, peek: ir.Lookahead) -> str:
        return read_bits(Slice(peek.offset, peek.width), f"p->frame + {self._at}", self._code, self._expressions)

    def _key(self, part: ir.Expr) -> Temp:
        """A key expression as bits without a sign, as the cases are."""
        width = part.width if isinstance(part, ir.FieldRef | ir.Lookahead) else 1
        return Temp(self._expressions.wrapped(part, width), carrier(width), 0, full(width))

    def _in_set(self, keys: list[Temp], name: str) -> str:
        """A test whether the key is a member of the set; its array is written here."""
        widths = self._context.program.value_sets[name].widths
        array, total = self._code.name(), sum(map(limbs, widths))
        self._code.line(f"uint64_t {array}[{total}];")
        offset = 0
        for key, width in zip(keys, widths, strict=True):
            self._expressions.save(f"{array} + {offset}", key.text, width)
            offset += limbs(width)
        number = self._context.set_numbers[name]
        return f"ss_in_set(&p->machine->value_sets[{number}], {array}, {total})"

    def _transition(self) -> None:
        for part in self._state.key:
            self._need_lookahead(part)
        keys = [self._key(part) for part in self._state.key]
        for number, case in enumerate(self._state.cases):
            tests: list[str] = []
            if case.value_set is not None:
                tests.append(self._in_set(keys, case.value_set))
            for key, value, mask in zip(keys, case.values, case.masks, strict=case.value_set is None):
                if mask == 0:
                    continue
                masked = key if mask == key.high else binary("&", key, ir.Const(mask))
                tests.append(self._expressions.boolean(binary("==", masked, ir.Const(value))))
            chosen = f"case {number}, to {case.next_state or 'accept'}"
            if not tests:
                self._go(case.next_state, chosen)
                return
            with self._code.block(f"if ({' && '.join(tests)})"):
                self._go(case.next_state, chosen)
        self._go(self._state.default, "default" if self._state.cases else "")


def emit_deparser(context: CContext) -> list[str]:
    """Return lines of C: ``deparse(p, port)`` sends the packet to ``port``."""
    if context.program.passes is not None:
        return _emit_apart(context)
    headers = _headers(context)
    code = context.code()
    code.line("const size_t rest = p->size - p->payload;")
    code.line("size_t length = rest;")
    _add_lengths(headers, context, code)
    code.line("uint8_t *out = ss_reserve(p->sink, length);")
    code.line("if (out == NULL) return;")
    _write_all(headers, context, code)
    if context.usage.truncates:
        code.line("if (length > p->limit) length = p->limit;")
    code.line("ss_commit(p->sink, port, length);")
    return ["static void deparse(struct packet *p, uint32_t port) {", *code.lines, "}", ""]


def _emit_apart(context: CContext) -> list[str]:
    """``frame_length(p)`` and ``write_frame(p, out)`` as well: a frame may go to ingress again."""
    headers = _headers(context)
    size, write, send = context.code(), context.code(), context.code()
    size.line("size_t length = p->size - p->payload;")
    _add_lengths(headers, context, size)
    size.line("return length;")
    write.line("const size_t rest = p->size - p->payload;")
    _write_all(headers, context, write)
    send.line("size_t length = frame_length(p);")
    send.line("uint8_t *out = ss_reserve(p->sink, length);")
    send.line("if (out == NULL) return;")
    send.line("write_frame(p, out);")
    send.line("if (length > p->limit) length = p->limit;")
    send.line("ss_commit(p->sink, port, length);")
    return [
        *("static size_t frame_length(const struct packet *p) {", *size.lines, "}", ""),
        *("static void write_frame(struct packet *p, uint8_t *out) {", *write.lines, "}", ""),
        *("static void deparse(struct packet *p, uint32_t port) {", *send.lines, "}", ""),
    ]


def _headers(context: CContext) -> list[ir.Header]:
    usage = context.usage
    order = [name for name in context.program.deparser if name in usage.extracted or name in usage.changed]
    return [context.program.headers[name] for name in order]


def _add_lengths(headers: list[ir.Header], context: CContext, code: Code) -> None:
    for header in headers:
        varbit = context.program.varbits.get(header.name)
        more = "" if varbit is None else f" + (p->{_member(varbit.length, context)} >> 3)"
        code.line(f"if (p->{context.storage.valid[header.name]}) length += {header.size_bytes}{more};")


def _write_all(headers: list[ir.Header], context: CContext, code: Code) -> None:
    for header in headers:
        with code.block(f"if (p->{context.storage.valid[header.name]})"):
            _write(header, context, code)
            code.line(f"out += {header.size_bytes};")
            varbit = context.program.varbits.get(header.name)
            if varbit is not None:
                _write_varbit(varbit, context, code)
    code.line("memcpy(out, p->frame + p->payload, rest);")


def _member(field: ir.FieldRef, context: CContext) -> str:
    return context.storage.fields[field.header, field.field]


def _write_varbit(varbit: ir.Varbit, context: CContext, code: Code) -> None:
    expressions, width = CExprEmitter(context.storage, code), varbit.value.width
    text = code.read(_member(varbit.value, context), carrier(width))
    array = code.name()
    code.line(f"uint64_t {array}[{limbs(width)}];")
    expressions.save(array, text, width)
    bits = f"(uint32_t)p->{_member(varbit.length, context)}"
    code.line(f"memset(out, 0, {bits} >> 3);")
    code.line(f"ss_put_bits(out, 0, {bits}, {array});")
    code.line(f"out += {bits} >> 3;")


def _write(header: ir.Header, context: CContext, code: Code) -> None:
    """Copy an unchanged header from the frame that came in; pack a changed one from its fields."""
    position = context.storage.positions.get(header.name)
    kept = f"memcpy(out, p->frame + p->{position}, {header.size_bytes});"
    if header.name not in context.usage.changed:
        code.line(kept)
    elif position is None:
        _pack(header, context, code)
    else:
        code.line(f"if (p->{position} >= 0) {kept}")
        with code.block("else"):
            _pack(header, context, code)


def _pack(header: ir.Header, context: CContext, code: Code) -> None:
    members = {member.name: context.storage.fields[header.name, member.name] for member in header.fields}
    write_header(header, members, "out", code, CExprEmitter(context.storage, code))
