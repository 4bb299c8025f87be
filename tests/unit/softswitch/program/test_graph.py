# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Joins of a control flow graph, against the definition: the first node that every path passes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from softswitch.program.traverse import CycleError, joins, topological

Graph = dict[int, list[int | None]]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Node 0 starts; edges only go to larger numbers."""
    size = draw(st.integers(1, 9))
    graph: Graph = {}
    for node in range(size):
        later: list[int | None] = [*range(node + 1, size), None]
        graph[node] = draw(st.lists(st.sampled_from(later), min_size=1, max_size=3))
    return graph


def paths(graph: Graph, node: int) -> list[list[int]]:
    """All paths from ``node`` to the end, without ``node`` itself."""
    found: list[list[int]] = []
    for child in graph[node]:
        found += [[]] if child is None else [[child, *rest] for rest in paths(graph, child)]
    return found


@given(graphs())
def test_join_is_the_first_node_on_every_path(graph: Graph) -> None:
    for node, join in joins(0, lambda n: graph[n]).items():
        ways = paths(graph, node)
        common = [other for other in ways[0] if all(other in way for way in ways)]
        assert join == (common[0] if common else None)


@given(graphs())
def test_topological_order(graph: Graph) -> None:
    order = topological(0, lambda n: graph[n])
    position = {node: index for index, node in enumerate(order)}
    assert order[0] == 0
    assert len(position) == len(order)
    for node in order:
        assert all(position[child] > position[node] for child in graph[node] if child is not None)


def test_empty_graph() -> None:
    assert topological(None, lambda n: []) == []
    assert joins(None, lambda n: []) == {}


@pytest.mark.parametrize("graph", [{0: [0]}, {0: [1], 1: [2, None], 2: [1]}])
def test_loops(graph: Graph) -> None:
    with pytest.raises(CycleError):
        topological(0, lambda n: graph[n])
