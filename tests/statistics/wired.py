# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""bmv2 on one veth pair, 16 hosts behind its one port, as a source of merged signs."""

from __future__ import annotations

import contextlib
import select
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import grpc
import numpy as np
from helpers.packet import rigs
from helpers.softswitch.veths import Host, veth_pairs
from sumwire.multihop.statistics import Signs
from sumwire.wire.packets import unpack
from sumwire_controller.deploy.operations import apply
from sumwire_controller.parse.files import parse_config
from sumwire_lab.network.switches import free_tcp_port
from sumwire_protocol import constants as p4

from .networks import LOWER_BYTES, PAYLOAD_AT, SLOTS, Node, seats_of, star_config

ANSWER_S: Final = 30.0
# Nothing here is sent again: what is in flight must fit the smallest buffer on the way.
PACKETS_IN_FLIGHT: Final = 16
SO_RCVBUFFORCE: Final = 33
BUFFER_BYTES: Final = 4 << 20


class Wired:
    """One running switch and the far end of its cable."""

    def __init__(self, trees: Sequence[Node], link: socket.socket) -> None:
        self._trees = trees
        self._link = link
        self._sequence = [0] * len(trees)

    def rounds(self, job: int, signs: Signs, rounds: int) -> Signs:
        """A source, as Network.rounds is; some slots are in flight."""
        seats = seats_of(self._trees, job, signs)
        first = self._sequence[job]
        self._sequence[job] = first + rounds
        merged: dict[int, bytes] = {}
        sent = 0
        in_flight = max(1, min(SLOTS // 2, PACKETS_IN_FLIGHT // len(seats)))
        while len(merged) < rounds:
            while sent < rounds and sent - len(merged) < in_flight:
                round_, slot = divmod(first + sent, SLOTS)
                for seat in seats:
                    self._link.send(seat.at(slot, round_))
                sent += 1
            number, payload = self._result(len(seats))
            merged[number - first] = payload
        packed = np.stack([np.frombuffer(merged[k], np.uint8) for k in range(rounds)])
        return np.unpackbits(packed, axis=1).astype(np.bool_)

    def _result(self, workers: int) -> tuple[int, bytes]:
        """The next slot's result: as many equal copies as workers, all at this port, one after the other."""
        copies = set()
        for _ in range(workers):
            ready, _, _ = select.select([self._link], [], [], ANSWER_S)
            if not ready:
                raise AssertionError(f"no result for {ANSWER_S} s")
            copies.add(self._link.recv(2048)[LOWER_BYTES:])
        headers = {unpack(copy)[0] for copy in copies}
        (header,) = {(header.round, header.slot, header.count, header.kind) for header in headers}
        round_, slot, count, kind = header
        if (count, kind) != (workers, p4.KIND_RESULT):
            raise AssertionError(f"count {count}, kind {kind}: not the result of {workers} workers")
        (payload,) = {copy[PAYLOAD_AT - LOWER_BYTES :] for copy in copies}
        return round_ * SLOTS + slot, payload


@contextlib.contextmanager
def wired(trees: Sequence[Node], log: Path) -> Iterator[Wired]:
    """Start bmv2, give it its entries, end it afterwards."""
    address = f"127.0.0.1:{free_tcp_port()}"
    with contextlib.ExitStack() as stack:
        (ours,) = stack.enter_context(veth_pairs(1)).values()
        output = stack.enter_context(log.open("wb"))
        process = subprocess.Popen(rigs.bmv2_command([ours], address), stdout=output, stderr=output)
        stack.callback(process.wait, 10)
        stack.callback(process.terminate)
        with grpc.insecure_channel(address) as channel:
            grpc.channel_ready_future(channel).result(rigs.READY_S)
        apply(parse_config(star_config(trees, address)))
        link = stack.enter_context(Host(ours)).socket
        link.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        yield Wired(trees, link)
