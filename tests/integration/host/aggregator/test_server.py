# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The aggregator on real sockets, with the host library's workers."""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import sumwire
import torch
from golden import model
from helpers.aggregator.served import every_op_mapping, running, serving
from helpers.transport.udp_bridge import aggregator_of, configs, run_workers
from helpers.waiting import until
from sumwire.aggregator.core import BATCH
from sumwire.aggregator.jobs import lanes_of
from sumwire.aggregator.processes import listen
from sumwire.aggregator.server import Server
from sumwire.aggregator.state import SENT, UNSENT, State
from sumwire.codec.sign import VoteCodec
from sumwire.errors import DeadlineError
from sumwire.transport.options import Delivery
from sumwire.wire.batch import BatchSocket, enlarge_buffers
from sumwire.wire.packets import HEADER_BYTES, OP_WORDS, WORD_BYTES, headers, write_headers
from sumwire_lab.bench.aggregator import measured
from sumwire_lab.options.bench_options import AggregatorOptions
from sumwire_protocol import constants as p4
from torch import Tensor

LENGTH = 30_000


def gradients(workers: int = 4) -> list[Tensor]:
    generator = torch.Generator().manual_seed(8)
    return [torch.randn(LENGTH, generator=generator) + 0.3 for _ in range(workers)]


def every_operation(job: sumwire.Job, x: Tensor) -> list[Tensor]:
    mean, residual = job.reduce(x)
    votes, _ = job.reduce_with(VoteCodec(), x)
    return [mean, job.mean(x), job.merged_signs(x), job.vote(x >= 0), votes, residual()]


def run(mapping: dict[str, Any], xs: list[Tensor]) -> list[list[Tensor]]:
    def work(worker: int) -> list[Tensor]:
        with sumwire.Job(configs(mapping)[worker], fallback="never", deadline_s=20.0) as job:
            return every_operation(job, xs[worker])

    return run_workers(work, len(xs))


@pytest.mark.parametrize("loss", [0.0, 0.02])
def test_workers_cannot_tell_it_from_a_switch(form: str, loss: float) -> None:
    xs, mapping = gradients(), every_op_mapping(slots=256)
    with serving(mapping, loss) as state:
        results = run(mapping, xs)
        if not loss:
            # Another run, on the slots as this one has left them. All is the same but merged signs, which are drawn.
            again = run(mapping, xs)
            assert all(torch.equal(results[0][k], again[0][k]) for k in (0, 1, 3, 4))
    stacked = torch.stack(xs)
    mean = stacked.mean(0)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0][:-1], other[:-1], strict=True))
    thc, exact, signs, vote, _, _ = results[0]
    assert float((thc - mean).square().sum() / mean.square().sum()) < 0.03
    assert float((exact - mean).abs().max()) < 1e-6
    # A sign of somebody's, and right on average: the mean of 30,000 draws is within five standard deviations.
    plus = (stacked >= 0).double().mean(0)
    assert torch.equal(signs[plus == 1], torch.ones(int((plus == 1).sum())))
    assert torch.equal(signs[plus == 0], -torch.ones(int((plus == 0).sum())))
    assert abs(float((signs > 0).double().mean() - plus.mean())) < 5 * 0.5 / LENGTH**0.5
    assert torch.equal(vote, (stacked >= 0).sum(0) >= 2)
    counted = {name: int(state.verdicts[getattr(p4, f"VERDICT_{name}")]) for name in ("FIRST", "LAST", "REJECT")}
    assert counted["FIRST"] == counted["LAST"] > 100 and counted["REJECT"] == 0
    if loss:
        assert state.verdicts[p4.VERDICT_DUPLICATE] + state.verdicts[p4.VERDICT_REPEAT] > 0


def test_a_bounded_loss_leaves_some_out_and_all_agree(form: str) -> None:
    xs, mapping = gradients(), every_op_mapping(slots=256)
    delivery = Delivery(loss_bound=0.05)

    def work(worker: int) -> tuple[Tensor, int]:
        with sumwire.Job(configs(mapping)[worker], delivery=delivery, fallback="never", deadline_s=20.0) as job:
            mean, _ = job.reduce(torch.cat([xs[worker]] * 8))
            return mean, job.stats.missing

    with serving(mapping, loss=0.03) as state:
        results = run_workers(work, 4)
    # 240,000 values, of 1024 in a chunk, rotated as a power of two of them.
    chunks = 256
    for mean, missing in results:
        assert torch.equal(mean, results[0][0])
        assert missing == results[0][1] <= 0.05 * 4 * chunks
    # Some were left out, and each of them by a flush that said how few are enough.
    assert 0 < state.verdicts[p4.VERDICT_FLUSH] <= results[0][1]


def test_runs_of_fewer_workers_and_of_all(form: str) -> None:
    """One after the other, on the same slots."""
    xs, mapping = gradients(), {**every_op_mapping(), "workers_min": 2}

    with serving(mapping):
        for workers in (2, 4, 3):

            def work(worker: int, workers: int = workers) -> Tensor:
                config = configs(mapping)[worker].for_run(workers)
                with sumwire.Job(config, fallback="never", deadline_s=20.0) as job:
                    return job.mean(xs[worker])

            means = run_workers(work, workers)
            mean = torch.stack(xs[:workers]).mean(0)
            assert all(torch.equal(other, means[0]) for other in means)
            assert float((means[0] - mean).abs().max()) < 1e-6


def test_more_than_a_batch_at_once_is_answered(form: str) -> None:
    """The packets are there before the aggregator looks: two batches and a part of one."""
    mapping, chunks, words = every_op_mapping(slots=512), 320, OP_WORDS[p4.OP_SIGN]
    state = State(lanes_of(configs(mapping)[:1]), seed=3)
    with contextlib.ExitStack() as stack:
        (udp,) = listen(aggregator_of(mapping), model.UDP_PORT, 1)
        stack.enter_context(udp)
        server = Server(udp, state)
        assert (server._one_call is not None) == (form == "native")
        rows = np.ones((chunks, HEADER_BYTES + words[0] * WORD_BYTES), np.uint8)
        sockets = []
        for seat, address in enumerate(mapping["addresses"]):
            worker = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            enlarge_buffers(worker)
            worker.bind((address["ip"], model.UDP_PORT))
            worker.connect((aggregator_of(mapping), model.UDP_PORT))
            sockets.append(BatchSocket(worker, row_bytes=2048, batch=256))
            write_headers(rows, op=p4.OP_SIGN, job=mapping["job"], seat=seat, slots=512, first_sequence=0, bucket=0)
            sockets[-1].load(rows)
            sockets[-1].send(np.arange(chunks))
        waiting = int(udp.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))
        assert chunks > BATCH / 2 and waiting > 4 * rows.nbytes, "the test needs a large socket buffer"
        with running([server]):
            for one in sockets:
                got: list[int] = []
                while len(got) < chunks:
                    assert select.select([one], [], [], 20)[0]
                    count = one.receive()
                    got += headers(one.received)["slot"][:count].tolist()
                assert got == list(range(chunks))
    assert state.verdicts[p4.VERDICT_LAST] == chunks
    assert (state.sockets[SENT], state.sockets[UNSENT]) == (4 * chunks, 0)


def test_a_missing_worker_is_named() -> None:
    xs, mapping = gradients(), every_op_mapping()

    def work(worker: int) -> str:
        with sumwire.Job(configs(mapping)[worker], fallback="never", join_s=2.0) as job:
            try:
                every_operation(job, xs[worker])
            except DeadlineError as error:
                return str(error)
        return ""

    with serving(mapping):
        told = run_workers(work, 3)
    assert all("missing workers: [3]" in text for text in told)


def test_strangers_are_refused_and_counted() -> None:
    mapping = every_op_mapping()
    packet = model.Packet(1, model.MAX32, mapping["job"], 0, 0, 1, 0, 0, 0, 1, 0, 0, bytes(128))
    with serving(mapping) as state, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.bind(("127.0.0.1", 0))
        for datagram in (packet.encode(), b"", b"\x11", bytes(2000)):
            stranger.sendto(datagram, (aggregator_of(mapping), model.UDP_PORT))
        until(lambda: int(state.verdicts.sum()) == 4)
    rejects = {index: int(count) for index, count in enumerate(state.rejects) if count}
    # The kernel keeps 2,000 bytes from nobody: they are too many, and of version 0 before that.
    assert rejects == {p4.REJECT_ADDRESS: 1, p4.REJECT_LENGTH: 2, p4.REJECT_VERSION: 1}
    assert np.array_equal(state.slots, np.zeros_like(state.slots))


def test_a_worker_is_told_at_the_port_that_it_sent_from(form: str) -> None:
    """As urgently as it asked. A HELLO is answered from the worker's own port only."""
    mapping = every_op_mapping()
    own = mapping["addresses"][1]
    wrong = model.Packet(1, model.MAX32, 999, 3, 1, 1, 0, 0, 0, 1, 8, 9, bytes(128))
    hello = model.Packet(model.PROBE, 0, mapping["job"], 0, 1, 1, 5, 0, 0, 0, 0, 0)
    with (
        serving(mapping) as state,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as worker,
    ):
        for udp, port in ((asker, 0), (worker, own["udp_port"])):
            udp.bind((own["ip"], port))
            udp.settimeout(60.0)
        asker.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
        asker.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0xB0)
        asker.sendto(wrong.encode(), (aggregator_of(mapping), model.UDP_PORT))
        data, [(_, _, tos)], _, sender = asker.recvmsg(2000, 64)
        assert sender == (aggregator_of(mapping), model.UDP_PORT)
        assert model.decode(data) == wrong._replace(kind=model.REFUSED, count=p4.REJECT_JOB, words=0, payload=b"")
        assert tos[0] == 0xA2
        worker.sendto(hello.encode(), sender)
        answer = model.decode(worker.recv(2000))
        digest = int(state.jobs["digest"][0])
        assert (answer.kind, answer.round, answer.bucket) == (model.INFORM, 5, digest >> 16)
        assert answer.chunk == p4.PROGRAM_REVISION << 16 | digest & 0xFFFF


@pytest.mark.parametrize(("op", "processes"), [("thc", 1), ("max32", 2)])
def test_every_result_comes_and_costs_something(op: str, processes: int) -> None:
    options = AggregatorOptions(op, 2, processes, rate=5000.0, seconds=0.2, runs=1)
    (spent,) = measured(options)
    assert spent["contributions"] >= 64
    assert spent["results"] == spent["contributions"]
    assert 0 < spent["cpu_s"] < spent["wall_s"] * processes
    # Not faster than it was told to be, but for the last piece.
    assert spent["contributions"] <= 5000 * spent["wall_s"] + 32


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
