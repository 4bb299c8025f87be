# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""An aggregator on loopback in a thread of the test, whose datagrams may get lost on either side."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from golden import model
from helpers.transport.udp_bridge import aggregator_of, configs, job_mapping
from sumwire.aggregator.batches import Batch, Replies
from sumwire.aggregator.jobs import lanes_of
from sumwire.aggregator.processes import listen
from sumwire.aggregator.server import Server
from sumwire.aggregator.sharing import HandOverReceiver
from sumwire.aggregator.sockets import UdpReceiver
from sumwire.aggregator.state import State
from sumwire_protocol.ops import OPS

EVERY_OP = [op.name for op in OPS]


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
