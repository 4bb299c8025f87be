# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Statements as C."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from softswitch.native.emit_bounds import Expr, Temp, binary
from softswitch.native.emit_carrier import LIMB, carrier
from softswitch.native.emit_code import Code
from softswitch.native.emit_context import Context, Message, MessageValue
from softswitch.native.emit_expr import ExprEmitter
from softswitch.native.emit_hash import hash_value
from softswitch.native.limbs import LIMB_BITS, argument_offsets, limbs
from softswitch.program import ir
from softswitch.program.limits import LOOP_BLOCKS
from softswitch.program.numbers import full
from softswitch.program.standard import PACKET_LENGTH


class StatementEmitter:
    """``place``: what the statements are a part of, for coverage."""

    def __init__(self, context: Context, code: Code, expressions: ExprEmitter, place: str) -> None:
        self._context = context
        self._code = code
        self._expressions = expressions
        self._storage = context.storage
        self._place = place
        self._branches = 0

    def body(self, statements: Sequence[ir.Statement]) -> None:
        for statement in statements:
            if isinstance(statement, ir.Loop):
                self._loop(statement.blocks)
                continue
            if not isinstance(statement, ir.If):
                self._simple(statement)
                continue
            branch = f"{self._place}: if {self._branches}"
            self._branches += 1
            with self._code.block(f"if ({self._expressions.boolean(statement.condition)})"):
                self._code.lines_of(self._context.reached(f"{branch}, then"))
                self.body(statement.then)
            otherwise = self._context.reached(f"{branch}, else")
            if statement.otherwise or otherwise:
                with self._code.block("else"):
                    self._code.lines_of(otherwise)
                    self.body(statement.otherwise)

    def _loop(self, blocks: tuple[ir.Block, ...]) -> None:
        """What is known of members before the loop, and in another block, need not hold in a block."""
        code, end = self._code, len(blocks)
        code.forget()
        head = f"for (uint32_t block = 0, left = {LOOP_BLOCKS}u; block != {end}u && left != 0; left--)"
        with code.block(head), code.block("switch (block)"):
            for number, block in enumerate(blocks):
                code.forget()
                with code.block(f"case {number}:"):
                    self.body(block.statements)
                    then, otherwise = (end if each is None else each for each in (block.then, block.otherwise))
                    if block.condition is None or then == otherwise:
                        code.line(f"block = {then};")
                    else:
                        code.line(f"block = {self._expressions.boolean(block.condition)} ? {then} : {otherwise};")
                    code.line("break;")
        code.forget()

    def _simple(self, statement: ir.Statement) -> None:  # noqa: PLR0912 - one case per statement
        match statement:
            case ir.Assign(target, value):
                self.store(target, value)
            case ir.AssignHeader(target, source):
                self._copy_header(target, source)
            case ir.SetValid(header):
                self._set_valid(header)
            case ir.SetInvalid(header, counted):
                self._set_invalid(header, counted=counted)
            case ir.RegisterRead(target, register, index):
                self._register_read(target, register, index)
            case ir.RegisterWrite(register, index, value):
                self._register_write(register, index, value)
            case ir.Count(counter, index):
                self._count(counter, index)
            case ir.ExecuteMeter(target, meter, index):
                self._meter(target, meter, index)
            case ir.MarkToDrop():
                self._mark_to_drop()
            case ir.Truncate(length):
                text = self._expressions.wrapped(length, LIMB_BITS)
                self._code.line(f"if (p->limit > {text}) p->limit = {text};")
            case ir.Random(target, low, high):
                self._random(target, low, high)
            case ir.Hash(target, base, calculation, modulus):
                self._hash(target, base, calculation, modulus)
            case ir.LogMessage(text, values):
                self.log(text, values)
            case ir.Exit():
                self._code.write("exited", "1")

    # -- fields and headers ----------------------------------------------

    def store(self, target: ir.FieldRef, value: Expr) -> None:
        """Write ``target = value``, wrapped. Writes nothing for a field that the state does not keep."""
        member = self._storage.fields.get((target.header, target.field))
        if member is not None:
            self._code.write(member, self._expressions.wrapped(value, target.width))
            self._mark(target.header)

    def _mark(self, header: str) -> None:
        """Mark the header as changed: it no longer leaves as the bytes it came in with."""
        position = self._storage.positions.get(header)
        if position is not None:
            self._code.write(position, "-1")

    def _copy_header(self, target: str, source: str) -> None:
        code, storage = self._code, self._storage
        with code.block(f"if ({code.read(storage.valid[source], LIMB)})"):
            for member in self._context.program.headers[target].fields:
                theirs = code.read(storage.fields[source, member.name], carrier(member.width))
                code.write(storage.fields[target, member.name], theirs)
            code.write(storage.valid[target], "1ull")
            self._mark(target)
        with code.block("else"):
            code.write(storage.valid[target], "0ull")

    def _set_valid(self, header: str) -> None:
        code, storage = self._code, self._storage
        with code.block(f"if (!{code.read(storage.valid[header], LIMB)})"):
            for key in storage.members_of(header):
                code.write(storage.fields[key], self._expressions.wrapped(ir.Const(0), storage.widths[key]))
            code.write(storage.valid[header], "1ull")
            self._lengthen(header, "+")
            self._mark(header)

    def _set_invalid(self, header: str, *, counted: bool) -> None:
        code, valid = self._code, self._storage.valid[header]
        if self._context.track_length and counted:
            with code.block(f"if ({code.read(valid, LIMB)})"):
                self._lengthen(header, "-")
        code.write(valid, "0ull")

    def _lengthen(self, header: str, sign: str) -> None:
        if self._context.track_length:
            size_bytes = self._context.program.headers[header].size_bytes
            self._code.write(
                PACKET_LENGTH, self._code.value(LIMB, f"{self._code.read(PACKET_LENGTH, LIMB)} {sign} {size_bytes}")
            )

    def _mark_to_drop(self) -> None:
        self._context.set_standard(self._code, "egress_spec", "(uint64_t)SS_DROP_PORT")
        self._context.set_standard(self._code, "mcast_grp", "0ull")

    # -- registers and counters ------------------------------------------

    def _register_read(self, target: ir.FieldRef, register: str, index: ir.Expr) -> None:
        if (target.header, target.field) not in self._storage.fields:
            return
        declared = self._context.program.registers[register]
        where, inside = self._expressions.index(index, declared.size)
        with self._code.block(f"if ({inside})" if inside else ""):
            cell = self._expressions.load(self._cell(register, where), declared.width, fresh=True)
            value: Expr = Temp(cell, carrier(declared.width), 0, full(declared.width))
            if declared.signed:
                value = ir.Cast("two_comp_mod", cast("ir.Expr", value), declared.width)
            self.store(target, value)

    def _register_write(self, register: str, index: ir.Expr, value: ir.Expr) -> None:
        declared = self._context.program.registers[register]
        where, inside = self._expressions.index(index, declared.size)
        text = self._expressions.wrapped(value, declared.width)
        with self._code.block(f"if ({inside})" if inside else ""):
            self._expressions.save(self._cell(register, where), text, declared.width)

    def _cell(self, register: str, where: str) -> str:
        declared = self._context.program.registers[register]
        number = self._context.register_numbers[register]
        return f"p->machine->registers[{number}] + {where} * {limbs(declared.width)}u"

    def _count(self, counter: str, index: ir.Expr) -> None:
        declared = self._context.program.counters[counter]
        where, inside = self._expressions.index(index, declared.size)
        number = self._context.counter_numbers[counter]
        with self._code.block(f"if ({inside})" if inside else ""):
            self._code.line(f"count_packet(p, p->machine->counters[{number}] + {where} * 2u);")

    def _meter(self, target: ir.FieldRef, meter: str, index: ir.Expr) -> None:
        declared = self._context.program.meters[meter]
        where, inside = self._expressions.index(index, declared.size)
        number = self._context.meter_numbers[meter]
        with self._code.block(f"if ({inside})" if inside else ""):
            wanted = "p->size" if declared.counts_bytes else "1"
            colour = self._code.name()
            call = f"ss_execute_meter(p->machine->meters[{number}] + {where}, {wanted}, p->now)"
            self._code.line(f"const uint64_t {colour} = {call};")
            self.store(target, Temp(colour, LIMB, 0, 2))

    # -- random, hash, log -----------------------------------------------

    def _random(self, target: ir.FieldRef, low: ir.Expr, high: ir.Expr) -> None:
        """Write low + (draw * (high - low + 1) >> bits drawn).

        Drawn even if the target is never read: the sequence must not depend on what is read.
        """
        code, draws = self._code, limbs_drawn(target.width)
        with code.block(f"if ({self._expressions.boolean(ir.Binary('<=', low, high))})"):
            drawn = code.name()
            code.line(f"uint64_t {drawn}[{limbs(LIMB_BITS * draws)}] = {{0}};")
            code.line(f"for (uint32_t i = 0; i < {draws}; i++) {drawn}[i] = ss_random(p->machine->random);")
            bits = LIMB_BITS * draws
            draw = Temp(self._expressions.load(drawn, bits, fresh=True), carrier(bits), 0, full(bits))
            count = ir.Binary("+", ir.Binary("-", high, low), ir.Const(1))
            scaled = ir.Binary(">>", binary("*", draw, count), ir.Const(bits))
            self.store(target, ir.Binary("+", low, scaled))

    def _hash(self, target: ir.FieldRef, base: ir.Expr, calculation: str, modulus: ir.Expr) -> None:
        described = self._context.program.calculations[calculation]
        digest: Expr = hash_value(described, self._context, self._code, self._expressions)
        # A remainder by 0 is 0, like one by 1.
        rest = binary("%", digest, modulus)
        self.store(target, ir.Binary("+", rest, base))

    def log(self, text: str, values: tuple[ir.Expr, ...], *, is_digest: bool = False) -> None:
        """Write the call that logs a message or sends a digest."""
        number = len(self._context.messages)
        exact = [self._expressions.exact(value) for value in values]
        widths = tuple(value.carrier.bits for value in exact)
        offsets, total = argument_offsets(widths)
        array = self._code.name()
        self._code.line(f"uint64_t {array}[{max(1, total)}] = {{0}};")
        for value, width, offset in zip(exact, widths, offsets, strict=True):
            self._expressions.save(f"{array} + {offset}", value.text, width)
        described = tuple(MessageValue(value.carrier.bits, value.low < 0) for value in exact)
        self._context.messages.append(Message(text, described, is_digest))
        self._code.line(f"if (p->machine->log) p->machine->log(p->machine, {number}, {array});")


def limbs_drawn(width: int) -> int:
    """How many numbers of 64 bits are drawn for a target of ``width`` bits."""
    return max(1, -(-width // LIMB_BITS))
