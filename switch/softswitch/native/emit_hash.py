# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Checksums and hashes to C."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby

from softswitch import ir
from softswitch.emit_expr import full
from softswitch.native.emit_bounds import Temp
from softswitch.native.emit_carrier import LIMB, carrier
from softswitch.native.emit_code import Code
from softswitch.native.emit_context import Context
from softswitch.native.emit_expr import ExprEmitter
from softswitch.native.limbs import limbs

_WIDTHS = {"csum16": 16, "xor16": 16, "crc16": 16, "crc32": 32, "identity": 64}
_PLAIN = 32  # bits of a chunk up to which its terms cannot overflow a sum of 64 bits

Runs = list[tuple[str, list[ir.Chunk]]]


def hash_value(calculation: ir.Calculation, context: Context, code: Code, expressions: ExprEmitter) -> Temp:
    """The hash over ``calculation``'s input; chunks of an invalid header are left out."""
    name = code.name()
    code.line(f"uint64_t {name};")
    with code.block(""):
        runs = _runs(calculation, context.program)
        if calculation.algorithm == "csum16" and _is_word_aligned(runs):
            _sum(name, runs, context, code, expressions)
        else:
            _join(name, calculation, runs, context, code, expressions)
    return Temp(name, LIMB, 0, full(_WIDTHS[calculation.algorithm]))


def _runs(calculation: ir.Calculation, program: ir.Program) -> Runs:
    """Consecutive chunks of one header; metadata and constants are the header ''."""

    def header(chunk: ir.Chunk) -> str:
        value = chunk.value
        return "" if isinstance(value, ir.Const) or program.headers[value.header].metadata else value.header

    return [(name, list(chunks)) for name, chunks in groupby(calculation.chunks, header)]


def _is_word_aligned(runs: Runs) -> bool:
    """Whether the 16-bit words stay the same whichever headers are valid."""
    widths = [sum(chunk.width for chunk in chunks) for _, chunks in runs]
    return all(width % 16 == 0 for width in widths[:-1]) and sum(widths) % 8 == 0


@contextmanager
def _if_valid(header: str, context: Context, code: Code) -> Iterator[None]:
    with code.block(f"if ({code.read(context.storage.valid[header], LIMB)})" if header else ""):
        yield


def _chunk(chunk: ir.Chunk, expressions: ExprEmitter) -> str:
    """Its bits, in carrier(chunk.width)."""
    return expressions.wrapped(chunk.value, chunk.width)


def _sum(name: str, runs: Runs, context: Context, code: Code, expressions: ExprEmitter) -> None:
    """The internet checksum, term by term: RFC 1071."""
    total = code.name()
    code.line(f"uint64_t {total} = 0;")
    end = -(-sum(chunk.width for _, chunks in runs for chunk in chunks) // 16) * 16
    for header, chunks in runs:
        with _if_valid(header, context, code):
            for chunk in chunks:
                end -= chunk.width
                term = _folded(chunk, code, expressions)
                code.line(f"{total} += {term} << {end % 16};")
    code.line(f"{name} = ss_checksum({total});")


def _folded(chunk: ir.Chunk, code: Code, expressions: ExprEmitter) -> str:
    text = _chunk(chunk, expressions)
    if chunk.width <= _PLAIN:
        return text
    if carrier(chunk.width) == LIMB:
        return f"ss_fold({text})"
    array = _saved(chunk, text, code, expressions)
    return f"ss_fold_limbs({array}, {limbs(chunk.width)})"


def _saved(chunk: ir.Chunk, text: str, code: Code, expressions: ExprEmitter) -> str:
    array = code.name()
    code.line(f"uint64_t {array}[{limbs(chunk.width)}];")
    expressions.save(array, text, chunk.width)
    return array


def _join(
    name: str, calculation: ir.Calculation, runs: Runs, context: Context, code: Code, expressions: ExprEmitter
) -> None:
    joined = code.name()
    size_bytes = sum(-(-chunk.width // 8) for chunk in calculation.chunks)
    code.line(f"uint8_t {joined}_bytes[{max(1, size_bytes)}] = {{0}};")
    code.line(f"struct ss_joined {joined} = {{{joined}_bytes, 0}};")
    for header, chunks in runs:
        with _if_valid(header, context, code):
            for chunk in chunks:
                array = _saved(chunk, _chunk(chunk, expressions), code, expressions)
                code.line(f"ss_join(&{joined}, {chunk.width}, {array});")
    code.line(f"{name} = ss_hash_{calculation.algorithm}(&{joined});")
