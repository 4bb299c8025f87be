# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Loads headers, error codes, registers and counters."""

from __future__ import annotations

from dataclasses import dataclass

from softswitch.errors import MalformedProgramError
from softswitch.program import ir
from softswitch.program.limits import (
    CELL_BYTES,
    CELLS,
    COUNTER_BYTES,
    PACKET_BYTES,
    STATE_BITS,
    STATE_BYTES,
    VARBIT,
    WIDTH,
)
from softswitch.program.load.aggregates import Hidden
from softswitch.program.load.node import Node, declared_once, flag_of, source_of, unsupported
from softswitch.program.standard import STANDARD, STANDARD_WIDTHS

CORE_ERRORS = ["NoError", "PacketTooShort", "NoMatch", "StackOutOfBounds", "HeaderTooShort", "ParserTimeout"]
_ERROR_BITS = STANDARD_WIDTHS["parser_error"]


_VARIABLE = "*"
_LENGTH_BITS = 16


@dataclass(frozen=True)
class VarbitHeader:
    """A header with a varbit field, taken apart: the fields before it are the header itself.

    ``name``: of the field. ``rest``: the header of the fields behind it, None where there are none.
    """

    name: str
    varbit: ir.Varbit
    rest: str | None
    most_bytes: int


@dataclass
class Headers:
    """``headers``: headers and metadata by name. ``varbits``: by the header they are in."""

    headers: dict[str, ir.Header]
    varbits: dict[str, VarbitHeader]
    hidden: Hidden


def load_headers(root: Node) -> Headers:
    """Headers and metadata; standard_metadata is as v1model has it."""
    types = {node["name"].name(): node for node in root["header_types"].items()}
    found = Headers({}, {}, Hidden())
    headers = found.headers
    bits = 0
    for node in root["headers"].items():
        name = node["name"].name()
        declared_once(node["name"], name, headers)
        bits += _load_header(node, types, found)
        if bits > STATE_BITS:
            raise node.too_large("more bits in headers and metadata", STATE_BITS)
    if STANDARD not in headers:
        raise MalformedProgramError(
            "the program has no standard_metadata: only v1model programs run here; compile it for v1model", "headers"
        )
    return found


def _load_header(node: Node, types: dict[str, Node], found: Headers) -> int:
    """Add the header; return its bits."""
    declared = types[node["header_type"].choice(types, "header type")]
    if any(part[1].value == _VARIABLE for part in declared["fields"].items()):
        return _load_varbit(node, declared, found)
    header = _header(node, declared)
    found.headers[header.name] = header
    return header.width


def _load_varbit(node: Node, declared: Node, found: Headers) -> int:
    name = node["name"].name()
    parts = declared["fields"].items()
    at = [part[1].value == _VARIABLE for part in parts]
    metadata = node["metadata"].flag()
    if at.count(True) > 1:
        raise unsupported(f"header {name!r} with two varbit fields", source_of(node))
    place = at.index(True)
    sides = [tuple(_field(part, name, node) for part in side) for side in (parts[:place], parts[place + 1 :])]
    if any(sum(member.width for member in side) % 8 for side in sides):
        raise unsupported(f"varbit field of {name!r} that starts or ends inside a byte", source_of(node))
    if len({member.name for side in sides for member in side}) != len(parts) - 1:
        raise declared["fields"].wrong("has two fields of one name")
    fixed = sum(member.width for side in sides for member in side)
    most_bytes = declared["max_length"].integer(0, PACKET_BYTES)
    width = 8 * most_bytes - fixed
    own = parts[place][0].name()
    if not 1 <= width <= VARBIT:
        raise unsupported(f"varbit field {name}.{own} of up to {width} bits (1..{VARBIT})", source_of(node))
    rest = f"{name}#rest" if sides[1] else None
    found.headers[name] = ir.Header(name, sides[0], metadata)
    if rest is not None:
        found.headers[rest] = ir.Header(rest, sides[1], metadata)
    value = found.hidden.field(f"{name}.{own}", width)
    varbit = ir.Varbit(value, found.hidden.field(f"{name}.{own}#bits", _LENGTH_BITS))
    found.varbits[name] = VarbitHeader(own, varbit, rest, most_bytes)
    return fixed + width + _LENGTH_BITS


def _header(node: Node, declared: Node) -> ir.Header:
    name = node["name"].name()
    fields = tuple(_field(part, name, node) for part in declared["fields"].items())
    if len({member.name for member in fields}) != len(fields):
        raise declared["fields"].wrong("has two fields of one name")
    header = ir.Header(name, fields, node["metadata"].flag())
    if not header.metadata and header.width % 8:
        raise unsupported(f"header {name!r} of {header.width} bits (no whole bytes)", source_of(node))
    if name == STANDARD:
        _check_standard(header, declared)
    return header


def _field(part: Node, header: str, node: Node) -> ir.Field:
    name = part[0].name()
    where = f"{header}.{name}"
    width = part[1].integer(-CELLS, CELLS)
    if not 1 <= width <= WIDTH:
        raise unsupported(f"field {where} of {width} bits (1..{WIDTH})", source_of(node))
    signed = part[2].value != 0 and part[2].flag(default=False) if len(part.items()) > 2 else False  # 0: of a bool
    return ir.Field(name, width, signed)


def _check_standard(header: ir.Header, declared: Node) -> None:
    """The engines write these fields themselves, at the widths that v1model gives them."""
    fields = {member.name: member for member in header.fields}
    if not header.metadata or "egress_spec" not in fields:
        raise declared.wrong("is not v1model's standard_metadata: no metadata with an egress_spec")
    for name, member in fields.items():
        if name in STANDARD_WIDTHS and (member.width != STANDARD_WIDTHS[name] or member.signed):
            raise declared["fields"].wrong(f"has {name} of other than {STANDARD_WIDTHS[name]} bits without a sign")


def load_errors(root: Node) -> dict[str, int]:
    errors: dict[str, int] = {}
    for part in root.section("errors"):
        declared_once(part[0], part[0].name(), errors)
        errors[part[0].name()] = part[1].integer(0, (1 << _ERROR_BITS) - 2 - len(CORE_ERRORS))
    for name in CORE_ERRORS:
        if name not in errors:
            errors[name] = max(errors.values(), default=-1) + 1
    return errors


def load_registers(root: Node) -> dict[str, ir.Register]:
    registers: dict[str, ir.Register] = {}
    for node in root.section("register_arrays"):
        register = _register(node)
        declared_once(node["name"], register.name, registers)
        registers[register.name] = register
    return registers


def _register(node: Node) -> ir.Register:
    name = node["name"].name()
    width = node["bitwidth"].integer(-CELLS, CELLS)
    if not 1 <= width <= WIDTH:
        raise unsupported(f"register {name!r} of {width} bits (1..{WIDTH})", source_of(node))
    return ir.Register(name, _cells(node), width, flag_of(node, "signed", default=False))


def load_counters(root: Node) -> dict[str, ir.CounterArray]:
    counters: dict[str, ir.CounterArray] = {}
    for node in root.section("counter_arrays"):
        name = node["name"].name()
        declared_once(node["name"], name, counters)
        if flag_of(node, "is_direct", default=False):
            counters[name] = ir.CounterArray(name, 0, node["binding"].name())
        else:
            counters[name] = ir.CounterArray(name, _cells(node))
    return counters


def _cells(node: Node) -> int:
    size = node["size"].integer(0, (1 << 64) - 1)
    if size > CELLS:
        raise node["size"].too_large(f"{size} cells", CELLS)
    return size


def check_memory(root: Node, registers: dict[str, ir.Register], counters: dict[str, ir.CounterArray]) -> None:
    """Raises ProgramTooLargeError if registers and counters together take too much memory in one of the engines."""
    taken = 0
    for key, sizes in (
        ("register_arrays", [each.size * (CELL_BYTES + each.width // 8) for each in registers.values()]),
        ("counter_arrays", [each.size * COUNTER_BYTES for each in counters.values()]),
    ):
        for node, size_bytes in zip(root.section(key), sizes, strict=True):
            taken += size_bytes
            if taken > STATE_BYTES:
                raise node["size"].too_large(f"registers and counters of {taken} bytes up to here", STATE_BYTES)
