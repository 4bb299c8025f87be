# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What datagrams say in IPv4's TOS byte, on real sockets: marks are told to all, and replies are as urgent as asked."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from golden import model
from helpers.aggregator.served import every_op_mapping, serving
from helpers.transport.udp_bridge import aggregator_of

# Priority 5, drop class 2, not capable of being marked; and priority 3, protected, marked on the way.
URGENT, MARKED = 0xB0, 0x63
SLOTS = 300


class Worker:
    """One worker's socket, by hand."""

    def __init__(self, mapping: dict[str, Any], worker: int) -> None:
        self._mapping, self._worker = mapping, worker
        own = mapping["addresses"][worker]
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.settimeout(60.0)
        self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
        self._socket.bind((own["ip"], own["udp_port"]))

    def close(self) -> None:
        self._socket.close()

    def send(self, tos: int, slot: int = 0, **fields: Any) -> None:
        packet = model.Packet(
            model.CONTRIBUTE, model.MAX32, self._mapping["job"], slot, self._worker, 1, 0, 0, 0, 1, 0, 0, bytes(128)
        )
        self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
        datagram = packet._replace(**fields).encode()
        self._socket.sendto(datagram, (aggregator_of(self._mapping), model.UDP_PORT))

    def hear(self) -> tuple[model.Packet, int]:
        """The next packet and its TOS."""
        data, [(_, _, tos)], _, _ = self._socket.recvmsg(2000, 64)
        return model.decode(data), tos[0]


@pytest.fixture
def mapping() -> dict[str, Any]:
    return every_op_mapping(workers=2, slots=SLOTS)


@pytest.fixture
def workers(mapping: dict[str, Any]) -> Iterator[list[Worker]]:
    made = [Worker(mapping, number) for number in range(2)]
    yield made
    for worker in made:
        worker.close()


def test_a_mark_reaches_all_and_results_are_as_urgent_as_the_last_contribution(
    form: str, mapping: dict[str, Any], workers: list[Worker]
) -> None:
    with serving(mapping):
        workers[0].send(MARKED)
        # A probe behind it finds it there, and is answered with its own priority.
        workers[0].send(URGENT, kind=model.PROBE, words=0, payload=b"")
        inform, tos = workers[0].hear()
        assert (inform.kind, inform.contributors, inform.flags, tos) == (model.INFORM, 1, model.CE, 0xA2)
        workers[1].send(URGENT)
        for worker in workers:
            result, tos = worker.hear()
            assert (result.kind, result.count, result.flags, tos) == (model.RESULT, 2, model.CE, 0xA2)
