# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Integers as P4Runtime bytestrings (specification: "Bytestrings")."""

from __future__ import annotations

from softswitch.p4runtime.errors import InvalidArgumentError


def decode(data: bytes, width: int, what: str) -> int:
    """The unsigned integer in big-endian ``data``; leading zero bytes are accepted.

    ``what`` names the field for the error text. Raises InvalidArgumentError for an empty string and for
    a value that does not fit ``width`` bits.
    """
    if not data:
        raise InvalidArgumentError(f"{what}: the value is empty, bit<{width}> needs at least one byte")
    value = int.from_bytes(data, "big")
    if value.bit_length() > width:
        raise InvalidArgumentError(f"{what}: value {value:#x} does not fit bit<{width}>")
    return value


def encode(value: int) -> bytes:
    """The canonical form: the shortest big-endian string, one zero byte for 0."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")
