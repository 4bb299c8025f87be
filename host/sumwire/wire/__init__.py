# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The Sumwire packet, one at a time or many: ``pack`` and ``unpack`` are the definition (docs/wire-format.md)."""

from sumwire.wire.header import (
    HEADER_BYTES,
    LOWER_HEADER_BYTES,
    VALUES_PER_PLANE,
    WORD_BYTES,
    Header,
    WireError,
    pack,
    unpack,
)

__all__ = [
    "HEADER_BYTES",
    "LOWER_HEADER_BYTES",
    "VALUES_PER_PLANE",
    "WORD_BYTES",
    "Header",
    "WireError",
    "pack",
    "unpack",
]
