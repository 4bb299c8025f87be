# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Checksums and hashes to Python text."""

from __future__ import annotations

import zlib
from itertools import groupby

from softswitch import ir
from softswitch.emit_expr import Value, constant
from softswitch.layout import Storage
from softswitch.writer import Writer

HASH_WIDTHS = {"csum16": 16, "xor16": 16, "crc16": 16, "crc32": 32, "identity": 64}


def hash_value(
    calculation: ir.Calculation, storage: Storage, program: ir.Program, out: Writer, valid: str | None = None
) -> Value:
    """The hash over ``calculation``'s input. May write lines that prepare it.

    ``valid``: a header known to be valid where the hash is taken. The fields of any other header count only
    if it is valid then.
    """
    if calculation.algorithm == "csum16" and is_word_aligned(calculation, program):
        return _checksum(calculation, storage, program, valid)
    _join(calculation, storage, program, out, valid)
    return Value(f"hash_{calculation.algorithm}(joined, joined_bits)", 0, (1 << HASH_WIDTHS[calculation.algorithm]) - 1)


# ---------------------------------------------------------------- the internet checksum, without joining


def runs_of(calculation: ir.Calculation, program: ir.Program) -> list[tuple[str, list[ir.Chunk]]]:
    """Consecutive chunks of one header; metadata and constants are the header ''."""

    def header(chunk: ir.Chunk) -> str:
        value = chunk.value
        return "" if isinstance(value, ir.Const) or program.headers[value.header].metadata else value.header

    return [(name, list(chunks)) for name, chunks in groupby(calculation.chunks, header)]


def is_word_aligned(calculation: ir.Calculation, program: ir.Program) -> bool:
    """Whether the sum stays aligned whichever headers are valid."""
    runs = runs_of(calculation, program)
    widths = [sum(chunk.width for chunk in chunks) for _, chunks in runs]
    return all(width % 16 == 0 for width in widths[:-1]) and sum(widths) % 8 == 0


def _checksum(calculation: ir.Calculation, storage: Storage, program: ir.Program, valid: str | None) -> Value:
    """The ones' complement sum is the number modulo 65535, and 65535 is 0 unless all bits are: RFC 1071."""
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


def checksum_of(total: int) -> int:
    """The internet checksum of 16-bit words whose plain sum is ``total``."""
    return 65535 - (total % 65535 or (65535 if total else 0))


# ---------------------------------------------------------------- hashes over joined bits


def _join(calculation: ir.Calculation, storage: Storage, program: ir.Program, out: Writer, valid: str | None) -> None:
    out.line("joined = joined_bits = 0")
    for header, chunks in runs_of(calculation, program):
        width = sum(chunk.width for chunk in chunks)
        text = "joined"
        for chunk in chunks:
            text = f"({text} << {chunk.width} | {_chunk(chunk, storage)})"
        lines = [f"joined = {text}", f"joined_bits += {width}"]
        if header and header != valid:
            with out.block(f"if {storage.valid(header)}:"):
                out.extend(lines)
        else:
            out.extend(lines)


def _padded(value: int, bits: int) -> bytes:
    size = -(-bits // 8)
    return (value << (8 * size - bits)).to_bytes(size)


def hash_csum16(value: int, bits: int) -> int:
    data = _padded(value, bits)
    data += bytes(len(data) % 2)
    return checksum_of(sum(int.from_bytes(data[i : i + 2]) for i in range(0, len(data), 2)))


def hash_xor16(value: int, bits: int) -> int:
    data = _padded(value, bits)
    data += bytes(len(data) % 2)
    result = 0
    for i in range(0, len(data), 2):
        result ^= int.from_bytes(data[i : i + 2])
    return result


def hash_crc16(value: int, bits: int) -> int:
    """CRC-16/ARC: polynomial 0x8005, reflected, as bmv2's crc16."""
    table = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
    remainder = 0
    for byte in _padded(value, bits).translate(table):
        remainder ^= byte << 8
        for _ in range(8):
            remainder = (remainder << 1 ^ (0x8005 if remainder & 0x8000 else 0)) & 0xFFFF
    return int(f"{remainder:016b}"[::-1], 2)


def hash_crc32(value: int, bits: int) -> int:
    return zlib.crc32(_padded(value, bits))


def hash_identity(value: int, bits: int) -> int:
    """The first eight bytes."""
    return int.from_bytes(_padded(value, bits)[:8])


RUNTIME = {
    "checksum_of": checksum_of,
    "hash_csum16": hash_csum16,
    "hash_xor16": hash_xor16,
    "hash_crc16": hash_crc16,
    "hash_crc32": hash_crc32,
    "hash_identity": hash_identity,
}
