# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Loads the parser, calculations and checksums."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from softswitch.program import ir
from softswitch.program.analysis import HASH_WIDTHS
from softswitch.program.limits import CALCULATION_BITS, KEY_FIELDS, PACKET_BYTES, PARSER_PATH, WIDTH
from softswitch.program.load.actions import ActionLoader, Externs
from softswitch.program.load.expressions import ExprLoader
from softswitch.program.load.node import JsonNode, declared_once, flag_of, shown, source_of, unsupported
from softswitch.program.load.references import Scope
from softswitch.program.traverse import CycleError, state_successors, topological


def load_calculations(root: JsonNode, expressions: ExprLoader) -> dict[str, ir.Calculation]:
    calculations: dict[str, ir.Calculation] = {}
    for node in root.section("calculations"):
        calculation = _calculation(node, expressions, node["name"].name())
        declared_once(node["name"], calculation.name, calculations)
        calculations[calculation.name] = calculation
    return calculations


def load_selectors(
    pipeline: JsonNode,
    expressions: ExprLoader,
    calculations: dict[str, ir.Calculation],
    selectors: dict[str, str | None],
) -> None:
    """Load the selectors of action profiles. Adds each selector's calculation to ``calculations``, and its name to
    ``selectors`` under the profile's name. That name is None if there is no selector, or one with a hash that the
    switch lacks."""
    for node in pipeline.section("action_profiles"):
        name = node["name"].name()
        declared_once(node["name"], name, selectors)
        selector = node.get("selector")
        selectors[name] = None
        if selector is None or selector["algo"].name() not in HASH_WIDTHS:
            continue
        made = replace(_calculation(selector, expressions, f"{name}.$selector"), source=source_of(node))
        if made.payload:
            raise unsupported(f"a selector over the payload, of action profile {name!r}", made.source)
        declared_once(node["name"], made.name, calculations)
        selectors[name] = made.name
        calculations[made.name] = made


def _calculation(node: JsonNode, expressions: ExprLoader, name: str) -> ir.Calculation:
    source = source_of(node)
    algorithm = node["algo"].choice(HASH_WIDTHS, "hash algorithm")
    parts = node["input"].items()
    chunks = tuple(chunk for part in parts for chunk in _chunks(part, expressions, source))
    payload = any(part["type"].value == "payload" for part in parts)
    if sum(chunk.width for chunk in chunks) > CALCULATION_BITS:
        raise node["input"].too_large("an input of more bits", CALCULATION_BITS)
    return ir.Calculation(name, algorithm, chunks, source, payload)


def _chunks(part: JsonNode, expressions: ExprLoader, source: ir.Source) -> list[ir.Chunk]:
    kind = part["type"].value
    if kind == "hexstr":
        width = part["bitwidth"].integer(1, WIDTH)
        return [ir.Chunk(ir.Const(part["value"].hexadecimal(width)), width)]
    if kind == "payload":
        return []
    varbit = expressions.varbit(part, source) if kind == "field" else None
    if varbit is not None:
        owner = expressions.header(part["value"][0], source).name
        return [ir.Chunk(varbit.value, varbit.value.width, varbit.length, owner)]
    if kind == "field":
        field = expressions.field(part["value"], source)
        return [ir.Chunk(field, field.width)]
    if kind == "header":
        header = expressions.header(part["value"], source)
        chunks = [ir.Chunk(each, each.width) for each in expressions.fields_of(part["value"], source)]
        taken_apart = expressions.varbits.get(header.name)
        if taken_apart is not None:
            own = taken_apart.varbit
            chunks.append(ir.Chunk(own.value, own.value.width, own.length, header.name))
            rest = expressions.headers[taken_apart.rest].fields if taken_apart.rest else ()
            chunks += [ir.Chunk(ir.FieldRef(taken_apart.rest or "", f.name, f.width, f.signed), f.width) for f in rest]
        return chunks
    raise unsupported(f"an input of type {shown(kind)} in a checksum or hash", source)


def load_checksum(node: JsonNode, expressions: ExprLoader, calculations: dict[str, ir.Calculation]) -> ir.Checksum:
    source = source_of(node)
    name = node["name"].name()
    kind = node.get("type")
    if kind is not None and kind.value != "generic":
        raise unsupported(f"checksum {name!r} of type {shown(kind.value)}", source)
    condition = node.get("if_cond")
    return ir.Checksum(
        name=name,
        target=expressions.field(node["target"], source),
        calculation=node["calculation"].choice(calculations, "calculation"),
        condition=ir.Const(1) if condition is None else expressions.expr(condition, Scope(source)),
        verify=flag_of(node, "verify", default=True),
        update=flag_of(node, "update", default=True),
    )


_MOST_BITS = (1 << 64) - 1


def load_parser(node: JsonNode, expressions: ExprLoader, loader: ActionLoader, externs: Externs) -> ir.Parser:
    names: dict[str, JsonNode] = {}
    for state in node["parse_states"].items():
        declared_once(state["name"], state["name"].name(), names)
        names[state["name"].name()] = state
    states = {name: _StateLoader(state, names, expressions, loader, externs).load() for name, state in names.items()}
    parser = ir.Parser(node["name"].name(), node["init_state"].choice(names, "parser state"), states)
    try:
        order = topological(parser.start, lambda name: state_successors(states[name]))
    except CycleError:
        return parser  # engines run a parser with loops state by state, and count the states
    _check_paths(parser, order, names)
    return parser


def _check_paths(parser: ir.Parser, order: list[str], names: dict[str, JsonNode]) -> None:
    """States call each other in C, and are nested blocks in Python."""
    length = dict.fromkeys(order, 1)
    for name in order:
        if length[name] > PARSER_PATH:
            raise names[name].too_large("more states on a path", PARSER_PATH)
        for following in state_successors(parser.states[name]):
            if following is not None:
                length[following] = max(length[following], length[name] + 1)


class _StateLoader:
    def __init__(
        self,
        node: JsonNode,
        names: Container[str],
        expressions: ExprLoader,
        loader: ActionLoader,
        externs: Externs,
    ) -> None:
        self._externs = externs
        self._node = node
        self._names = names
        self._expressions = expressions
        self._loader = loader
        self._scope = Scope(source_of(node), lookahead=True)

    def load(self) -> ir.ParserState:
        ops = [op for child in self._node["parser_ops"].items() for op in self._op(child)]
        key = tuple(self._key(part, ops) for part in self._node["transition_key"].items(KEY_FIELDS))
        widths = [self._key_width(part) for part in key]
        cases: list[ir.Case] = []
        default: str | None = None
        for transition in self._node["transitions"].items():
            kind = transition.get("type")
            name = ("default" if transition["value"].value == "default" else "hexstr") if kind is None else kind.value
            if name == "default":
                default = self._next_state(transition)
                break
            if name == "parse_vset":
                cases.append(self._set_case(transition, tuple(widths)))
                continue
            if name != "hexstr":
                raise unsupported(
                    f"transition of type {shown(name)} in parser state {self._node['name'].value!r}", self._scope.source
                )
            cases.append(self._case(transition, widths))
        return ir.ParserState(self._node["name"].name(), tuple(ops), key, tuple(cases), default)

    def _next_state(self, transition: JsonNode) -> str | None:
        following = transition["next_state"]
        return None if following.value is None else following.choice(self._names, "parser state")

    def _key(self, node: JsonNode, ops: list[ir.ParserOp]) -> ir.Expr:
        """A field of the last element of a stack is copied into a hidden field first."""
        match node["type"].value:
            case "stack_field":
                value, width = self._expressions.last(node["value"], self._scope.source)
            case "union_stack_field":
                value, width = self._expressions.last_of_union(node["value"], self._scope.source)
            case _:
                return self._expressions.expr(node, self._scope)
        copied = self._expressions.hidden.field(f"last of {width} bits, {node.key}", width)
        ops.append(ir.Assign(copied, value))
        return copied

    def _key_width(self, part: ir.Expr) -> int:
        if isinstance(part, ir.FieldRef | ir.Lookahead):
            return part.width
        if isinstance(part, ir.Valid):
            return 1
        raise unsupported("a select on an expression", self._scope.source)

    def _case(self, node: JsonNode, widths: list[int]) -> ir.Case:
        """Split the case's value and mask into key fields. bmv2 pads each to whole bytes and concatenates them."""
        whole = sum((width + 7) // 8 * 8 for width in widths)
        value = node["value"].hexadecimal(whole)
        mask = None if node["mask"].value is None else node["mask"].hexadecimal(whole)
        values: list[int] = []
        masks: list[int] = []
        for width in reversed(widths):
            full = (1 << width) - 1
            field_mask = full if mask is None else mask & full
            values.insert(0, value & field_mask)
            masks.insert(0, field_mask)
            padded = (width + 7) // 8 * 8
            value >>= padded
            mask = None if mask is None else mask >> padded
        return ir.Case(tuple(values), tuple(masks), self._next_state(node))

    def _set_case(self, node: JsonNode, widths: tuple[int, ...]) -> ir.Case:
        sizes, known = self._externs.set_sizes, self._externs.value_sets
        name = node["value"].choice(sizes, "value set")
        if node["mask"].value is not None or not widths:
            raise unsupported(f"value set {name!r} with a mask, or without a key", self._scope.source)
        declared = known.setdefault(name, ir.ValueSet(name, widths, sizes[name]))
        if declared.widths != widths:
            raise unsupported(f"value set {name!r} for keys of different widths", self._scope.source)
        return ir.Case((), (), self._next_state(node), name)

    def _op(self, node: JsonNode) -> tuple[ir.ParserOp, ...]:  # noqa: PLR0911 - one case per operation
        scope = Scope(source_of(node, self._scope.source), lookahead=True)
        parameters = node["parameters"]
        match node["op"].value:
            case "extract" | "extract_VL" as op:
                bits = parameters[1] if op == "extract_VL" else None
                return self._extract(parameters[0], bits, scope)
            case "set":
                varbit = self._expressions.varbit(parameters[0], scope.source)
                source = None if varbit is None else self._expressions.varbit(parameters[1], scope.source)
                if varbit is not None and source is not None and varbit.value.width == source.value.width:
                    return tuple(self._loader.lowering.copy_varbit(varbit, source))
                return self._loader.lowering.assign(parameters[0], self._expressions.expr(parameters[1], scope), scope)
            case "verify":
                condition, error = (self._expressions.expr(parameters[index], scope) for index in (0, 1))
                return (ir.Verify(condition, error),)
            case "advance":
                return (ir.Advance(self._expressions.unsigned(parameters[0], scope, "an advance", _MOST_BITS)),)
            case "shift":
                return (ir.Advance(ir.Const(8 * parameters[0]["value"].integer(0, PACKET_BYTES))),)
            case "primitive":
                return self._loader.in_parser(parameters[0], scope)
        raise unsupported(f"parser operation {shown(node['op'].value)}", scope.source)

    def _extract(self, into: JsonNode, bits: JsonNode | None, scope: Scope) -> tuple[ir.ParserOp, ...]:
        aggregates, value = self._expressions.aggregates, into["value"]
        match into["type"].value:
            case "regular":
                return self._extract_header(self._expressions.header(value, scope.source).name, bits, scope)
            case "stack":
                stack = aggregates.stacks[value.choice(aggregates.stacks, "header stack")]
                elements, following = stack.elements, stack.next
            case "union_stack":
                unions = aggregates.union_stacks[value[0].choice(aggregates.union_stacks, "stack of header unions")]
                members = unions.elements[0].members
                member = value[1].choice(members, "member of a header union")
                elements, following = tuple(part.members[member] for part in unions.elements), unions.next
            case other:
                raise unsupported(f"extract into a {shown(other)}", scope.source)
        branches = tuple(self._extract_header(header, bits, scope) for header in elements)
        return ir.Choose(following, branches), ir.Assign(following, ir.Binary("+", following, ir.Const(1)))

    def _extract_header(self, header: str, bits: JsonNode | None, scope: Scope) -> tuple[ir.ParserOp, ...]:
        siblings = self._loader.lowering.invalid_siblings(header)
        varbit = self._expressions.varbits.get(header)
        if varbit is None:
            return ir.Extract(header), *siblings
        if bits is None:
            raise unsupported(f"an extract of {header!r} without the length of its varbit field", scope.source)
        length = self._expressions.unsigned(bits, scope, "the length of a varbit field", _MOST_BITS)
        own = varbit.varbit
        extract = ir.ExtractVarbit(header, own.value, own.length, length, varbit.most_bytes, varbit.rest)
        return extract, *siblings
