# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Emits statements as C, with hashes, the architecture's checksums, and digests for the control plane."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import cast

from softswitch.native.emit_code import CContext, Code, Message, MessageValue
from softswitch.native.emit_expr import CExprEmitter, Expr, Temp, binary
from softswitch.native.limbs import LIMB, LIMB_BITS, argument_offsets, carrier, limbs
from softswitch.program import ir
from softswitch.program.analysis import HASH_WIDTHS, is_word_aligned, runs_of
from softswitch.program.limits import LOOP_BLOCKS, full
from softswitch.program.standard import PACKET_LENGTH, STANDARD

_PLAIN = 32  # bits of a chunk up to which its terms cannot overflow a sum of 64 bits

Runs = list[tuple[str, list[ir.Chunk]]]


def hash_value(calculation: ir.Calculation, context: CContext, code: Code, expressions: CExprEmitter) -> Temp:
    """Return the hash over ``calculation``'s input. Chunks of an invalid header are skipped at run time."""
    name = code.name()
    code.line(f"uint64_t {name};")
    with code.block(""):
        emitter = _HashEmitter(runs_of(calculation, context.program), context, code, expressions)
        if calculation.algorithm == "csum16" and is_word_aligned(calculation, context.program):
            emitter.sum(name)
        else:
            emitter.join(name, calculation.algorithm, payload=calculation.payload)
    return Temp(name, LIMB, 0, full(HASH_WIDTHS[calculation.algorithm]))


class _HashEmitter:
    def __init__(self, runs: Runs, context: CContext, code: Code, expressions: CExprEmitter) -> None:
        self._runs = runs
        self._valid = context.storage.valid
        self._fields = context.storage.fields
        self._code = code
        self._expressions = expressions

    def sum(self, name: str) -> None:
        """The internet checksum, term by term: RFC 1071."""
        code = self._code
        total = code.name()
        code.line(f"uint64_t {total} = 0;")
        end = -(-sum(chunk.width for _, chunks in self._runs for chunk in chunks) // 16) * 16
        for header, chunks in self._runs:
            with self._if_valid(header):
                for chunk in chunks:
                    end -= chunk.width
                    code.line(f"{total} += {self._folded(chunk)} << {end % 16};")
        code.line(f"{name} = ss_checksum({total});")

    def join(self, name: str, algorithm: str, *, payload: bool) -> None:
        code = self._code
        joined = code.name()
        size_bytes = sum(-(-chunk.width // 8) for _, chunks in self._runs for chunk in chunks)
        if payload:
            code.line(f"uint8_t *{joined}_bytes = calloc(1, {max(1, size_bytes)} + p->size - p->payload);")
            code.line(f"{name} = 0;")
        else:
            code.line(f"uint8_t {joined}_bytes[{max(1, size_bytes)}] = {{0}};")
        code.line(f"struct ss_joined {joined} = {{{joined}_bytes, 0}};")
        with code.block(f"if ({joined}_bytes != NULL)") if payload else nullcontext():
            self._join(name, algorithm, joined, payload=payload)

    def _join(self, name: str, algorithm: str, joined: str, *, payload: bool) -> None:
        code = self._code
        for header, chunks in self._runs:
            with self._if_valid(header):
                for chunk in chunks:
                    width = str(chunk.width)
                    if chunk.length is not None:
                        member = self._fields[chunk.length.header, chunk.length.field]
                        width = f"(uint32_t){code.read(member, LIMB)}"
                    code.line(f"ss_join(&{joined}, {width}, {self._saved(chunk)});")
        if payload:
            code.line(f"ss_join_bytes(&{joined}, p->frame + p->payload, p->size - p->payload);")
        code.line(f"{name} = ss_hash_{algorithm}(&{joined});")
        if payload:
            code.line(f"free({joined}_bytes);")

    @contextmanager
    def _if_valid(self, header: str) -> Iterator[None]:
        head = f"if ({self._code.read(self._valid[header], LIMB)})" if header else ""
        with self._code.block(head):
            yield

    def _bits(self, chunk: ir.Chunk) -> str:
        """The chunk in carrier(chunk.width)."""
        return self._expressions.wrapped(chunk.value, chunk.width)

    def _folded(self, chunk: ir.Chunk) -> str:
        """A number that equals the chunk modulo 65535 and is small enough to be added many times."""
        if chunk.width <= _PLAIN:
            return self._bits(chunk)
        if carrier(chunk.width) == LIMB:
            return f"ss_fold({self._bits(chunk)})"
        return f"ss_fold_limbs({self._saved(chunk)}, {limbs(chunk.width)})"

    def _saved(self, chunk: ir.Chunk) -> str:
        """Name of an array of limbs with the chunk's bits."""
        text = self._bits(chunk)
        array = self._code.name()
        self._code.line(f"uint64_t {array}[{limbs(chunk.width)}];")
        self._expressions.save(array, text, chunk.width)
        return array


class CStatementEmitter:
    """Emits statements as C. ``place`` names, for coverage, what they are part of."""

    def __init__(self, context: CContext, code: Code, expressions: CExprEmitter, place: str) -> None:
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
        self._context.set_standard(self._code, "egress_spec", f"{self._context.program.drop_port}ull")
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
    """Return how many 64-bit random numbers are drawn for a target of ``width`` bits."""
    return max(1, -(-width // LIMB_BITS))


def emit_verify(context: CContext) -> list[str]:
    """Return lines of C: ``verify_checksums(p)`` sets checksum_error if a checksum is wrong."""
    code = context.code()
    expressions = CExprEmitter(context.storage, code)
    error = context.storage.fields.get((STANDARD, "checksum_error"))
    for checksum in context.program.checksums:
        if not checksum.verify or error is None:
            continue
        target = checksum.target
        code.comment(f"{target.header}.{target.field}")
        condition = ir.Binary("and", ir.Valid(target.header), checksum.condition)
        with code.block(f"if ({expressions.boolean(condition)})"):
            value = hash_value(context.program.calculations[checksum.calculation], context, code, expressions)
            different = expressions.boolean(binary("!=", value, target))
            with code.block(f"if ({different})"):
                code.write(error, "1ull")
    return ["static void verify_checksums(struct packet *p) {", *code.lines, "}", ""]


def emit_update(context: CContext) -> list[str]:
    """Return lines of C: ``update_checksums(p)`` writes the checksums."""
    code = context.code()
    expressions = CExprEmitter(context.storage, code)
    statements = CStatementEmitter(context, code, expressions, "update of checksums")
    for checksum in context.program.checksums:
        if not checksum.update:
            continue
        code.comment(f"{checksum.target.header}.{checksum.target.field}")
        with code.block(f"if ({expressions.boolean(checksum.condition)})"):
            value = hash_value(context.program.calculations[checksum.calculation], context, code, expressions)
            statements.store(checksum.target, value)
    return ["static void update_checksums(struct packet *p) {", *code.lines, "}", ""]


def emit_learn(context: CContext) -> list[str]:
    """Return lines of C: ``learn(p)`` sends the requested digest. None for a program without digests."""
    request = context.program.digest_request
    if request is None:
        return []
    code = context.code()
    statements = CStatementEmitter(context, code, CExprEmitter(context.storage, code), "digests")
    asked = code.read(context.storage.fields[request.header, request.field], carrier(request.width))
    for number, digest in context.program.digests.items():
        with code.block(f"if ({asked} == {number})"):
            statements.log(digest.name, digest.values, is_digest=True)
    return ["static void learn(struct packet *p) {", *code.lines, "}", ""]
