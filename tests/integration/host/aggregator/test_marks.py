# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What datagrams say in IPv4's TOS byte, on real sockets: marks are told to all, and replies are as urgent as asked."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from golden import model
from helpers.aggregator.served import every_op_mapping, running, serving
from helpers.transport.udp_bridge import aggregator_of, configs
from sumwire.aggregator import sharing
from sumwire.aggregator.jobs import lanes_of
from sumwire.aggregator.processes import listen
from sumwire.aggregator.server import Server
from sumwire.aggregator.sharing import HandOver
from sumwire.aggregator.state import HANDED_OVER, Shared, State

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


def test_a_mark_counts_for_its_own_slot_and_without_tags_nothing_is_urgent(
    form: str, mapping: dict[str, Any], workers: list[Worker]
) -> None:
    with serving(mapping):
        workers[0].send(MARKED, slot=1)
        for worker in workers:
            worker.send(0x00)
        for worker in workers:
            result, tos = worker.hear()
            assert (result.slot, result.flags, tos) == (0, 0, 0x02)


def test_marks_stay_with_datagrams_that_are_handed_over(
    mapping: dict[str, Any], workers: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "attach", lambda *_: None)
    parts = lanes_of(configs(mapping)[:1])
    shared, inboxes = Shared(parts, processes=2), [HandOver(), HandOver()]
    sockets = listen(aggregator_of(mapping), model.UDP_PORT, 2)
    states = [State(parts, shared, number, seed=1) for number in range(2)]
    servers = [Server(udp, states[number], inboxes, number) for number, udp in enumerate(sockets)]
    with running(servers):
        # Slots of both processes, and all of a worker's packets come to one.
        for slot in (0, 64):
            workers[0].send(MARKED, slot=slot)
            workers[0].send(0x00, slot=slot, kind=model.PROBE, words=0, payload=b"")
            assert workers[0].hear()[0].flags == model.CE
            workers[1].send(URGENT, slot=slot)
            for worker in workers:
                result, tos = worker.hear()
                assert (result.kind, result.slot, result.flags, tos) == (model.RESULT, slot, model.CE, 0xA2)
    for end in (*sockets, *inboxes):
        end.close()
    # Of each worker's packets, 2 and 1 a slot, either the one slot's or the other's.
    assert sum(int(state.sockets[HANDED_OVER]) for state in states) == 3
