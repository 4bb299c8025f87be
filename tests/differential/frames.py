# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Frames for a program, along its parser's paths, with values that its selects and tables match; damaged frames."""

from __future__ import annotations

from differential.draws import Draws
from softswitch.program import ir
from softswitch.program.traverse import parser_ops

LONG = 1500
MOST_STATES = 12  # of a parser with loops


class _Bits:
    def __init__(self) -> None:
        self.value = 0
        self.width = 0

    def append(self, value: int, width: int) -> None:
        self.value = self.value << width | value
        self.width += width

    def put(self, start: int, width: int, value: int) -> None:
        """Overwrite bits; the frame grows if it is too short."""
        if start + width > self.width:
            self.append(0, start + width - self.width)
        shift = self.width - start - width
        self.value = self.value & ~(((1 << width) - 1) << shift) | value << shift


def make_frame(draws: Draws, program: ir.Program) -> bytes:
    bits = _along_the_parser(draws, program)
    bits.append(0, -bits.width % 8)
    frame = bits.value.to_bytes(bits.width // 8)
    frame += draws.random.randbytes(draws.one([0, 0, 1, 7, 40, LONG if draws.chance(0.1) else 3]))
    return damaged(draws, frame)


def damaged(draws: Draws, frame: bytes) -> bytes:
    """A copy of ``frame``, sometimes damaged."""
    match draws.one(["whole"] * 12 + ["cut"] * 4 + ["flipped", "flipped", "empty", "noise"]):
        case "cut":
            return frame[: draws.one([draws.count(0, len(frame)), max(0, len(frame) - draws.count(0, 9))])]
        case "flipped" if frame:
            changed = bytearray(frame)
            for _ in range(draws.count(1, 4)):
                changed[draws.count(0, len(frame) - 1)] ^= 1 << draws.count(0, 7)
            return bytes(changed)
        case "empty":
            return b""
        case "noise":
            return draws.random.randbytes(draws.count(0, 80))
    return frame


def _along_the_parser(draws: Draws, program: ir.Program) -> _Bits:
    """Choose a case of each select, and write the values that it matches where they come from the frame."""
    bits = _Bits()
    where: dict[tuple[str, str], int] = {}
    position = 0
    name: str | None = program.parser.start
    for _ in range(MOST_STATES):
        if name is None:
            break
        state = program.parser.states[name]
        for op in parser_ops(state.ops):
            if isinstance(op, ir.Extract | ir.ExtractVarbit):
                for member in program.headers[op.header].fields:
                    bits.put(position, member.width, draws.number(member.width))
                    where[op.header, member.name] = position
                    position += member.width
            elif isinstance(op, ir.Advance) and isinstance(op.bits, ir.Const) and op.bits.value % 8 == 0:
                position += op.bits.value
        case = draws.one([*state.cases, None])
        if case is not None:
            for part, value, mask in zip(state.key, case.values, case.masks, strict=case.value_set is None):
                if isinstance(part, ir.FieldRef) and (part.header, part.field) in where:
                    free = draws.random.getrandbits(part.width) & ~mask
                    bits.put(where[part.header, part.field], part.width, value | free)
                elif isinstance(part, ir.Lookahead):
                    free = draws.random.getrandbits(part.width) & ~mask
                    bits.put(position + part.offset, part.width, value | free)
        name = case.next_state if case is not None else state.default
    return bits
