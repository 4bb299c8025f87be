# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Loads the JSON that p4c emits for bmv2 into a :class:`softswitch.program.ir.Program`.

Whatever the engines cannot run is refused here, by name and P4 source line, so that a program which
loads also runs. The format is described in p4lang/behavioral-model, docs/JSON_format.md.
"""

from __future__ import annotations

import json
from typing import Any

from softswitch.errors import UnsupportedProgramError
from softswitch.program import ir
from softswitch.program.graph import CycleError, topological
from softswitch.program.load_actions import ActionLoader
from softswitch.program.load_expressions import ExprLoader, number, source_of, unsupported
from softswitch.program.load_pipeline import load_pipeline
from softswitch.program.standard import STANDARD

Json = Any

MAX_WIDTH = 2048
ALGORITHMS = frozenset(["csum16", "xor16", "crc16", "crc32", "identity"])
CORE_ERRORS = ["NoError", "PacketTooShort", "NoMatch", "StackOutOfBounds", "HeaderTooShort", "ParserTimeout"]
_REFUSED_SECTIONS = {
    "header_stacks": "header stack",
    "header_unions": "header union",
    "header_union_stacks": "header union stack",
    "parse_vsets": "parser value set",
    "meter_arrays": "meter",
    "learn_lists": "digest",
    "extern_instances": "extern instance",
}


def load_program(text: str) -> ir.Program:
    """Parse and check a bmv2 JSON. Raises UnsupportedProgramError, also for text that is no such JSON."""
    try:
        root = json.loads(text)
    except json.JSONDecodeError as error:
        raise UnsupportedProgramError(f"the program is not JSON: {error}") from error
    if not isinstance(root, dict) or "pipelines" not in root:
        raise UnsupportedProgramError("the program is not a bmv2 JSON: it has no pipelines")
    try:
        return _program(root)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise UnsupportedProgramError(f"the bmv2 JSON is malformed: {type(error).__name__} {error}") from error


def _program(root: Json) -> ir.Program:
    for section, what in _REFUSED_SECTIONS.items():
        for node in root.get(section, []):
            raise unsupported(f"{what} {node['name']!r}", source_of(node))
    headers = _headers(root)
    if STANDARD not in headers:
        raise UnsupportedProgramError("the program has no standard_metadata: only v1model programs run here")
    expressions = ExprLoader(headers)
    registers = {node["name"]: _register(node) for node in root.get("register_arrays", [])}
    counters = {node["name"]: _counter(node) for node in root.get("counter_arrays", [])}
    calculations = {node["name"]: _calculation(node, expressions) for node in root.get("calculations", [])}
    loader = ActionLoader(expressions, registers, counters, calculations)
    actions = {int(node["id"]): loader.action(node) for node in root["actions"]}
    pipelines = {node["name"]: load_pipeline(node, expressions, actions) for node in root["pipelines"]}
    return ir.Program(
        headers=headers,
        errors=_errors(root),
        parser=_parser(root["parsers"][0], expressions, loader),
        ingress=pipelines["ingress"],
        egress=pipelines["egress"],
        deparser=_deparser(root["deparsers"][0], headers),
        actions=tuple(actions[i] for i in sorted(actions)),
        registers=registers,
        counters=counters,
        calculations=calculations,
        checksums=tuple(_checksum(node, expressions, calculations) for node in root.get("checksums", [])),
    )


def _headers(root: Json) -> dict[str, ir.Header]:
    types = {node["name"]: node for node in root["header_types"]}
    headers: dict[str, ir.Header] = {}
    for node in root["headers"]:
        fields = []
        for name, width, *signed in types[node["header_type"]]["fields"]:
            where = f"{node['name']}.{name}"
            if width == "*":
                raise unsupported(f"variable-length field {where}", source_of(types[node["header_type"]]))
            if not 1 <= int(width) <= MAX_WIDTH:
                raise unsupported(f"field {where} of {width} bits (1..{MAX_WIDTH})", source_of(node))
            fields.append(ir.Field(name, int(width), bool(signed and signed[0])))
        header = ir.Header(node["name"], tuple(fields), bool(node["metadata"]))
        if not header.metadata and header.width % 8:
            raise unsupported(f"header {header.name!r} of {header.width} bits (no whole bytes)", source_of(node))
        headers[header.name] = header
    return headers


def _errors(root: Json) -> dict[str, int]:
    errors = {name: int(value) for name, value in root.get("errors", [])}
    for name in CORE_ERRORS:
        if name not in errors:
            errors[name] = max(errors.values(), default=-1) + 1
    return errors


def _register(node: Json) -> ir.Register:
    width = int(node["bitwidth"])
    if width > MAX_WIDTH:
        raise unsupported(f"register {node['name']!r} of {width} bits (1..{MAX_WIDTH})", source_of(node))
    return ir.Register(node["name"], int(node["size"]), width, bool(node.get("signed", False)))


def _counter(node: Json) -> ir.CounterArray:
    table = node.get("binding") if node.get("is_direct") else None
    return ir.CounterArray(node["name"], int(node.get("size", 0) or 0), table)


def _calculation(node: Json, expressions: ExprLoader) -> ir.Calculation:
    source = source_of(node)
    if node["algo"] not in ALGORITHMS:
        raise unsupported(f"hash algorithm {node['algo']!r}", source)
    chunks: list[ir.Chunk] = []
    for part in node["input"]:
        if part["type"] == "hexstr":
            chunks.append(ir.Chunk(ir.Const(number(part["value"])), int(part["bitwidth"])))
        elif part["type"] == "field":
            field = expressions.field(part["value"], source)
            chunks.append(ir.Chunk(field, field.width))
        elif part["type"] == "header":
            header = expressions.headers[part["value"]]
            chunks += [ir.Chunk(ir.FieldRef(header.name, f.name, f.width, f.signed), f.width) for f in header.fields]
        else:
            raise unsupported(f"{part['type']} in a checksum or hash", source)
    return ir.Calculation(node["name"], node["algo"], tuple(chunks), source)


def _checksum(node: Json, expressions: ExprLoader, calculations: dict[str, ir.Calculation]) -> ir.Checksum:
    source = source_of(node)
    if node.get("type", "generic") != "generic" or node["calculation"] not in calculations:
        raise unsupported(f"checksum {node['name']!r} of type {node.get('type')!r}", source)
    condition = node.get("if_cond")
    return ir.Checksum(
        name=node["name"],
        target=expressions.field(node["target"], source),
        calculation=node["calculation"],
        condition=ir.Const(1) if condition is None else expressions.expr(condition, source),
        verify=bool(node.get("verify", True)),
        update=bool(node.get("update", True)),
    )


def _deparser(node: Json, headers: dict[str, ir.Header]) -> tuple[str, ...]:
    source = source_of(node)
    if node.get("primitives"):
        raise unsupported("a statement in the deparser", source_of(node["primitives"][0], source))
    for name in node["order"]:
        if name not in headers:
            raise unsupported(f"emit of {name!r}", source)
    return tuple(node["order"])


# ---------------------------------------------------------------- parser


def _parser(node: Json, expressions: ExprLoader, loader: ActionLoader) -> ir.Parser:
    states = {state["name"]: _state(state, expressions, loader) for state in node["parse_states"]}
    parser = ir.Parser(node["name"], node["init_state"], states)

    def following(name: str) -> list[str | None]:
        return [*(case.next_state for case in states[name].cases), states[name].default]

    try:
        topological(parser.start, following)
    except CycleError as error:
        raise UnsupportedProgramError(
            f"parser state {error.args[0]!r}: a loop in the parser is not supported"
        ) from None
    return parser


def _state(node: Json, expressions: ExprLoader, loader: ActionLoader) -> ir.ParserState:
    source = source_of(node)
    ops = tuple(op for child in node["parser_ops"] for op in _parser_op(child, expressions, loader, source))
    key = tuple(expressions.expr(part, source) for part in node["transition_key"])
    widths = [_key_width(part, source) for part in key]
    cases: list[ir.Case] = []
    default: str | None = None
    for transition in node["transitions"]:
        kind = transition.get("type", "default" if transition["value"] == "default" else "hexstr")
        if kind == "default":
            default = transition["next_state"]
            break
        if kind != "hexstr":
            raise unsupported(f"transition of type {kind!r} in parser state {node['name']!r}", source)
        cases.append(_case(transition, widths))
    return ir.ParserState(node["name"], ops, key, tuple(cases), default)


def _key_width(part: ir.Expr, source: ir.Source) -> int:
    if isinstance(part, ir.FieldRef | ir.Lookahead):
        return part.width
    if isinstance(part, ir.Valid):
        return 1
    raise unsupported("a select on an expression", source)


def _case(node: Json, widths: list[int]) -> ir.Case:
    """bmv2 pads every key field to whole bytes and concatenates them."""
    value = number(node["value"])
    mask = None if node["mask"] is None else number(node["mask"])
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
    return ir.Case(tuple(values), tuple(masks), node["next_state"])


def _parser_op(node: Json, expressions: ExprLoader, loader: ActionLoader, outer: ir.Source) -> tuple[ir.ParserOp, ...]:
    source = source_of(node, outer)
    parameters = node["parameters"]
    match node["op"]:
        case "extract" if parameters[0]["type"] == "regular":
            return (ir.Extract(parameters[0]["value"]),)
        case "set":
            return (ir.Assign(expressions.target(parameters[0], source), expressions.expr(parameters[1], source)),)
        case "verify":
            return (ir.Verify(expressions.expr(parameters[0], source), expressions.expr(parameters[1], source)),)
        case "advance":
            return (ir.Advance(expressions.expr(parameters[0], source)),)
        case "shift":
            return (ir.Advance(ir.Const(8 * int(parameters[0]["value"]))),)
        case "primitive":
            return loader.statement(parameters[0], source)
        case "extract":
            raise unsupported(f"extract into a {parameters[0]['type']}", source)
    raise unsupported(f"parser operation {node['op']!r}", source)
