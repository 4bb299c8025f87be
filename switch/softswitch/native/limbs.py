# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""How numbers are laid out in the native engine's memory, by the rules of ``struct ss_program`` in engine.h.

A number is a sequence of limbs: 64-bit words, the least significant first.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

LIMB_BITS = 64
LIMB_BYTES = LIMB_BITS // 8
WIDE_BITS = 512  # SS_WIDE_BITS
WIDE_LIMBS = WIDE_BITS // LIMB_BITS


def limbs(width: int) -> int:
    """How many limbs a number of ``width`` bits takes."""
    count = max(1, -(-width // LIMB_BITS))
    return _aligned(count) if width >= WIDE_BITS else count


def argument_offsets(widths: Iterable[int]) -> tuple[tuple[int, ...], int]:
    """The offset of each parameter in the action data, and the size of the action data, in limbs."""
    offsets: list[int] = []
    end = 0
    for width in widths:
        start = _aligned(end) if width >= WIDE_BITS else end
        offsets.append(start)
        end = start + limbs(width)
    return tuple(offsets), end


def to_limbs(value: int, width: int) -> bytes:
    """``value`` modulo 2^width (so a negative value becomes its two's complement); unused bits are 0."""
    wrapped = value & ((1 << width) - 1)
    little = wrapped.to_bytes(limbs(width) * LIMB_BYTES, "little")
    return little if sys.byteorder == "little" else _swapped(little)


def from_limbs(data: bytes | bytearray | memoryview, width: int, *, signed: bool = False) -> int:
    """The number of ``width`` bits at the start of ``data``. Raises ValueError if ``data`` is too short."""
    size_bytes = limbs(width) * LIMB_BYTES
    if len(data) < size_bytes:
        raise ValueError(f"{len(data)} bytes hold no number of {width} bits: it takes {size_bytes}")
    own = bytes(data[:size_bytes])
    value = int.from_bytes(own if sys.byteorder == "little" else _swapped(own), "little")
    value &= (1 << width) - 1
    return value - (1 << width) if signed and width and value >> (width - 1) else value


def _aligned(count: int) -> int:
    return -(-count // WIDE_LIMBS) * WIDE_LIMBS


def _swapped(data: bytes) -> bytes:
    """``data`` with the bytes of every limb reversed."""
    parts = (data[i : i + LIMB_BYTES] for i in range(0, len(data), LIMB_BYTES))
    return b"".join(part[::-1] for part in parts)
