# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Where control may go next: from a node of a pipeline, from a state of the parser."""

from __future__ import annotations

from softswitch.program import ir


def state_successors(state: ir.ParserState) -> list[str | None]:
    """States that may follow ``state``; None accepts the packet."""
    return [*(case.next_state for case in state.cases), state.default]


def successors(node: ir.Node) -> list[str | None]:
    """Where control may go after ``node``; None is the end of the pipeline."""
    if isinstance(node, ir.Conditional):
        return [node.on_true, node.on_false]
    if node.by_hit:
        return [node.on_hit, node.on_miss]
    return [node.next[action] for action in node.actions]
