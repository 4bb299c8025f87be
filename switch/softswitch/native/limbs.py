# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The layout of numbers in the native engine's memory, and the C types in which they are computed.

By the rules of ``struct ss_program`` in engine.h a number is a sequence of limbs: 64-bit words, the least significant
first. A carrier is the C type of a computation, see wide.h.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

LIMB_BITS = 64
LIMB_BYTES = LIMB_BITS // 8
WIDE_BITS = 512  # SS_WIDE_BITS
WIDE_LIMBS = WIDE_BITS // LIMB_BITS


def limbs(width: int) -> int:
    """Return how many limbs a number of ``width`` bits takes."""
    count = max(1, -(-width // LIMB_BITS))
    return _aligned(count) if width >= WIDE_BITS else count


def argument_offsets(widths: Iterable[int]) -> tuple[tuple[int, ...], int]:
    """Return the offset of each parameter in the action data, and the size of the action data, in limbs."""
    offsets: list[int] = []
    end = 0
    for width in widths:
        start = _aligned(end) if width >= WIDE_BITS else end
        offsets.append(start)
        end = start + limbs(width)
    return tuple(offsets), end


def to_limbs(value: int, width: int) -> bytes:
    """Encode ``value`` modulo 2^width (so a negative value becomes its two's complement); unused bits are 0."""
    wrapped = value & ((1 << width) - 1)
    little = wrapped.to_bytes(limbs(width) * LIMB_BYTES, "little")
    return little if sys.byteorder == "little" else _swapped(little)


def from_limbs(data: bytes | bytearray | memoryview, width: int, *, signed: bool = False) -> int:
    """Return the ``width``-bit number at the start of ``data``. Raises ValueError if ``data`` is too short."""
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


_LIMB = (1 << LIMB_BITS) - 1


class Kind(Enum):
    """The kind of a C type: ``uint64_t`` for one limb, ``_BitInt`` of whole limbs, or a SIMD vector of limbs."""

    LIMB = 1
    BITINT = 2
    VECTOR = 3


@dataclass(frozen=True)
class Carrier:
    """An unsigned type of whole limbs; negative values are kept as two's complement."""

    kind: Kind
    limbs: int

    @property
    def bits(self) -> int:
        return LIMB_BITS * self.limbs

    @property
    def name(self) -> str:
        if self.kind is Kind.LIMB:
            return "uint64_t"
        return f"ss_{'v' if self.kind is Kind.VECTOR else 'b'}{self.limbs}"

    @property
    def signed_name(self) -> str:
        """The signed type of this size; vectors have none."""
        return "int64_t" if self.kind is Kind.LIMB else f"signed _BitInt({self.bits})"

    def constant(self, value: int) -> str:
        """Return C text of ``value`` modulo 2^bits."""
        value &= (1 << self.bits) - 1
        if self.kind is Kind.LIMB:
            return _literal(value)
        if self.kind is Kind.BITINT:
            return f"(({self.name})0x{value:x}uwb)"
        parts = split_limbs(value, self.limbs)
        if len(set(parts)) == 1:
            return f"(({self.name})({_literal(parts[0])}))"
        return f"(({self.name}){{{', '.join(map(_literal, parts))}}})"


def _literal(value: int) -> str:
    # Always 64 bits: the literal may be the operand of a shift.
    return f"{value}ull" if value < 10 else f"0x{value:x}ull"


def split_limbs(value: int, count: int) -> list[int]:
    """Return the limbs of ``value``, the least significant first."""
    return [value >> LIMB_BITS * i & _LIMB for i in range(count)]


LIMB = Carrier(Kind.LIMB, 1)
_VECTORS = (8, 16, 32)


def carrier(bits: int) -> Carrier:
    """Return the smallest carrier of ``bits`` bits."""
    count = max(1, -(-bits // LIMB_BITS))
    if count == 1:
        return LIMB
    if count < WIDE_LIMBS:
        return Carrier(Kind.BITINT, count)
    for size in _VECTORS:
        if count <= size:
            return Carrier(Kind.VECTOR, size)
    # Few different types, because each costs compile time.
    return Carrier(Kind.BITINT, -(-count // 16) * 16)


def carrier_of(low: int, high: int) -> Carrier:
    """Return the smallest carrier that holds all values in [low, high], with a sign if ``low`` is negative."""
    return carrier(high.bit_length() if low >= 0 else max((~low).bit_length(), high.bit_length()) + 1)


def convert(text: str, source: Carrier, target: Carrier, *, signed: bool) -> str:
    """Return C text of ``text`` modulo 2^target.bits. ``signed``: its highest bit is a sign."""
    if source == target:
        return text
    if Kind.VECTOR in (source.kind, target.kind):
        return _convert_vector(text, source, target, signed=signed)
    inner = f"({source.signed_name}){text}" if signed and target.bits > source.bits else text
    return f"(({target.name}){inner})"


def _convert_vector(text: str, source: Carrier, target: Carrier, *, signed: bool) -> str:
    match source.kind, target.kind:
        case Kind.LIMB, _:
            fill = f"(uint64_t)((int64_t){text} >> 63)" if signed else "0"
            return f"{target.name}_of({text}, {fill})"
        case _, Kind.LIMB:
            return f"({text})[0]"
        case Kind.VECTOR, Kind.VECTOR:
            return _resize(text, source, target, signed=signed)
        case Kind.VECTOR, _:
            as_bits = f"{source.name}_bits({text})"
            return convert(as_bits, Carrier(Kind.BITINT, source.limbs), target, signed=signed)
    bits = Carrier(Kind.BITINT, target.limbs)
    return f"{target.name}_of_bits({convert(text, source, bits, signed=signed)})"


def _resize(text: str, source: Carrier, target: Carrier, *, signed: bool) -> str:
    if target.limbs < source.limbs:
        return f"__builtin_shufflevector({text}, {text}, {_indices(range(target.limbs))})"
    # An upper limb is the first limb of the second operand: 0, or the sign.
    sign = f"(uint64_t)((int64_t)({text})[{source.limbs - 1}] >> 63)" if signed else "0"
    fill = f"(({source.name})({sign}))"
    picked = [i if i < source.limbs else source.limbs for i in range(target.limbs)]
    return f"__builtin_shufflevector({text}, {fill}, {_indices(picked)})"


def shift_left(text: str, kind: Carrier, distance: int) -> str:
    """Shift a vector left by a constant number of bits below its size."""
    return _shift(text, kind, distance, up=True)


def shift_right(text: str, kind: Carrier, distance: int) -> str:
    """Shift an unsigned vector right by a constant number of bits below its size."""
    return _shift(text, kind, distance, up=False)


def _shift(text: str, kind: Carrier, distance: int, *, up: bool) -> str:
    whole, part = divmod(distance, LIMB_BITS)
    near = _moved(text, kind, whole, up=up)
    if not part:
        return near
    far = _moved(text, kind, whole + 1, up=up)
    to, back = ("<<", ">>") if up else (">>", "<<")
    return f"({near} {to} {part} | {far} {back} {LIMB_BITS - part})"


def _moved(text: str, kind: Carrier, whole: int, *, up: bool) -> str:
    """``text`` shifted by ``whole`` limbs."""
    if whole == 0:
        return text
    sources = [i - whole if up else i + whole for i in range(kind.limbs)]
    picked = [i if 0 <= i < kind.limbs else kind.limbs for i in sources]
    return f"__builtin_shufflevector({text}, ({kind.name})(0), {_indices(picked)})"


def _indices(numbers: range | list[int]) -> str:
    return ", ".join(map(str, numbers))
