# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Loads the parser."""

from __future__ import annotations

from typing import Any

from softswitch.errors import UnsupportedProgramError
from softswitch.program import ir
from softswitch.program.flow import state_successors
from softswitch.program.graph import CycleError, topological
from softswitch.program.load.actions import ActionLoader
from softswitch.program.load.expressions import ExprLoader, number, source_of, unsupported

Json = Any


def load_parser(node: Json, expressions: ExprLoader, loader: ActionLoader) -> ir.Parser:
    states = {state["name"]: _state(state, expressions, loader) for state in node["parse_states"]}
    parser = ir.Parser(node["name"], node["init_state"], states)

    try:
        topological(parser.start, lambda name: state_successors(states[name]))
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
    """Split the case's value and mask into key fields: bmv2 pads each field to whole bytes and concatenates them."""
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
