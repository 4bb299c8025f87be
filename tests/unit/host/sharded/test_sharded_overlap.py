# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Shards of a node's ranks are on their way while means before are in the network."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from sumwire.sharded.state import ShardedState, Unit, UnitExchange
from torch import Tensor

PATIENCE_S = 30.0


class Node:
    """Stands for the job of a node with several ranks. The first mean is made only once a second gather has begun."""

    name = "test"
    job = None

    def __init__(self) -> None:
        self.said: list[str] = []
        self.second = threading.Event()

    def on_close(self, closer: Callable[[], None]) -> None:
        pass

    def mean_of_shards(self, x: Tensor) -> Callable[[Any], Tensor]:
        self.said.append("begun")
        if len(self.said) > 1:
            self.second.set()

        def mean_by(make: Any) -> Tensor:
            self.said.append("mean" if self.second.wait(PATIENCE_S) else "late")
            return x

        return mean_by

    def mean(self, x: Tensor, make: Any) -> tuple[Tensor, Callable[[], Tensor]]:
        self.said.append("whole")
        return x, lambda: x


def backward(state: ShardedState, units: list[Unit]) -> None:
    """One pass in which each unit has a gradient."""
    values = [torch.ones(3, requires_grad=True) for _ in units]
    for unit, one in zip(units, values, strict=True):
        one.register_hook(lambda grad, unit=unit: exchange(state, unit, grad))
    torch.stack(values).sum().backward()  # type: ignore[no-untyped-call]


def exchange(state: ShardedState, unit: Unit, gradient: Tensor) -> None:
    into = gradient.clone()
    state.exchange(UnitExchange(unit, gradient.clone(), into, into.copy_), later=True)


def test_the_next_shards_are_gathered_meanwhile() -> None:
    node: Any = Node()
    state = ShardedState(node)
    backward(state, [state.unit(name, lambda: 3, shards=True) for name in ("a", "b")])
    assert node.said == ["begun", "begun", "mean", "mean"]
    state.close()


def test_beside_units_of_whole_gradients_the_thread_keeps_the_order() -> None:
    """Their sums within the node go through the same groups."""
    node: Any = Node()
    node.second.set()
    state = ShardedState(node)
    backward(state, [state.unit("a", lambda: 3, shards=True), state.unit("b", lambda: 3)])
    assert sorted(node.said) == ["begun", "mean", "whole"]
    assert node.said.index("mean") == node.said.index("begun") + 1
    state.close()
