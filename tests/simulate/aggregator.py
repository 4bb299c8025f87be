# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The software aggregator's core in the place of a star's switch."""

from __future__ import annotations

import socket
from collections.abc import Sequence

import numpy as np
from golden.model import Host, udp_frame
from sumwire.aggregator.batches import ROW_BYTES, Batch
from sumwire.aggregator.core import Aggregator
from sumwire.aggregator.jobs import part_of
from sumwire.aggregator.state import State
from sumwire.config import JobConfig
from sumwire_protocol import constants as p4

from simulate.switches import Frames


class AggregatorSwitch:
    """Forwards what is for another host, as the switch in front of an aggregator does."""

    def __init__(self, configs: Sequence[JobConfig]) -> None:
        self._configs = configs
        self.clear(1)
        address = configs[0].aggregator
        self._own = Host(0, bytes.fromhex("025357000101"), socket.inet_aton(address), p4.SUMWIRE_PORT)
        self._ports = {socket.inet_aton(each.ip): each.seat + 1 for each in configs[0].addresses}
        self._hosts = [
            Host(each.seat + 1, bytes([0, 0, 0, 0, 0, each.seat + 1]), socket.inet_aton(each.ip), each.udp_port)
            for each in configs[0].addresses
        ]
        rows, ports = np.zeros((1, ROW_BYTES), np.uint8), np.zeros(1, ">u2")
        self._batch = Batch(rows, np.zeros(1, np.uint32), np.zeros(1, np.uint32), ports, np.zeros(1, np.uint8), 1)
        self._now_s = 0.0

    def clear(self, seed: int) -> None:
        """A new process."""
        self._aggregator = Aggregator(State([part_of(self._configs[0])], seed=seed % (1 << 32)), batch=1)

    def process(self, port: int, frame: bytes) -> Frames:
        if frame[30:34] != self._own.ip:
            return [(self._ports[frame[30:34]], frame)] if frame[30:34] in self._ports else []
        self._now_s += 1.0
        datagram, batch = frame[42:], self._batch
        row = np.frombuffer(datagram[:ROW_BYTES], np.uint8)
        batch.rows[0, : len(row)] = row
        batch.sizes[0], batch.sources[0] = len(datagram), np.frombuffer(frame[26:30], np.uint32)[0]
        batch.tos[0] = frame[15]
        batch.ports[0] = int.from_bytes(frame[34:36])
        replies = self._aggregator.process(batch, self._now_s)
        out: Frames = []
        for reply in range(replies.count):
            host = self._hosts[replies.places[reply]]
            out.append((host.port, udp_frame(self._own, host, replies.data(reply), dscp_ecn=int(replies.tos[reply]))))
        for refusal in replies.refusals:
            out += [
                (host.port, udp_frame(self._own, host, refusal.data))
                for host in self._hosts
                if socket.inet_ntoa(host.ip) == refusal.to[0]
            ]
        return out
