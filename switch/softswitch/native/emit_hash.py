# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Checksums and hashes as C."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from softswitch.native.emit_bounds import Temp
from softswitch.native.emit_carrier import LIMB, carrier
from softswitch.native.emit_code import Code
from softswitch.native.emit_context import Context
from softswitch.native.emit_expr import ExprEmitter
from softswitch.native.limbs import limbs
from softswitch.program import ir
from softswitch.program.calculations import HASH_WIDTHS, is_word_aligned, runs_of
from softswitch.program.numbers import full

_PLAIN = 32  # bits of a chunk up to which its terms cannot overflow a sum of 64 bits

Runs = list[tuple[str, list[ir.Chunk]]]


def hash_value(calculation: ir.Calculation, context: Context, code: Code, expressions: ExprEmitter) -> Temp:
    """The hash over ``calculation``'s input; chunks of an invalid header are skipped at run time."""
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
    def __init__(self, runs: Runs, context: Context, code: Code, expressions: ExprEmitter) -> None:
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
