# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The hashes of v1model over bytes, written from their definitions."""

from __future__ import annotations

import binascii
from collections.abc import Callable


def _words(data: bytes) -> list[int]:
    data += bytes(len(data) % 2)
    return [int.from_bytes(data[i : i + 2]) for i in range(0, len(data), 2)]


def csum16(data: bytes) -> int:
    """RFC 1071: add the carries back in, then complement."""
    total = 0
    for word in _words(data):
        total += word
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def xor16(data: bytes) -> int:
    result = 0
    for word in _words(data):
        result ^= word
    return result


def crc16(data: bytes) -> int:
    """CRC-16/ARC: 0x8005 reflected, from 0, nothing inverted. Check value 0xBB3D for b'123456789'."""
    remainder = 0
    for byte in data:
        remainder ^= byte
        for _ in range(8):
            remainder = remainder >> 1 ^ (0xA001 if remainder & 1 else 0)
    return remainder


DIGESTS: dict[str, Callable[[bytes], int]] = {
    "csum16": csum16,
    "xor16": xor16,
    "crc16": crc16,
    "crc32": binascii.crc32,
    "identity": lambda data: int.from_bytes(data[:8]),
}
