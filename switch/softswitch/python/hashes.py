# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Hashes that generated Python calls. ``value`` has ``bits`` bits, padded on the right to whole bytes."""

from __future__ import annotations

import zlib


def checksum_of(total: int) -> int:
    """The internet checksum of 16-bit words whose plain sum is ``total``."""
    return 65535 - (total % 65535 or (65535 if total else 0))


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
    """The first eight bytes of the input."""
    return int.from_bytes(_padded(value, bits)[:8])


RUNTIME = {
    "checksum_of": checksum_of,
    "hash_csum16": hash_csum16,
    "hash_xor16": hash_xor16,
    "hash_crc16": hash_crc16,
    "hash_crc32": hash_crc32,
    "hash_identity": hash_identity,
}
