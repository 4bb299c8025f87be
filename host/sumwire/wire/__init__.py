# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sumwire packets (docs/wire-format.md): pack and unpack one packet or a whole exchange, and move batches of them."""

from sumwire.wire.packets import (
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
