# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Resolves operands that are headers, stacks, unions and fields against what the program declares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from softswitch.program import ir
from softswitch.program.limits import EXPRESSION_DEPTH
from softswitch.program.load.node import JsonNode, shown, unsupported
from softswitch.program.load.storage import Aggregates, Hidden, Stack, Union, UnionStack, VarbitHeader

VALID_FIELD = "$valid$"
HEADER_OPS = ("dereference_header_stack", "dereference_stack", "access_union_header", "dereference_union_stack")

Choice = tuple[ir.Expr | None, str]  # a header, and when it is the one that is meant; None: always


@dataclass(frozen=True)
class Scope:
    """The context of an expression.

    ``params``: widths of the enclosing action's parameters. ``lookahead``: whether the parser evaluates it. ``depth``:
    the number of expressions around it.
    """

    source: ir.Source
    params: tuple[int, ...] = ()
    lookahead: bool = False
    depth: int = 0

    def inside(self) -> Scope:
        return replace(self, depth=self.depth + 1)


class References:
    """Resolves names against the program's headers, stacks and unions.

    An element of a stack at a computed index is a choice between all its elements.
    """

    def __init__(
        self,
        headers: Mapping[str, ir.Header],
        aggregates: Aggregates | None = None,
        varbits: Mapping[str, VarbitHeader] | None = None,
        hidden: Hidden | None = None,
    ) -> None:
        self.headers = headers
        self.aggregates = aggregates or Aggregates()
        self.varbits = varbits or {}
        self.hidden = hidden or Hidden()
        self._fields = {
            (header.name, member.name): ir.FieldRef(header.name, member.name, member.width, member.signed)
            for header in headers.values()
            for member in header.fields
        }
        for name, varbit in self.varbits.items():
            behind = headers[varbit.rest].fields if varbit.rest else ()
            for member in behind:
                self._fields[name, member.name] = self._fields[varbit.rest or "", member.name]

    # -- headers and fields ----------------------------------------------

    def header(self, node: JsonNode, source: ir.Source) -> ir.Header:
        """Return the header that ``node`` names. Metadata is not accepted."""
        if not isinstance(node.value, str) or node.value not in self.headers:
            raise unsupported(f"header {shown(node.value)}", source)
        header = self.headers[node.value]
        if header.metadata:
            raise unsupported(f"metadata {header.name!r} in the place of a header", source)
        return header

    def size_bytes(self, name: str) -> int:
        """Return the largest number of bytes that a header can have."""
        return self.varbits[name].most_bytes if name in self.varbits else self.headers[name].size_bytes

    def choices(self, node: JsonNode, scope: Scope) -> list[Choice]:
        """Return the headers that an operand can stand for: ``{"type": "header"}``, or an element of a stack."""
        node = inside(node)
        if "op" in members_of(node):
            op = node["op"].value
            if op in ("dereference_header_stack", "dereference_stack"):
                stack = self.stack(node["left"], scope.source)
                return self._at(stack.elements, node["right"], scope)
            if op == "access_union_header":
                return self._members_at(node, scope)
            raise unsupported(f"header operand {shown(op)}", scope.source)
        if node["type"].value == "stack_field" and node["value"][1].value == "last":
            name, known = node["value"][0], self.aggregates.stacks
            stack = known[name.choice(known, "header stack")]
            extracted = [ir.Const(number) for number in range(1, len(stack.elements) + 1)]
            conditions = [ir.Binary("==", stack.next, number) for number in extracted]
            return list(zip(conditions, stack.elements, strict=True))
        if node["type"].value != "header":
            raise unsupported(f"header operand of type {shown(node['type'].value)}", scope.source)
        return [(None, self.header(node["value"], scope.source).name)]

    def metadata(self, node: JsonNode, source: ir.Source) -> str | None:
        """Return the metadata that an operand names, None for any other operand."""
        node = inside(node)
        name = node["value"].value if "op" not in members_of(node) and node["type"].value == "header" else None
        return name if isinstance(name, str) and name in self.headers and self.headers[name].metadata else None

    def stack(self, node: JsonNode, source: ir.Source) -> Stack:
        node = inside(node)
        name = node["value"].value
        if node["type"].value != "header_stack" or not isinstance(name, str) or name not in self.aggregates.stacks:
            raise unsupported(f"header stack {shown(name)}", source)
        return self.aggregates.stacks[name]

    def union_stack(self, node: JsonNode, source: ir.Source) -> UnionStack:
        node = inside(node)
        name, known = node["value"].value, self.aggregates.union_stacks
        if node["type"].value != "header_union_stack" or not isinstance(name, str) or name not in known:
            raise unsupported(f"stack of header unions {shown(name)}", source)
        return known[name]

    def unions(self, node: JsonNode, scope: Scope) -> list[tuple[ir.Expr | None, Union]]:
        """Return the unions that an operand can stand for."""
        node = inside(node)
        known = self.aggregates.unions
        if "op" in members_of(node):
            if node["op"].value != "dereference_union_stack":
                raise unsupported(f"header union operand {shown(node['op'].value)}", scope.source)
            parts = self.union_stack(node["left"], scope.source).elements
            names = self._at(tuple(part.name for part in parts), node["right"], scope)
            return [(condition, known[name]) for condition, name in names]
        name = node["value"].value
        if node["type"].value != "header_union" or not isinstance(name, str) or name not in known:
            # p4c writes u[0].isValid() as if u[0] were a header, and bmv2 refuses it, too.
            raise unsupported(f"header union {shown(name)} as a whole (ask each of its headers)", scope.source)
        return [(None, known[name])]

    def _members_at(self, node: JsonNode, scope: Scope) -> list[Choice]:
        found: list[Choice] = []
        for condition, union in self.unions(node["left"], scope):
            members = list(union.members.values())
            found.append((condition, members[node["right"].integer(0, len(members) - 1)]))
        return found

    def _at(self, elements: tuple[str, ...], node: JsonNode, scope: Scope) -> list[Choice]:
        index = self.expr(node, scope.inside())
        if isinstance(index, ir.Const):
            if not 0 <= index.value < len(elements):
                raise unsupported(f"element {shown(index.value)} of a stack of {len(elements)}", scope.source)
            return [(None, elements[index.value])]
        return [(ir.Binary("==", index, ir.Const(number)), name) for number, name in enumerate(elements)]

    def field(self, node: JsonNode, source: ir.Source) -> ir.FieldRef:
        """Return a field that can be written: ``[header, member]``."""
        header, name = node[0].value, node[1].value
        known = self._fields.get((header, name)) if isinstance(header, str) and isinstance(name, str) else None
        if known is None:
            raise unsupported(f"field [{shown(header)}, {shown(name)}]", source)
        return known

    def fields_of(self, node: JsonNode, source: ir.Source) -> list[ir.FieldRef]:
        """Return all fields of a header or of metadata."""
        if not isinstance(node.value, str) or node.value not in self.headers:
            raise unsupported(f"header {shown(node.value)}", source)
        header = self.headers[node.value]
        return [self._fields[header.name, member.name] for member in header.fields]

    def varbit(self, node: JsonNode, source: ir.Source) -> ir.Varbit | None:
        """Return the varbit field that an operand names, None for any other operand."""
        node = inside(node)
        if "type" not in members_of(node) or node["type"].value != "field":
            return None
        header, name = node["value"][0].value, node["value"][1].value
        known = self.varbits.get(header) if isinstance(header, str) else None
        return known.varbit if known is not None and known.name == name else None

    def targets(self, node: JsonNode, scope: Scope) -> list[tuple[ir.Expr | None, ir.FieldRef]]:
        """Return the possible destinations of an assignment, each with the condition that selects it."""
        inner = inside(node)
        if "op" in members_of(inner) and inner["op"].value == "access_field":
            return [
                (condition, self.member(name, inner["right"])) for condition, name in self.choices(inner["left"], scope)
            ]
        return [(None, self.target(inner, scope.source))]

    def target(self, node: JsonNode, source: ir.Source) -> ir.FieldRef:
        """Return the destination of an assignment."""
        if node["type"].value != "field":
            raise unsupported(f"assignment to a {shown(node['type'].value)}", source)
        return self.field(node["value"], source)

    def named(self, header: object, name: str, source: ir.Source) -> ir.FieldRef:
        """Return the field with this name of a header or of metadata."""
        found = self._fields.get((header, name)) if isinstance(header, str) else None
        if found is None:
            raise unsupported(f"{shown(header)} in the place of metadata with {name}", source)
        return found

    def member(self, header: str, node: JsonNode) -> ir.FieldRef:
        """Return the field with this number. Numbers continue after a varbit field."""
        varbit = self.varbits.get(header)
        before = self.headers[header].fields
        behind = self.headers[varbit.rest].fields if varbit and varbit.rest else ()
        number = node.integer(0, len(before) + (1 if varbit else 0) + len(behind) - 1)
        if number < len(before):
            return self._fields[header, before[number].name]
        if number == len(before):
            raise node.wrong("is the number of a varbit field, which is no number")
        return self._fields[header, behind[number - len(before) - 1].name]

    # -- the last element of a stack -------------------------------------

    def last(self, node: JsonNode, source: ir.Source) -> tuple[ir.Expr, int]:
        """Return the value and width of ``[stack, field]``: a field of the element that was extracted last; 0 before
        the first."""
        known, name = self.aggregates.stacks, node[0].value
        if not isinstance(name, str) or name not in known:
            raise unsupported(f"header stack {shown(name)}", source)
        return self._last(known[name].next, known[name].elements, node[1].value, source)

    def last_of_union(self, node: JsonNode, source: ir.Source) -> tuple[ir.Expr, int]:
        """Return the last field of a union: ``[stack of unions, member, field]``."""
        known, name, member = self.aggregates.union_stacks, node[0].value, node[1].value
        if not isinstance(name, str) or name not in known:
            raise unsupported(f"stack of header unions {shown(name)}", source)
        stack = known[name]
        if not isinstance(member, str) or member not in stack.elements[0].members:
            raise node[1].wrong("is no member of the union")
        return self._last(stack.next, tuple(part.members[member] for part in stack.elements), node[2].value, source)

    def _last(
        self, following: ir.FieldRef, elements: tuple[str, ...], name: object, source: ir.Source
    ) -> tuple[ir.Expr, int]:
        fields = [self._fields.get((header, str(name))) for header in elements]
        value: ir.Expr = ir.Const(0)
        width = 0
        for number, own in reversed(list(enumerate(fields, 1))):
            if own is None:
                raise unsupported(f"field {shown(name)} of a header stack", source)
            value, width = ir.Mux(ir.Binary("==", following, ir.Const(number)), own, value), own.width
        return value, width

    def readable(self, node: JsonNode, source: ir.Source) -> ir.FieldRef | ir.Valid:
        """Return a field or, for ``[header, "$valid$"]``, a header's validity."""
        if node[1].value == VALID_FIELD:
            return ir.Valid(self.header(node[0], source).name)
        return self.field(node, source)

    def expr(self, node: JsonNode, scope: Scope) -> ir.Expr:
        """Return any expression, see ExprLoader."""
        raise NotImplementedError


def members_of(node: JsonNode) -> Mapping[str, object]:
    return node.value if isinstance(node.value, dict) else {}


def inside(node: JsonNode) -> JsonNode:
    """Return the operand without the wrappers that p4c puts around an expression."""
    for _ in range(EXPRESSION_DEPTH):
        members = members_of(node)
        if "op" in members or members.get("type") != "expression":
            return node
        node = node["value"]
    raise node.too_large("expressions nested deeper", EXPRESSION_DEPTH)


def chosen(parts: Sequence[tuple[ir.Expr | None, ir.Expr]]) -> ir.Expr:
    """Return the part whose condition holds; 0 if none does, which means an index past the end of a stack."""
    value: ir.Expr = ir.Const(0)
    for condition, part in reversed(parts):
        value = part if condition is None else ir.Mux(condition, part, value)
    return value


def any_valid(headers: Iterable[str]) -> ir.Expr:
    """Return an expression: 1 if one of the headers is valid, else 0."""
    value: ir.Expr = ir.Const(0)
    for header in headers:
        value = ir.Binary("|", value, ir.Valid(header))
    return value


def all_of(conditions: Iterable[ir.Expr]) -> ir.Expr:
    value: ir.Expr | None = None
    for condition in conditions:
        value = condition if value is None else ir.Binary("and", value, condition)
    return ir.Const(1) if value is None else value
