# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The software aggregator's core in the place of a switch: alone, or one of a tree."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from golden.model import Host, udp_frame
from sumwire.aggregator.batches import ROW_BYTES, Batch, Refusal
from sumwire.aggregator.core import Aggregator
from sumwire.aggregator.jobs import lanes_of
from sumwire.aggregator.parent_link import ParentLink
from sumwire.aggregator.state import Shared, State, packed_address
from sumwire.config import JobConfig
from sumwire_protocol import constants as p4

from simulate.network import Way
from simulate.switches import Frames

# How often an aggregator looks whether it is to ask the one above.
LOOK_S: Final = 0.1


class AggregatorSwitch:
    """Forwards what is for others, as the switch in front of an aggregator does. ``ways``: to all addresses.

    ``config``: any worker's. ``own``: the aggregator itself. ``now``: seconds.
    """

    def __init__(self, config: JobConfig, own: Host, ways: Mapping[str, Way], now: Callable[[], float]) -> None:
        self._own = own
        self._address = socket.inet_ntoa(own.ip)
        self._ways = ways
        self._parts = lanes_of([config], self._address)
        rows, ports = np.zeros((1, ROW_BYTES), np.uint8), np.zeros(1, ">u2")
        self._batch = Batch(rows, np.zeros(1, np.uint32), np.zeros(1, np.uint32), ports, np.zeros(1, np.uint8), 1)
        self._now, self._calls = now, 0
        self.clear(1)

    def clear(self, seed: int) -> None:
        """A new process. Below others it serves only once it knows the generation of those."""
        self._seed = seed % (1 << 32)
        generation = 1 + random.Random(seed).randrange((1 << 32) - 1) if self._in_tree else 1 + self._seed % (2**32 - 1)
        self._shared = Shared(self._parts, generation=generation)
        self._above = ParentLink(self._parts, self._shared)
        self._aggregator: Aggregator | None = None
        self._serve()

    @property
    def _in_tree(self) -> bool:
        return any(part.in_tree for part in self._parts)

    def _serve(self) -> None:
        if self._aggregator is None and self._above.is_known:
            self._aggregator = Aggregator(State(self._parts, self._shared, seed=self._seed), batch=1)
        if self._aggregator is not None:
            self._aggregator.state.adopt()

    def look(self) -> Frames:
        """What it asks the aggregator above, if it is time."""
        above = self._above if self._aggregator is None else self._aggregator.upward
        found = [self._told(question) for question in above.questions(self._now())]
        self._serve()
        return found

    def process(self, port: int, frame: bytes) -> Frames:
        if frame[30:34] != self._own.ip:
            way = self._ways.get(socket.inet_ntoa(frame[30:34]))
            return [(way.port, frame)] if way is not None and way.port != port else []
        datagram, sender = frame[42:], socket.inet_ntoa(frame[26:30])
        if self._aggregator is None:
            self._above.take(datagram, (packed_address(sender), int.from_bytes(frame[34:36])))
            self._serve()
            return []
        batch = self._batch
        self._calls += 1
        row = np.frombuffer(datagram[:ROW_BYTES], np.uint8)
        batch.rows[0, : len(row)] = row
        batch.sizes[0], batch.sources[0] = len(datagram), np.frombuffer(frame[26:30], np.uint32)[0]
        batch.tos[0] = frame[15]
        batch.ports[0] = int.from_bytes(frame[34:36])
        # So that each refusal is told.
        replies = self._aggregator.process(batch, float(self._calls))
        self._serve()
        out: Frames = []
        for reply in range(replies.count):
            to = self._aggregator.state.places[replies.places[reply]]
            out.append(self._sent(replies.data(reply), to, int(replies.tos[reply])))
        return out + [self._told(refusal) for refusal in replies.refusals if refusal.to[0] in self._ways]

    def _told(self, refusal: Refusal) -> tuple[int, bytes]:
        return self._sent(refusal.data, refusal.to, 0)

    def _sent(self, data: bytes, to: tuple[str, int], tos: int) -> tuple[int, bytes]:
        way = self._ways[to[0]]
        host = Host(way.port, way.mac, socket.inet_aton(to[0]), to[1])
        source = Host(0, self._own.mac, self._own.ip, p4.SUMWIRE_PORT)
        return way.port, udp_frame(source, host, data, dscp_ecn=tos)
