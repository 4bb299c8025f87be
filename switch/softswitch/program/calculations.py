# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Inputs of checksums and hashes, split by header."""

from __future__ import annotations

from itertools import groupby

from softswitch.program import ir

HASH_WIDTHS = {"csum16": 16, "xor16": 16, "crc16": 16, "crc32": 32, "identity": 64}


def runs_of(calculation: ir.Calculation, program: ir.Program) -> list[tuple[str, list[ir.Chunk]]]:
    """Consecutive chunks of one header, with its name; metadata and constants have the name ''."""

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
