# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Checksums and hashes as Python text."""

from __future__ import annotations

from typing import Final

from softswitch.program import ir
from softswitch.program.calculations import HASH_WIDTHS, is_word_aligned, runs_of
from softswitch.python.layout import Storage
from softswitch.python.source_writer import Writer
from softswitch.python.values import Value, constant

# Python refuses to read more than 200 parentheses within each other.
_NESTED_MOST: Final = 64


def hash_value(
    calculation: ir.Calculation, storage: Storage, program: ir.Program, out: Writer, valid: str | None = None
) -> Value:
    """The hash over ``calculation``'s input. May write lines to ``out`` that prepare it.

    ``valid``: a header known to be valid here. The fields of any other header count only if it is valid at run time.
    """
    if calculation.algorithm == "csum16" and is_word_aligned(calculation, program):
        return _checksum(calculation, storage, program, valid)
    _join(calculation, storage, program, out, valid)
    return Value(f"hash_{calculation.algorithm}(joined, joined_bits)", 0, (1 << HASH_WIDTHS[calculation.algorithm]) - 1)


# ---------------------------------------------------------------- the internet checksum, without joining


def _checksum(calculation: ir.Calculation, storage: Storage, program: ir.Program, valid: str | None) -> Value:
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
    return Value(f"(checksum_of({' + '.join(sums)}))", 0, 0xFFFF)


def _chunk(chunk: ir.Chunk, storage: Storage) -> str:
    if isinstance(chunk.value, ir.Const):
        return constant(chunk.value.value & ((1 << chunk.width) - 1)).text
    local = storage.fields[chunk.value.header, chunk.value.field]
    return f"({local} & {(1 << chunk.width) - 1:#x})" if chunk.value.signed else local


# ---------------------------------------------------------------- hashes over joined bits


def _join(calculation: ir.Calculation, storage: Storage, program: ir.Program, out: Writer, valid: str | None) -> None:
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
