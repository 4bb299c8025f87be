# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""C text that reads numbers from a frame's bits and writes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from softswitch.native.emit_carrier import LIMB, Kind, carrier
from softswitch.native.emit_code import Code
from softswitch.native.emit_expr import ExprEmitter
from softswitch.native.limbs import LIMB_BITS, limbs
from softswitch.program import ir
from softswitch.program.numbers import full


@dataclass(frozen=True)
class Slice:
    """``width`` bits that start ``offset`` bits after a byte of the frame."""

    offset: int
    width: int

    @property
    def byte(self) -> int:
        return self.offset // 8

    @property
    def bit(self) -> int:
        return self.offset % 8

    @property
    def end_byte(self) -> int:
        return -(-(self.offset + self.width) // 8)

    @property
    def is_bytes(self) -> bool:
        return self.bit == 0 and self.width % 8 == 0


def slices(header: ir.Header) -> Iterator[tuple[ir.Field, Slice]]:
    """The fields of ``header``, and where they lie."""
    offset = 0
    for member in header.fields:
        yield member, Slice(offset, member.width)
        offset += member.width


def read_bits(part: Slice, base: str, code: Code, expressions: ExprEmitter) -> str:
    """Name of a constant in carrier(part.width). ``base``: C text of the address from which ``part`` counts."""
    kind = carrier(part.width)
    at = f"{base} + {part.byte}"
    if kind == LIMB:
        return code.value(LIMB, _narrow(part, at))
    if part.is_bytes and kind.kind is Kind.VECTOR and part.width == kind.bits:
        return code.value(kind, f"{kind.name}_get({at})")
    array = code.name()
    count = limbs(part.width)
    code.line(f"uint64_t {array}[{count}];")
    code.line(f"ss_get_bits({array}, {count}, {at}, {part.bit}, {part.width});")
    return expressions.load(array, part.width, fresh=True)


def _narrow(part: Slice, at: str) -> str:
    size_bytes = part.end_byte - part.byte
    unused = 8 * size_bytes - part.bit - part.width
    if size_bytes > LIMB_BITS // 8:
        text = f"(ss_get({at}, 8) << {8 - unused} | (uint64_t)({at})[8] >> {unused})"
    else:
        text = f"ss_get({at}, {size_bytes})"
        text = f"({text} >> {unused})" if unused else text
    return f"{text} & {LIMB.constant(full(part.width))}" if part.bit and part.width < LIMB_BITS else text


def write_header(header: ir.Header, members: dict[str, str], base: str, code: Code, expressions: ExprEmitter) -> None:
    """Write a header's bytes at ``base``, a ``uint8_t *``. ``members``: the state's member of each field."""
    group: list[tuple[str, Slice]] = []
    for member, part in slices(header):
        group.append((code.read(members[member.name], carrier(member.width)), part))
        if (part.offset + part.width) % 8 == 0:
            _write_group(group, base, code, expressions)
            group = []


def _write_group(group: list[tuple[str, Slice]], base: str, code: Code, expressions: ExprEmitter) -> None:
    """Write neighbouring fields that together are whole bytes."""
    first, last = group[0][1], group[-1][1]
    end = last.offset + last.width
    width = end - first.offset
    at = f"{base} + {first.byte}"
    if width <= LIMB_BITS:
        terms = [f"{text} << {end - part.offset - part.width}" for text, part in group]
        code.line(f"ss_put({at}, {width // 8}, {' | '.join(terms)});")
        return
    kind = carrier(width)
    if len(group) == 1 and kind.kind is Kind.VECTOR and width == kind.bits:
        code.line(f"{kind.name}_put({at}, {group[0][0]});")
        return
    code.line(f"memset({at}, 0, {width // 8});")
    for text, part in group:
        array = code.name()
        code.line(f"uint64_t {array}[{limbs(part.width)}];")
        expressions.save(array, text, part.width)
        code.line(f"ss_put_bits({at}, {part.offset - first.offset}, {part.width}, {array});")
