# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Finds the parts of expressions and statements, and orders control flow graphs.

bmv2's JSON describes pipelines and action bodies as graphs: every node names the next one. Engines need nested blocks:
a branch ends at the node where both sides join, which is its immediate postdominator.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

from softswitch.program import ir

FieldKey = tuple[str, str]  # header, field


def expr_fields(expr: ir.Expr) -> Iterator[FieldKey]:
    """Yield the fields whose value ``expr`` uses."""
    match expr:
        case ir.FieldRef(header, name, _, _):
            yield header, name
        case ir.Unary(_, operand) | ir.Cast(_, operand, _):
            yield from expr_fields(operand)
        case ir.Binary(_, left, right):
            yield from expr_fields(left)
            yield from expr_fields(right)
        case ir.Mux(condition, then, otherwise):
            for part in (condition, then, otherwise):
                yield from expr_fields(part)


def operands(statement: ir.Statement) -> tuple[ir.Expr, ...]:  # noqa: PLR0911 - one case per statement
    """Return the expressions that ``statement`` itself evaluates, without those inside the branches of an If."""
    match statement:
        case ir.Assign(_, value):
            return (value,)
        case ir.RegisterRead(_, _, index) | ir.Count(_, index) | ir.ExecuteMeter(_, _, index):
            return (index,)
        case ir.RegisterWrite(_, index, value):
            return (index, value)
        case ir.Random(_, low, high):
            return (low, high)
        case ir.Hash(_, base, _, modulus):
            return (base, modulus)
        case ir.LogMessage(_, values):
            return values
        case ir.If(condition, _, _):
            return (condition,)
        case ir.Truncate(length):
            return (length,)
        case ir.Loop(blocks):
            return tuple(block.condition for block in blocks if block.condition is not None)
    return ()


def flatten(statements: Iterable[ir.Statement]) -> Iterator[ir.Statement]:
    """Yield every statement, with those inside branches."""
    for statement in statements:
        yield statement
        if isinstance(statement, ir.If):
            yield from flatten(statement.then)
            yield from flatten(statement.otherwise)
        elif isinstance(statement, ir.Loop):
            for block in statement.blocks:
                yield from flatten(block.statements)


def written_field(statement: ir.Statement) -> FieldKey | None:
    """Return the field that ``statement`` assigns, None if it assigns none."""
    if isinstance(statement, ir.Assign | ir.RegisterRead | ir.Random | ir.Hash | ir.ExecuteMeter):
        return statement.target.header, statement.target.field
    return None


def lookaheads(expr: ir.Expr) -> Iterator[ir.Lookahead]:
    """Yield every lookahead inside ``expr``."""
    match expr:
        case ir.Lookahead():
            yield expr
        case ir.Unary(_, operand) | ir.Cast(_, operand, _):
            yield from lookaheads(operand)
        case ir.Binary(_, left, right):
            yield from lookaheads(left)
            yield from lookaheads(right)
        case ir.Mux(condition, then, otherwise):
            for part in (condition, then, otherwise):
                yield from lookaheads(part)


def valid_headers(expr: ir.Expr) -> list[str]:
    """Return the headers whose validity ``expr`` uses."""
    match expr:
        case ir.Valid(header):
            return [header]
        case ir.Unary(_, operand) | ir.Cast(_, operand, _):
            return valid_headers(operand)
        case ir.Binary(_, left, right):
            return valid_headers(left) + valid_headers(right)
        case ir.Mux(condition, then, otherwise):
            return valid_headers(condition) + valid_headers(then) + valid_headers(otherwise)
    return []


def parser_ops(ops: Iterable[ir.ParserOp]) -> Iterator[ir.ParserOp]:
    """Yield every operation, including those inside a choice between elements of a stack."""
    for op in ops:
        yield op
        if isinstance(op, ir.Choose):
            for branch in op.branches:
                yield from parser_ops(branch)


def extracted_headers(op: ir.ParserOp) -> list[str]:
    """Return the headers that ``op`` itself extracts."""
    match op:
        case ir.Extract(header):
            return [header]
        case ir.ExtractVarbit(header, rest=rest):
            return [header, rest] if rest else [header]
    return []


N = TypeVar("N", bound=Hashable)


class CycleError(ValueError):
    """The graph has a loop; ``args[0]`` is a node on it."""


def topological(start: N | None, successors: Callable[[N], Iterable[N | None]]) -> list[N]:
    """Return the nodes reachable from ``start``, each before its successors. None stands for the end of the graph.

    Raises CycleError if there is a loop.
    """
    done: list[N] = []
    state: dict[N, bool] = {}  # False while a node's successors are being visited
    stack: list[tuple[N, list[N]]] = []

    def enter(node: N) -> None:
        state[node] = False
        stack.append((node, [child for child in successors(node) if child is not None]))

    if start is not None:
        enter(start)
    while stack:
        node, todo = stack[-1]
        if not todo:
            state[node] = True
            done.append(node)
            stack.pop()
            continue
        child = todo.pop()
        if child not in state:
            enter(child)
        elif not state[child]:
            raise CycleError(child)
    done.reverse()
    return done


def joins(start: N | None, successors: Callable[[N], Iterable[N | None]]) -> dict[N, N | None]:
    """Return the immediate postdominator of every reachable node, None if the branches only meet at the end."""
    order = topological(start, successors)
    position = {node: index for index, node in enumerate(order)}
    result: dict[N, N | None] = {}

    def meet(left: N | None, right: N | None) -> N | None:
        while left != right:
            if left is None or right is None:
                return None
            if position[left] < position[right]:
                left = result[left]
            else:
                right = result[right]
        return left

    for node in reversed(order):
        children = list(dict.fromkeys(successors(node)))
        common: N | None = children[0] if children else None
        for child in children[1:]:
            common = meet(common, child)
        result[node] = common
    return result


def state_successors(state: ir.ParserState) -> list[str | None]:
    """Return the names of the states that may follow ``state``; None accepts the packet."""
    return [*(case.next_state for case in state.cases), state.default]


def has_loop(parser: ir.Parser) -> bool:
    """Return True if a packet can come to a state a second time."""
    try:
        topological(parser.start, lambda name: state_successors(parser.states[name]))
    except CycleError:
        return True
    return False


def successors(node: ir.Node) -> list[str | None]:
    """Return the names of the nodes that may follow ``node``; None is the end of the pipeline."""
    if isinstance(node, ir.Conditional):
        return [node.on_true, node.on_false]
    if node.by_hit:
        return [node.on_hit, node.on_miss]
    return [node.next[action] for action in node.actions]
