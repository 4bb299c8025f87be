# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Trees of aggregators on loopback, in threads of the test."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from golden import model
from helpers.aggregator.served import EVERY_OP, LossyServer, running
from helpers.transport.udp_bridge import aggregator_of, job_mapping
from sumwire.aggregator.jobs import aggregators_of, lanes_of
from sumwire.aggregator.processes import listen
from sumwire.aggregator.server import Server
from sumwire.aggregator.state import Shared, State
from sumwire.aggregator.upward import Upward, wait_for_above
from sumwire.config import JobConfig


def tree_mapping(places: Sequence[int], above: Sequence[int], slots: int = 64) -> dict[str, Any]:
    """The job file of a tree with every op. Aggregator 0 is the root. ``places``: by worker, its aggregator.
    ``above``: by aggregator from 1 on, the one above it."""
    mapping = job_mapping(len(places), slots)
    root = aggregator_of(mapping)
    names = [root, *(f"{root.rsplit('.', 1)[0]}.{100 + number}" for number in range(len(above)))]
    taken = dict.fromkeys(names, 0)

    def seat(aggregator: str) -> int:
        taken[aggregator] += 1
        return taken[aggregator] - 1

    addresses = [
        {**entry, "aggregator": names[place], "seat": seat(names[place])}
        for entry, place in zip(mapping["addresses"], places, strict=True)
    ]
    tree = [
        {"aggregator": names[number], "above": names[upper], "seat": seat(names[upper])}
        for number, upper in enumerate(above, 1)
    ]
    return {**mapping, "ops": EVERY_OP, "addresses": addresses, "tree": tree}


class Tree:
    """The running aggregators, by address. Each can be ended, and started again."""

    def __init__(self, config: JobConfig, loss: float) -> None:
        self.names = sorted(aggregators_of(config), key=lambda name: _depth(config, name))
        self.states: dict[str, State] = {}
        self._config, self._loss = config, loss
        self._stacks: dict[str, ExitStack] = {}

    @property
    def root(self) -> str:
        return self.names[0]

    def start(self, name: str) -> None:
        """As the command does: a lower one waits until the one above has answered."""
        parts = lanes_of([self._config], name)
        stack = self._stacks[name] = ExitStack()
        (udp,) = listen(name, model.UDP_PORT, 1)
        stack.enter_context(udp)
        shared = Shared(parts)
        wait_for_above(Upward(parts, shared), [udp], threading.Event().wait)
        self.states[name] = State(parts, shared, seed=3)
        server: Server = Server(udp, self.states[name])
        if self._loss:
            server = LossyServer(udp, self.states[name])
            server.loss = self._loss
        stack.enter_context(running([server]))

    def end(self, name: str) -> None:
        self._stacks.pop(name).close()

    def close(self) -> None:
        for name in list(self._stacks):
            self.end(name)


def _depth(config: JobConfig, name: str) -> int:
    above = {one.aggregator: one.above for one in config.tree}
    return 1 + _depth(config, above[name]) if name in above else 0


@contextmanager
def serving_tree(config: JobConfig, loss: float = 0.0) -> Iterator[Tree]:
    """The aggregators of a job, of any worker's configuration, until the block ends."""
    tree = Tree(config, loss)
    try:
        for name in tree.names:
            tree.start(name)
        yield tree
    finally:
        tree.close()
