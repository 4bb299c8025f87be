# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Slots shared out among processes: who gets what, and that it does not matter who got it first."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import sumwire
import torch
from golden import model
from helpers.aggregator.served import every_op_mapping, running
from helpers.aggregator.streams import Datagram, aggregator, load
from helpers.logs import lines_of
from helpers.packet.aggregator_rig import PLAIN, part
from helpers.packet.play import contribution, named
from helpers.packet.star import SINGLE
from helpers.transport.udp_bridge import aggregator_of, configs, run_workers
from sumwire.aggregator import sharing
from sumwire.aggregator.batches import Batch
from sumwire.aggregator.core import Aggregator
from sumwire.aggregator.jobs import lanes_of
from sumwire.aggregator.processes import ListenError, listen
from sumwire.aggregator.server import Server
from sumwire.aggregator.sharing import HandOver, HandOverReceiver
from sumwire.aggregator.sockets import UdpReceiver
from sumwire.aggregator.state import HANDED_OVER, Shared, State
from sumwire_protocol import constants as p4
from sumwire_protocol.events import Event

SLOTS = 512
BLOCK = 64


@contextlib.contextmanager
def group(mapping: dict[str, Any], processes: int) -> Iterator[list[socket.socket]]:
    sockets = listen(aggregator_of(mapping), model.UDP_PORT, processes)
    try:
        yield sockets
    finally:
        for udp in sockets:
            udp.close()


def datagram(job: int, slot: int) -> bytes:
    return struct.pack("!BBHH", 0x21, 1, job, slot) + bytes(26)


@pytest.mark.parametrize("processes", [2, 3, 4])
def test_the_kernel_picks_by_slot(processes: int) -> None:
    mapping = every_op_mapping()
    with group(mapping, processes) as sockets, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind((mapping["addresses"][0]["ip"], 0))
        sender.connect((aggregator_of(mapping), model.UDP_PORT))
        places = [(job, slot) for job in (0, 7, 65535) for slot in (*range(0, SLOTS, 21), 65535)]
        for job, slot in places:
            sender.send(datagram(job, slot))
        for number, udp in enumerate(sockets):
            batch = UdpReceiver(udp, 256).receive()
            got = [struct.unpack_from("!HH", row, 2) for row in batch.rows[: batch.count]]
            assert got == [(job, slot) for job, slot in places if (job + slot // BLOCK) % processes == number]
            assert set(sharing.owners(batch, processes).tolist()) == {number}


def test_what_has_no_slot_goes_to_the_first() -> None:
    mapping = every_op_mapping()
    with group(mapping, 2) as sockets, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for length in (0, 1, 5):
            sender.sendto(bytes([0xFF]) * length, (aggregator_of(mapping), model.UDP_PORT))
        batch = UdpReceiver(sockets[0], 8).receive()
        assert batch.sizes[: batch.count].tolist() == [0, 1, 5]
        assert sharing.owners(batch, 2).tolist() == [0, 0, 0]


def test_a_port_that_is_freed_soon_is_waited_for() -> None:
    """That of an aggregator that was killed, whose processes have not ended yet."""
    mapping = every_op_mapping()
    with group(mapping, 1) as (former,):
        (udp,) = listen(aggregator_of(mapping), model.UDP_PORT, 1, sleep=lambda _: former.close())
        udp.close()


def test_a_kernel_that_does_not_pick_by_slot(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def refuses(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(sharing, "attach", refuses)
    with group(every_op_mapping(), 2):
        pass
    (line,) = lines_of(caplog.records)
    assert line["event"] == Event.PROCESSES_UNSTEERED.word
    assert "use --processes 1" in line["message"]


def test_a_taken_port_is_an_error_that_says_so() -> None:
    mapping = every_op_mapping()
    # Also where the one that has it would share.
    with group(mapping, 2), pytest.raises(ListenError, match=rf"{aggregator_of(mapping)}:{model.UDP_PORT}.*in use"):
        listen(aggregator_of(mapping), model.UDP_PORT, 2, sleep=lambda _: None)


def test_handed_over_datagrams_keep_their_senders() -> None:
    rng = np.random.default_rng(0)
    batch = load([Datagram(bytes([10, 0, 0, k]), rng.bytes(k * 100), k, 1000 + k) for k in range(8)], rng)
    inbox = HandOver()
    try:
        assert inbox.put(batch, np.array([1, 6])) == 2
        got = HandOverReceiver(inbox, 8).receive()
        assert got.count == 2
        assert got.sizes[:2].tolist() == [100, 600]
        assert got.sources[:2].tolist() == batch.sources[[1, 6]].tolist()
        assert (got.ports[:2].tolist(), got.tos[:2].tolist()) == ([1001, 1006], [1, 6])
        assert all(np.array_equal(got.rows[i, : k * 100], batch.rows[k, : k * 100]) for i, k in ((0, 1), (1, 6)))
        assert HandOverReceiver(inbox, 8).receive().count == 0
    finally:
        inbox.close()


@pytest.mark.parametrize("picked", [True, False], ids=["picked", "not picked"])
def test_every_slot_is_worked_on_by_its_own_process(picked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the kernel's choice, and without: then much is handed over."""
    if not picked:
        monkeypatch.setattr(sharing, "attach", lambda *_: None)
    mapping = every_op_mapping(slots=SLOTS)
    job = configs(mapping)[:1]
    parts = lanes_of(job)
    shared = Shared(parts, processes=2)
    states = [State(parts, shared, number, seed=1) for number in range(2)]
    inboxes = [HandOver(), HandOver()]
    x = torch.arange(300_000) % 97 - 40.0

    def work(worker: int) -> torch.Tensor:
        with sumwire.Job(configs(mapping)[worker], fallback="never", deadline_s=20.0) as own:
            return own.mean(x * worker)

    with group(mapping, 2) as sockets:
        servers = [
            Server(udp, state, inboxes, number) for number, (udp, state) in enumerate(zip(sockets, states, strict=True))
        ]
        with running(servers):
            means = run_workers(work, 4)
    for inbox in inboxes:
        inbox.close()
    assert all(torch.allclose(mean, x * 1.5, atol=1e-4) for mean in means)
    for number, state in enumerate(states):
        used = np.flatnonzero(state.slots["used"])
        assert set((mapping["job"] + used // BLOCK) % 2) == {number}
    assert shared.counters[:, 8].sum() == 0, "a packet was refused"
    handed_over = int(states[0].sockets[HANDED_OVER] + states[1].sockets[HANDED_OVER])
    # No train has datagrams for both.
    assert handed_over == 0 if picked else handed_over > 100


def test_a_process_learns_of_a_run_that_another_one_opens_meanwhile() -> None:
    """Threads as processes, on the memory that these share. Packets of the run are refused before it is opened, and
    taken from then on: the round that is known is that of the token that is known."""
    runs, copies, step = 1000, 60, 7
    shared = Shared([part(job) for job in PLAIN], processes=2)
    opener, other = (aggregator(native=True, shared=shared, process=number) for number in range(2))
    rng = np.random.default_rng(5)
    meeting = threading.Barrier(2, timeout=60)

    def batch(slot: int, run: int, count: int, bucket: int) -> Batch:
        payload = named(shared.generation)[: model.WORD] * p4.THC_WORDS_UP
        token = model.TOKENS_OF_RUNS + run
        packet = contribution(SINGLE, 0, slot, run * step, payload, token=token, bucket=bucket)
        return load([Datagram(SINGLE.workers[0].ip, packet.encode())] * count, rng)

    def work(served: Aggregator, batches: list[Batch]) -> None:
        for one in batches:
            meeting.wait()
            served.process(one, 0.0)

    opening = [batch(0, run, 1, p4.BUCKET_OPENS_RUN) for run in range(1, runs)]
    thread = threading.Thread(target=work, args=(opener, opening))
    thread.start()
    work(other, [batch(1, run, copies, 7) for run in range(1, runs)])
    thread.join()
    assert opener.state.verdicts[p4.VERDICT_LAST] == runs - 1
    rejects = other.state.rejects
    assert {int(reason) for reason in np.flatnonzero(rejects)} <= {p4.REJECT_TOKEN}
    assert other.state.verdicts[[p4.VERDICT_LAST, p4.VERDICT_DUPLICATE]].sum() > 0
