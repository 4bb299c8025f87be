# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Successors in the control flow: of a parser state, of a node of a pipeline."""

from __future__ import annotations

from softswitch.program import ir


def state_successors(state: ir.ParserState) -> list[str | None]:
    """Names of the states that may follow ``state``; None accepts the packet."""
    return [*(case.next_state for case in state.cases), state.default]


def successors(node: ir.Node) -> list[str | None]:
    """Names of the nodes that may follow ``node``; None is the end of the pipeline."""
    if isinstance(node, ir.Conditional):
        return [node.on_true, node.on_false]
    if node.by_hit:
        return [node.on_hit, node.on_miss]
    return [node.next[action] for action in node.actions]
