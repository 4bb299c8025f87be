# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Order and joins of a control flow graph without loops.

bmv2's JSON describes pipelines and action bodies as graphs: every node names the next one. Engines need nested blocks:
a branch ends at the node where both sides join, which is its immediate postdominator.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

N = TypeVar("N", bound=Hashable)


class CycleError(ValueError):
    """The graph has a loop; ``args[0]`` is a node on it."""


def topological(start: N | None, successors: Callable[[N], Iterable[N | None]]) -> list[N]:
    """The nodes reachable from ``start``, each before its successors. None stands for the end of the graph.

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
    """For every reachable node its immediate postdominator, None if the branches only meet at the end."""
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
