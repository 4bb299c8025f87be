# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""How the Python engine keeps headers: which fields become local variables, and how bytes become fields and back.

A header is cut into units. A unit is a field that the program uses, a run of whole bytes that it does not read (kept
as bytes), or a run that is not needed at all (skipped). Units are grouped to whole bytes. Each group is one or two
items of a ``struct`` format, so that a header costs one unpack call.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from softswitch.program import ir
from softswitch.program.analysis import Usage
from softswitch.program.emitted_text import identifier
from softswitch.program.traverse import FieldKey

_CODES = {8: "B", 16: "H", 32: "I", 64: "Q"}


class UnitKind(Enum):
    INTEGER = 1
    BYTES = 2
    SKIP = 3


@dataclass(frozen=True)
class Unit:
    """``width`` bits from bit ``offset`` on, kept in local variable ``local`` (empty for SKIP)."""

    kind: UnitKind
    local: str
    offset: int
    width: int
    signed: bool = False


@dataclass(frozen=True)
class Layout:
    """Storage of one header.

    ``valid`` and ``position`` name local variables. ``position`` holds the offset of the header's unchanged bytes in
    the frame, or -1 if the header has changed.
    """

    header: ir.Header
    valid: str
    position: str
    units: tuple[Unit, ...]
    groups: tuple[tuple[Unit, ...], ...]

    @property
    def locals(self) -> list[str]:
        return [unit.local for unit in self.units if unit.kind is not UnitKind.SKIP]


@dataclass
class Storage:
    """Names of local variables. Fields that the program never reads have none."""

    fields: dict[FieldKey, str] = field(default_factory=dict)
    layouts: dict[str, Layout] = field(default_factory=dict)

    def valid(self, header: str) -> str:
        return self.layouts[header].valid


def plan_storage(program: ir.Program, usage: Usage, intrinsic: set[FieldKey]) -> Storage:
    """Choose the local variables. ``intrinsic``: fields that the engine itself reads."""
    storage = Storage()
    copied = {name for pair in usage.copies for name in pair}
    taken: set[str] = set()
    for header in program.headers.values():
        rebuilt = header.name in usage.changed and header.name in program.deparser
        whole = header.name in copied
        units: list[Unit] = []
        offset = 0
        for member in header.fields:
            key = (header.name, member.name)
            used = key in usage.read or key in intrinsic or whole or (rebuilt and key in usage.written)
            if used:
                local = identifier("f_" + header.name + "_" + member.name, taken)
                storage.fields[key] = local
                units.append(Unit(UnitKind.INTEGER, local, offset, member.width, member.signed))
            else:
                kind = UnitKind.BYTES if rebuilt else UnitKind.SKIP
                units.append(Unit(kind, "", offset, member.width, member.signed))
            offset += member.width
        if not header.metadata:
            merged = _name_bytes(header, _merge(units), taken)
            storage.layouts[header.name] = Layout(
                header,
                identifier("v_" + header.name, taken),
                identifier("o_" + header.name, taken),
                tuple(merged),
                tuple(_groups(merged)),
            )
    return storage


def _merge(units: list[Unit]) -> list[Unit]:
    """Join neighbouring unread units where they are whole bytes; what is left over becomes integers."""
    result: list[Unit] = []
    for unit in units:
        last = result[-1] if result else None
        if last is not None and last.kind is unit.kind and unit.kind is not UnitKind.INTEGER:
            result[-1] = Unit(unit.kind, "", last.offset, last.width + unit.width)
        else:
            result.append(unit)
    return [piece for unit in result for piece in _split(unit)]


def _split(unit: Unit) -> list[Unit]:
    """Cut a run at byte boundaries. Incomplete bytes at its ends stay integers (or skipped bits)."""
    if unit.kind is UnitKind.INTEGER:
        return [unit]
    start, end = unit.offset, unit.offset + unit.width
    inner_start, inner_end = (start + 7) // 8 * 8, end // 8 * 8
    edge = UnitKind.INTEGER if unit.kind is UnitKind.BYTES else UnitKind.SKIP
    if inner_start >= inner_end:
        return [Unit(edge, "", start, end - start)]
    pieces = [
        Unit(edge, "", start, inner_start - start),
        Unit(unit.kind, "", inner_start, inner_end - inner_start),
        Unit(edge, "", inner_end, end - inner_end),
    ]
    return [piece for piece in pieces if piece.width]


def _name_bytes(header: ir.Header, units: list[Unit], taken: set[str]) -> list[Unit]:
    named = []
    for unit in units:
        if unit.kind is UnitKind.SKIP or unit.local:
            named.append(unit)
        else:
            local = identifier(f"x_{header.name}_{unit.offset}", taken)
            named.append(Unit(unit.kind, local, unit.offset, unit.width))
    return named


def _groups(units: list[Unit]) -> list[tuple[Unit, ...]]:
    groups: list[tuple[Unit, ...]] = []
    current: list[Unit] = []
    for unit in units:
        current.append(unit)
        if (unit.offset + unit.width) % 8 == 0:
            groups.append(tuple(current))
            current = []
    return groups


# ---------------------------------------------------------------- bytes to fields


def group_width(group: tuple[Unit, ...]) -> int:
    return sum(unit.width for unit in group)


def struct_codes(group: tuple[Unit, ...]) -> str:
    """The ``struct`` items of one group."""
    width = group_width(group)
    if all(unit.kind is UnitKind.SKIP for unit in group):
        return f"{width // 8}x"
    if group[0].kind is UnitKind.BYTES:
        return f"{width // 8}s"
    if width == 48:
        return "HI"
    return _CODES.get(width, f"{width // 8}s")


def unpack_targets(group: tuple[Unit, ...], index: int) -> tuple[list[str], list[str]]:
    """Names for a group's ``struct`` items, and the statements that compute fields from them."""
    if all(unit.kind is UnitKind.SKIP for unit in group):
        return [], []
    width = group_width(group)
    temporary = f"t{index}"
    names, statements = [temporary], []
    if group[0].kind is UnitKind.BYTES:
        return [group[0].local], []
    if width == 48:
        names = [temporary, f"{temporary}b"]
        source = f"{temporary} << 32 | {temporary}b"
    elif width in _CODES:
        source = temporary
        if len(group) == 1 and not group[0].signed:
            return [group[0].local], []
    else:
        source = f"from_bytes({temporary})"
    if len(group) == 1:
        return names, [f"{group[0].local} = {_signed(group[0], source)}"]
    if source != temporary:
        statements.append(f"{temporary} = {source}")
    end = group[-1].offset + group[-1].width
    for unit in group:
        if unit.kind is UnitKind.SKIP:
            continue
        shift = end - unit.offset - unit.width
        value = f"{temporary} >> {shift}" if shift else temporary
        if unit is not group[0]:
            value = f"{value} & {(1 << unit.width) - 1:#x}"
        statements.append(f"{unit.local} = {_signed(unit, value)}")
    return names, statements


def _signed(unit: Unit, value: str) -> str:
    if not unit.signed:
        return value
    half = 1 << (unit.width - 1)
    return f"(({value}) ^ {half:#x}) - {half:#x}"


# ---------------------------------------------------------------- fields to bytes


def pack_arguments(group: tuple[Unit, ...]) -> list[str]:
    """Expressions for a group's ``struct`` items, to pack it."""
    width = group_width(group)
    if group[0].kind is UnitKind.BYTES:
        return [group[0].local]
    end = group[-1].offset + group[-1].width
    parts = []
    for unit in group:
        shift = end - unit.offset - unit.width
        value = f"({unit.local} & {(1 << unit.width) - 1:#x})" if unit.signed else unit.local
        parts.append(f"{value} << {shift}" if shift else value)
    value = " | ".join(parts)
    if width == 48:
        whole = value if len(group) == 1 else f"({value})"
        return [f"{whole} >> 32", f"{whole} & 0xffffffff"]
    if width in _CODES:
        return [value]
    return [f"({value}).to_bytes({width // 8})"]
