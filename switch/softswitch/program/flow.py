# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Successors in the control flow: of a parser state, of a node of a pipeline."""

from __future__ import annotations

from softswitch.program import ir
from softswitch.program.graph import CycleError, topological


def state_successors(state: ir.ParserState) -> list[str | None]:
    """Names of the states that may follow ``state``; None accepts the packet."""
    return [*(case.next_state for case in state.cases), state.default]


def has_loop(parser: ir.Parser) -> bool:
    """Return True if a packet can come to a state a second time."""
    try:
        topological(parser.start, lambda name: state_successors(parser.states[name]))
    except CycleError:
        return True
    return False


def successors(node: ir.Node) -> list[str | None]:
    """Names of the nodes that may follow ``node``; None is the end of the pipeline."""
    if isinstance(node, ir.Conditional):
        return [node.on_true, node.on_false]
    if node.by_hit:
        return [node.on_hit, node.on_miss]
    return [node.next[action] for action in node.actions]
