# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Loads headers, stacks, unions, error codes, registers and counters.

Elements of stacks and unions become ordinary headers. In addition, a stack has the number of its next element, a field
of hidden metadata. A union has the rule that one valid member makes the others invalid.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from softswitch.errors import MalformedProgramError
from softswitch.program import ir
from softswitch.program.limits import (
    CELL_BYTES,
    CELLS,
    COUNTER_BYTES,
    OBJECTS,
    PACKET_BYTES,
    STACK_SIZE,
    STATE_BITS,
    STATE_BYTES,
    VARBIT,
    WIDTH,
)
from softswitch.program.load.node import JsonNode, declared_once, flag_of, source_of, unsupported
from softswitch.program.standard import HIDDEN, STANDARD, STANDARD_WIDTHS

INDEX_BITS = 32


class Hidden:
    """Collects metadata fields that the program does not declare. They start at 0, like other metadata."""

    def __init__(self) -> None:
        self._fields: dict[str, ir.Field] = {}

    def field(self, name: str, width: int) -> ir.FieldRef:
        """Return the field of this name. Asking twice gives the same field."""
        known = self._fields.setdefault(name, ir.Field(name, width))
        return ir.FieldRef(HIDDEN, known.name, known.width)

    def headers(self) -> dict[str, ir.Header]:
        """Return the metadata as a header, by name; empty if there are no such fields."""
        return {HIDDEN: ir.Header(HIDDEN, tuple(self._fields.values()), metadata=True)} if self._fields else {}


@dataclass(frozen=True)
class Stack:
    """A header stack. ``next``: how many elements the parser has extracted; push_front and pop_front change it."""

    name: str
    elements: tuple[str, ...]
    next: ir.FieldRef


@dataclass(frozen=True)
class Union:
    """A header union. ``members``: headers by the name of the member, in the order of the declaration."""

    name: str
    members: Mapping[str, str]


@dataclass(frozen=True)
class UnionStack:
    name: str
    elements: tuple[Union, ...]
    next: ir.FieldRef


@dataclass
class Aggregates:
    """``siblings``: the other members of a header's union."""

    stacks: dict[str, Stack] = field(default_factory=dict)
    unions: dict[str, Union] = field(default_factory=dict)
    union_stacks: dict[str, UnionStack] = field(default_factory=dict)
    siblings: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def all_of(self, name: str) -> list[str]:
        """Return the headers of the stack or union with this name, else the name itself."""
        if name in self.stacks:
            return list(self.stacks[name].elements)
        if name in self.union_stacks:
            return [header for union in self.union_stacks[name].elements for header in union.members.values()]
        return list(self.unions[name].members.values()) if name in self.unions else [name]


def load_aggregates(root: JsonNode, headers: Mapping[str, ir.Header], hidden: Hidden) -> Aggregates:
    """Load all aggregates. Raises MalformedProgramError and ProgramTooLargeError."""
    found = Aggregates()
    names = _ids(root.section("headers"))
    for node in root.section("header_stacks"):
        name = _declare(node, found.stacks, headers)
        elements = tuple(_one_of(part, names) for part in node["header_ids"].items(STACK_SIZE))
        if not elements or len({headers[each].fields for each in elements}) != 1 or len(set(elements)) < len(elements):
            raise node["header_ids"].wrong("is not a list of different headers of one type")
        found.stacks[name] = Stack(name, elements, hidden.field(f"{name}#next", INDEX_BITS))
    types = {node["name"].name(): node for node in root.section("header_union_types")}
    for node in root.section("header_unions"):
        name = _declare(node, found.unions, headers)
        members = types[node["union_type"].choice(types, "header union type")]["headers"].items()
        own = [_one_of(part, names) for part in node["header_ids"].items()]
        if len(own) != len(members) or len(set(own)) < len(own) or any(each in found.siblings for each in own):
            raise node["header_ids"].wrong(f"does not name the {len(members)} members of the union")
        found.unions[name] = Union(name, {part[0].name(): each for part, each in zip(members, own, strict=True)})
        found.siblings |= {each: tuple(other for other in own if other != each) for each in own}
    unions = _ids(root.section("header_unions"))
    for node in root.section("header_union_stacks"):
        name = _declare(node, found.union_stacks, headers)
        parts = tuple(found.unions[_one_of(part, unions)] for part in node["header_union_ids"].items(STACK_SIZE))
        if not parts or len({tuple(part.members) for part in parts}) != 1:
            raise node["header_union_ids"].wrong("is not a list of unions of one type")
        found.union_stacks[name] = UnionStack(name, parts, hidden.field(f"{name}#next", INDEX_BITS))
    return found


def _declare(node: JsonNode, known: Mapping[str, object], headers: Mapping[str, ir.Header]) -> str:
    name = node["name"].name()
    declared_once(node["name"], name, known)
    declared_once(node["name"], name, headers)
    return name


def _ids(nodes: list[JsonNode]) -> dict[int, str]:
    """Names by id. Headers without an id are numbered, as bmv2's examples are."""
    found: dict[int, str] = {}
    for number, node in enumerate(nodes):
        given = node.get("id")
        index = number if given is None else given.integer(0, OBJECTS)
        if index in found:
            raise (node if given is None else given).wrong("is the id of two of them")
        found[index] = node["name"].name()
    return found


def _one_of(node: JsonNode, names: Mapping[int, str]) -> str:
    index = node.integer(0, OBJECTS)
    if index not in names:
        raise node.wrong("is nothing's id")
    return names[index]


CORE_ERRORS = ["NoError", "PacketTooShort", "NoMatch", "StackOutOfBounds", "HeaderTooShort", "ParserTimeout"]
_ERROR_BITS = STANDARD_WIDTHS["parser_error"]


_VARIABLE = "*"
_LENGTH_BITS = 16


@dataclass(frozen=True)
class VarbitHeader:
    """A header with a varbit field, split in parts: the fields before it are the header itself.

    ``name``: that of the field. ``rest``: the header of the fields after it, None if there are none.
    """

    name: str
    varbit: ir.Varbit
    rest: str | None
    most_bytes: int


@dataclass
class Headers:
    """The loaded headers. ``headers``: headers and metadata by name. ``varbits``: by the header that has them."""

    headers: dict[str, ir.Header]
    varbits: dict[str, VarbitHeader]
    hidden: Hidden


def load_headers(root: JsonNode) -> Headers:
    """Load headers and metadata. standard_metadata must be that of v1model."""
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


def _load_header(node: JsonNode, types: dict[str, JsonNode], found: Headers) -> int:
    """Add the header; return its bits."""
    declared = types[node["header_type"].choice(types, "header type")]
    if any(part[1].value == _VARIABLE for part in declared["fields"].items()):
        return _load_varbit(node, declared, found)
    header = _header(node, declared)
    found.headers[header.name] = header
    return header.width


def _load_varbit(node: JsonNode, declared: JsonNode, found: Headers) -> int:
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


def _header(node: JsonNode, declared: JsonNode) -> ir.Header:
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


def _field(part: JsonNode, header: str, node: JsonNode) -> ir.Field:
    name = part[0].name()
    where = f"{header}.{name}"
    width = part[1].integer(-CELLS, CELLS)
    if not 1 <= width <= WIDTH:
        raise unsupported(f"field {where} of {width} bits (1..{WIDTH})", source_of(node))
    signed = part[2].value != 0 and part[2].flag(default=False) if len(part.items()) > 2 else False  # 0: of a bool
    return ir.Field(name, width, signed)


def _check_standard(header: ir.Header, declared: JsonNode) -> None:
    """The engines write these fields themselves, at the widths that v1model gives them."""
    fields = {member.name: member for member in header.fields}
    if not header.metadata or "egress_spec" not in fields:
        raise declared.wrong("is not v1model's standard_metadata: no metadata with an egress_spec")
    for name, member in fields.items():
        if name in STANDARD_WIDTHS and (member.width != STANDARD_WIDTHS[name] or member.signed):
            raise declared["fields"].wrong(f"has {name} of other than {STANDARD_WIDTHS[name]} bits without a sign")


def load_errors(root: JsonNode) -> dict[str, int]:
    errors: dict[str, int] = {}
    for part in root.section("errors"):
        declared_once(part[0], part[0].name(), errors)
        errors[part[0].name()] = part[1].integer(0, (1 << _ERROR_BITS) - 2 - len(CORE_ERRORS))
    for name in CORE_ERRORS:
        if name not in errors:
            errors[name] = max(errors.values(), default=-1) + 1
    return errors


def load_registers(root: JsonNode) -> dict[str, ir.Register]:
    registers: dict[str, ir.Register] = {}
    for node in root.section("register_arrays"):
        register = _register(node)
        declared_once(node["name"], register.name, registers)
        registers[register.name] = register
    return registers


def _register(node: JsonNode) -> ir.Register:
    name = node["name"].name()
    width = node["bitwidth"].integer(-CELLS, CELLS)
    if not 1 <= width <= WIDTH:
        raise unsupported(f"register {name!r} of {width} bits (1..{WIDTH})", source_of(node))
    return ir.Register(name, _cells(node), width, flag_of(node, "signed", default=False))


def load_counters(root: JsonNode) -> dict[str, ir.CounterArray]:
    counters: dict[str, ir.CounterArray] = {}
    for node in root.section("counter_arrays"):
        name = node["name"].name()
        declared_once(node["name"], name, counters)
        if flag_of(node, "is_direct", default=False):
            counters[name] = ir.CounterArray(name, 0, node["binding"].name())
        else:
            counters[name] = ir.CounterArray(name, _cells(node))
    return counters


def _cells(node: JsonNode) -> int:
    size = node["size"].integer(0, (1 << 64) - 1)
    if size > CELLS:
        raise node["size"].too_large(f"{size} cells", CELLS)
    return size


def check_memory(root: JsonNode, registers: dict[str, ir.Register], counters: dict[str, ir.CounterArray]) -> None:
    """Raise ProgramTooLargeError if registers and counters together take too much memory in one of the engines."""
    taken = 0
    for key, sizes in (
        ("register_arrays", [each.size * (CELL_BYTES + each.width // 8) for each in registers.values()]),
        ("counter_arrays", [each.size * COUNTER_BYTES for each in counters.values()]),
    ):
        for node, size_bytes in zip(root.section(key), sizes, strict=True):
            taken += size_bytes
            if taken > STATE_BYTES:
                raise node["size"].too_large(f"registers and counters of {taken} bytes up to here", STATE_BYTES)
