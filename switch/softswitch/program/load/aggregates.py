# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Header stacks, header unions and stacks of unions.

Their elements are headers like any other. What remains of a stack is the number of its next element, which is a field
of hidden metadata; what remains of a union is that one valid member makes the others invalid.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from softswitch.program import ir
from softswitch.program.limits import OBJECTS, STACK_SIZE
from softswitch.program.load.node import Node, declared_once
from softswitch.program.standard import HIDDEN

INDEX_BITS = 32


class Hidden:
    """Collects fields of metadata that the program does not declare. They start at 0, like other metadata."""

    def __init__(self) -> None:
        self._fields: dict[str, ir.Field] = {}

    def field(self, name: str, width: int) -> ir.FieldRef:
        """The field of this name; asking twice gives the same field."""
        known = self._fields.setdefault(name, ir.Field(name, width))
        return ir.FieldRef(HIDDEN, known.name, known.width)

    def headers(self) -> dict[str, ir.Header]:
        """The metadata as a header by name; none if there are no such fields."""
        return {HIDDEN: ir.Header(HIDDEN, tuple(self._fields.values()), metadata=True)} if self._fields else {}


@dataclass(frozen=True)
class Stack:
    """``next``: how many elements the parser has extracted, moved by push_front and pop_front."""

    name: str
    elements: tuple[str, ...]
    next: ir.FieldRef


@dataclass(frozen=True)
class Union:
    """``members``: headers by the name of the member, in the order of the declaration."""

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
        """The headers that the name of a stack or a union stands for, else the name itself."""
        if name in self.stacks:
            return list(self.stacks[name].elements)
        if name in self.union_stacks:
            return [header for union in self.union_stacks[name].elements for header in union.members.values()]
        return list(self.unions[name].members.values()) if name in self.unions else [name]


def load_aggregates(root: Node, headers: Mapping[str, ir.Header], hidden: Hidden) -> Aggregates:
    """Raises MalformedProgramError and ProgramTooLargeError."""
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


def _declare(node: Node, known: Mapping[str, object], headers: Mapping[str, ir.Header]) -> str:
    name = node["name"].name()
    declared_once(node["name"], name, known)
    declared_once(node["name"], name, headers)
    return name


def _ids(nodes: list[Node]) -> dict[int, str]:
    """Names by id. Headers without an id are numbered, as bmv2's examples are."""
    found: dict[int, str] = {}
    for number, node in enumerate(nodes):
        given = node.get("id")
        index = number if given is None else given.integer(0, OBJECTS)
        if index in found:
            raise (node if given is None else given).wrong("is the id of two of them")
        found[index] = node["name"].name()
    return found


def _one_of(node: Node, names: Mapping[int, str]) -> str:
    index = node.integer(0, OBJECTS)
    if index not in names:
        raise node.wrong("is nothing's id")
    return names[index]
