# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Limits of numbers."""

MAX_SHIFT = 4096  # bits; a longer left shift leaves nothing of any field (2048 bits) once it is wrapped


def full(width: int) -> int:
    """The largest number of ``width`` bits: all ones."""
    return (1 << width) - 1
