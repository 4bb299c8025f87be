# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Shrinks a failing program and its events to something that a person can read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from itertools import islice
from typing import Any, TypeVar

from differential.events import Event
from softswitch.program import ir
from softswitch.program.traverse import successors, topological

T = TypeVar("T")
Fails = Callable[[ir.Program, list[Event]], bool]

_EXPRESSIONS = (ir.Unary, ir.Binary, ir.Cast, ir.Mux)
_LEAVES = (ir.FieldRef, ir.Valid, ir.Param, ir.Lookahead)
# Left as they are: other parts refer to them, or they have to fit something else.
_KEPT = {"target", "keys", "key", "source", "value_of", "headers", "errors", "registers", "counters", "chunks",
         "parameters", "actions_of", "entries", "default_args", "next", "deparser"}  # fmt: skip


def shrink(program: ir.Program, sequence: list[Event], fails: Fails, seconds: float) -> tuple[ir.Program, list[Event]]:
    """Take smaller programs and event lists as long as they still fail, or until the time is up."""
    deadline = time.monotonic() + seconds
    before: object = None
    while (program, sequence) != before and time.monotonic() < deadline:
        before = program, sequence
        sequence = _least(sequence, _without_parts, lambda fewer: fails(program, fewer), deadline)  # noqa: B023
        program = _least(program, _smaller, lambda smaller: fails(smaller, sequence), deadline)  # noqa: B023
    return program, sequence


def _least(item: T, smaller: Callable[[T], Iterator[T]], fails: Callable[[T], bool], deadline: float) -> T:
    """Take every step that still fails, in one pass over all steps."""
    tried = 0
    while time.monotonic() < deadline:
        candidate = next(islice(smaller(item), tried, None), None)
        if candidate is None:
            break
        if fails(candidate):
            item = candidate
        else:
            tried += 1
    return item


def _without_parts(items: Any) -> Iterator[Any]:
    """Copies without a half, a quarter, ... a single item."""
    size = len(items)
    while size:
        for start in range(0, len(items), size):
            yield items[:start] + items[start + size :]
        size //= 2


def _smaller(node: Any) -> Iterator[Any]:
    """Slightly smaller values of the same kind."""
    if isinstance(node, (*_EXPRESSIONS, *_LEAVES)):
        yield from _simpler_expressions(node)
    elif isinstance(node, ir.If):
        # The statements of its branches cannot replace it one by one, so its condition is replaced.
        yield replace(node, condition=ir.Const(1))
        yield replace(node, condition=ir.Const(0))
    elif isinstance(node, ir.Pipeline) and node.start is not None:
        yield from (replace(node, start=following) for following in successors(node.nodes[node.start]))
        nodes = {name: node.nodes[name] for name in topological(node.start, lambda name: successors(node.nodes[name]))}
        if len(nodes) < len(node.nodes):
            yield replace(node, nodes=nodes)
    elif isinstance(node, ir.Conditional):
        yield replace(node, on_true=node.on_false)
        yield replace(node, on_false=node.on_true)
    if not isinstance(node, _LEAVES):
        yield from _with_smaller_parts(node)


def _simpler_expressions(node: Any) -> Iterator[ir.Expr]:
    if not isinstance(node, _LEAVES):
        children = [getattr(node, member.name) for member in fields(node)]
        yield from (child for child in children if isinstance(child, (*_EXPRESSIONS, *_LEAVES, ir.Const)))
    yield ir.Const(0)
    yield ir.Const(1)


def _with_smaller_parts(node: Any) -> Iterator[Any]:
    if isinstance(node, tuple):
        # Actions are identified by their position.
        if node and is_dataclass(node[0]) and not isinstance(node[0], ir.Action):
            yield from _without_parts(node)
        if node and is_dataclass(node[0]):
            yield from _one_smaller(node)
    elif isinstance(node, dict):
        for name, value in node.items():
            yield from (node | {name: smaller} for smaller in _smaller(value))
    elif is_dataclass(node):
        for member in fields(node):
            yield from _with_smaller(node, member.name)


def _one_smaller(items: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    for at, item in enumerate(items):
        for smaller in _smaller(item):
            yield (*items[:at], smaller, *items[at + 1 :])


def _with_smaller(node: Any, name: str) -> Iterator[Any]:
    if name in _KEPT or (name == "actions" and isinstance(node, ir.Table)):
        return
    for smaller in _smaller(getattr(node, name)):
        yield replace(node, **{name: smaller})


# ---------------------------------------------------------------- for the reader


def listing(program: ir.Program) -> str:
    """The program as P4-like text, without unused actions."""
    lines = [_header(header) for header in program.headers.values()]
    lines += map(str, program.registers.values())
    for calculation in program.calculations.values():
        chunks = [_text(chunk.value) for chunk in calculation.chunks]
        lines.append(f"calculation {calculation.name} {calculation.algorithm}: {chunks}")
    for state in program.parser.states.values():
        lines.append(f"state {state.name} select {[_text(part) for part in state.key]} default {state.default}")
        lines += [f"    {_text(op)}" for op in state.ops] + [f"    {case}" for case in state.cases]
    used = {index for table in program.tables.values() for index in table.actions}
    for action in program.actions:
        if action.index in used:
            parameters = ", ".join(f"bit<{p.width}> p{i}" for i, p in enumerate(action.parameters))
            lines.append(f"action {action.index} {action.name}({parameters})")
            lines += [f"    {_text(statement)}" for statement in action.body]
    for pipeline in (program.ingress, program.egress):
        lines.append(f"{pipeline.name} starts with {pipeline.start}")
        lines += [f"    {_node(node)}" for node in pipeline.nodes.values()]
    for checksum in program.checksums:
        when = f"if {_text(checksum.condition)}, verify {checksum.verify}, update {checksum.update}"
        lines.append(f"checksum {_text(checksum.target)} = {checksum.calculation} {when}")
    return "\n".join([*lines, f"deparser {program.deparser}"])


def _header(header: ir.Header) -> str:
    members = ", ".join(f"{'int' if f.signed else 'bit'}<{f.width}> {f.name}" for f in header.fields)
    return f"{'struct' if header.metadata else 'header'} {header.name} {{{members}}}"


def _node(node: ir.Node) -> str:
    if isinstance(node, ir.Conditional):
        return f"{node.name}: if {_text(node.condition)} {node.on_true} else {node.on_false}"
    return str(node)


def _text(node: Any) -> str:
    match node:
        case ir.Const(value):
            return hex(value) if abs(value) > 9 else str(value)
        case ir.FieldRef(header, name, _, _):
            return f"{header}.{name}"
        case ir.Valid(header):
            return f"{header}.isValid()"
        case ir.Param(index, _):
            return f"p{index}"
        case ir.Lookahead(offset, width):
            return f"lookahead[{offset}:{offset + width}]"
        case ir.Unary(op, operand):
            return f"{op}({_text(operand)})"
        case ir.Binary(op, left, right):
            return f"({_text(left)} {op} {_text(right)})"
        case ir.Cast(op, operand, width):
            return f"{op}<{width}>({_text(operand)})"
        case ir.Mux(condition, then, otherwise):
            return f"({_text(condition)} ? {_text(then)} : {_text(otherwise)})"
        case ir.If(condition, then, otherwise):
            branches = [" ".join(_text(inner) for inner in branch) for branch in (then, otherwise)]
            return f"if {_text(condition)} {{ {branches[0]} }} else {{ {branches[1]} }};"
    if is_dataclass(node):
        return f"{type(node).__name__}({', '.join(_text(getattr(node, member.name)) for member in fields(node))});"
    return str([_text(part) for part in node] if isinstance(node, tuple) else node)
