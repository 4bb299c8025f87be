# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Aggregators on loopback in threads of the test, alone or in trees, whose datagrams may get lost on either side."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from golden import model
from helpers.transport.udp_bridge import aggregator_of, configs, job_mapping
from sumwire.aggregator.batches import Batch, Replies
from sumwire.aggregator.jobs import aggregators_of, lanes_of
from sumwire.aggregator.parent_link import ParentLink, wait_for_above
from sumwire.aggregator.processes import listen
from sumwire.aggregator.server import Server
from sumwire.aggregator.sharing import HandOverReceiver
from sumwire.aggregator.sockets import UdpReceiver
from sumwire.aggregator.state import Shared, State
from sumwire.config import JobConfig
from sumwire_protocol.ops import SHORT_OPS

EVERY_OP = [op.name for op in SHORT_OPS]


def every_op_mapping(workers: int = 4, slots: int = 64) -> dict[str, Any]:
    return {**job_mapping(workers, slots), "ops": EVERY_OP}


class LossyServer(Server):
    """Loses a share of what comes and of what it says."""

    loss = 0.0
    rng = np.random.default_rng(5)

    def _in_one_call(self) -> None:
        return None

    def _take(self, receiver: UdpReceiver | HandOverReceiver) -> Batch:
        batch = super()._take(receiver)
        batch.keep(np.flatnonzero(self.rng.random(batch.count) >= self.loss))
        return batch

    def _answer(self, replies: Replies, longest: int) -> None:
        kept = np.flatnonzero(self.rng.random(replies.count) >= self.loss)
        for array in (replies.heads, replies.payload_of, replies.sizes, replies.places, replies.tos):
            array[: len(kept)] = array[kept]
        replies.count = len(kept)
        super()._answer(replies, longest)


@contextmanager
def serving(
    mapping: dict[str, Any], loss: float = 0.0, within: Callable[[Callable[[], Any]], Any] | None = None
) -> Iterator[State]:
    """The state of an aggregator that serves the job until the block ends. ``within``: calls what opens its socket."""
    state = State(lanes_of(configs(mapping)[:1]), seed=3)

    def opened() -> list[socket.socket]:
        return listen(aggregator_of(mapping), model.UDP_PORT, 1)

    (udp,) = opened() if within is None else within(opened)
    with udp:
        server: Server = Server(udp, state)
        if loss:
            server = LossyServer(udp, state)
            server.loss = loss
        with running([server]):
            yield state


@contextmanager
def running(servers: Sequence[Server]) -> Iterator[None]:
    """Each in a thread."""
    reader, writer = os.pipe()
    errors: list[Exception] = []

    def run(server: Server) -> None:
        try:
            server.run(reader)
        except Exception as error:  # noqa: BLE001 - raised again below, in the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=run, args=(server,), daemon=True) for server in servers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        os.close(writer)
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        os.close(reader)
        if errors:
            raise errors[0]


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
        wait_for_above(ParentLink(parts, shared), [udp], threading.Event().wait)
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
