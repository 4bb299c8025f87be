# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The transport over real sockets, with the golden switch on loopback."""

from __future__ import annotations

import random
import socket
import time
from itertools import count
from typing import Any

import numpy as np
import pytest
from golden import model
from helpers.transport.udp_bridge import (
    JOB,
    TABLE,
    Bridge,
    Impairment,
    aggregator_of,
    configs,
    golden_switch,
    job_mapping,
    run_workers,
)
from numpy.typing import NDArray
from sumwire.errors import DeadlineError, OrderError, UsageError
from sumwire.transport.buffers import Buffers, Results
from sumwire.transport.options import TransportOptions
from sumwire.transport.scheduling import Flight
from sumwire.transport.udp import Transport
from sumwire.wire import packets as wire
from sumwire.wire.batch import BatchSocket
from sumwire.wire.packets import chunks_of, headers, write_headers
from sumwire_protocol import constants as p4

WORKERS = 3


def planes(seed: int, chunks: int) -> NDArray[np.uint8]:
    """Index planes of every worker, (workers, chunks, 4, 128)."""
    return np.random.default_rng(seed).integers(0, 256, (WORKERS, chunks, 4, 128), dtype=np.uint8)


def sums(up: NDArray[np.uint8]) -> list[bytes]:
    """Golden sum planes, by chunk."""
    table = np.array(TABLE)
    return [
        model.to_planes(np.sum([table[model.from_planes(one.tobytes())] for one in up[:, chunk]], axis=0), 8)
        for chunk in range(up.shape[1])
    ]


def assert_sums(results: Results, up: NDArray[np.uint8]) -> None:
    assert [words.tobytes() for words in results.words] == sums(up)
    assert results.counts.tolist() == [WORKERS] * up.shape[1]
    assert results.contributors.tolist() == [(1 << WORKERS) - 1] * up.shape[1]
    assert not results.flags.any()


def test_packets_are_the_wire_format() -> None:
    """Every field against the golden encoder, and against wire.unpack."""
    payload = planes(1, 5)[0]
    packets = np.full((5, wire.HEADER_BYTES + 4 * wire.WORD_BYTES), 0xFF, np.uint8)
    packets[:, wire.HEADER_BYTES :] = payload.reshape(5, -1)
    write_headers(packets, op=p4.OP_THC, job=513, seat=2, slots=3, first_sequence=3 * 2**32 - 2, bucket=770)
    for chunk, packet in enumerate(packets):
        sequence = 3 * 2**32 - 2 + chunk
        expected = model.Packet(
            1, 1, 513, sequence % 3, 2, 1, sequence // 3 % 2**32, 0, 0, 4, 770, chunk, payload[chunk].tobytes()
        )
        assert packet.tobytes() == expected.encode()
        header, words = wire.unpack(packet.tobytes())
        assert (header.round, header.chunk, bytes(words)) == (expected.round, chunk, expected.payload)
        record = headers(packets)[chunk]
        assert (record["round"], record["contributors"], chunks_of(record)) == (expected.round, 0, chunk)


@pytest.mark.cc
@pytest.mark.parametrize("native", ["0", "1"])
def test_plain_chunks_are_sent_and_taken_in_by_c(native: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numpy gets only what came out of turn, if it is not told to do all of it."""
    monkeypatch.setenv("SUMWIRE_NATIVE", native)
    by_numpy: list[int] = []
    sent_by_numpy: list[int] = []
    for owner, name in ((Flight, "send"), (BatchSocket, "_cut_by_numpy")):
        plain = getattr(owner, name)
        monkeypatch.setattr(
            owner, name, lambda self, *args, plain=plain: (sent_by_numpy.append(len(args[0])), plain(self, *args))[1]
        )
    for name in ("accept", "accept_run"):
        whole = getattr(Buffers, name)
        monkeypatch.setattr(
            Buffers, name, lambda self, *args, whole=whole: (by_numpy.append(len(args[1])), whole(self, *args))[1]
        )
    mapping, up = job_mapping(WORKERS, 64), planes(1, 200)

    def work(worker: int) -> Results:
        with Transport(configs(mapping)[worker]) as transport:
            return transport.exchange(p4.OP_THC, up[worker])

    with Bridge(mapping, golden_switch(mapping)):
        for results in run_workers(work, WORKERS):
            assert_sums(results, up)
    assert sum(by_numpy) == 200 * WORKERS if native == "0" else sum(by_numpy) < 200
    # Each chunk is sent and cut once.
    assert sum(sent_by_numpy) >= 2 * 200 * WORKERS if native == "0" else not sent_by_numpy


@pytest.mark.parametrize("slots", [2, 5, 64])
def test_exchanges_in_a_row(slots: int) -> None:
    mapping = job_mapping(WORKERS, slots)
    lengths = [7, 1, 0, 40]
    data = [planes(seed, length) for seed, length in enumerate(lengths)]

    def work(worker: int) -> tuple[list[Results], Any]:
        with Transport(configs(mapping)[worker]) as transport:
            return [transport.exchange(p4.OP_THC, up[worker], bucket=3) for up in data], transport.stats

    with Bridge(mapping, golden_switch(mapping)):
        outcomes = run_workers(work, WORKERS)
    for results, stats in outcomes:
        for result, up in zip(results, data, strict=True):
            assert_sums(result, up)
        # On a busy machine packets are sent again, and a HELLO with the first of them; nor has its answer a payload.
        header_bytes, whole = 14 + 20 + 8 + 32, sum(lengths) + stats.duplicates
        assert stats.packets_sent - stats.retransmissions - stats.probes == sum(lengths)
        assert stats.bytes_sent == stats.packets_sent * header_bytes + (stats.packets_sent - stats.probes) * 4 * 128
        assert stats.bytes_received == stats.packets_received * header_bytes + whole * 8 * 128
        assert 0 <= stats.packets_received - whole <= stats.probes + stats.stale


def test_max32_goes_out_before_finish_and_takes_the_maximum() -> None:
    mapping = job_mapping(WORKERS, 8)
    lanes = np.random.default_rng(0).integers(0, 2**32, (WORKERS, 6, 32), dtype=np.uint32)
    up = lanes.astype(">u4").view(np.uint8).reshape(WORKERS, 6, 1, 128)

    def work(worker: int) -> list[int]:
        with Transport(configs(mapping)[worker]) as transport:
            transport.start(p4.OP_MAX32, up[worker])
            assert transport.stats.packets_sent == 4
            words = transport.finish().words
            return words.view(">u4").reshape(-1).tolist()

    with Bridge(mapping, golden_switch(mapping)):
        for got in run_workers(work, WORKERS):
            assert got == lanes.max(axis=0).reshape(-1).tolist()


@pytest.mark.parametrize("seed", range(6))
def test_bad_network(seed: int) -> None:
    mapping = job_mapping(WORKERS, random.Random(seed).choice([4, 7, 16]))
    up = planes(seed, 60)
    impairment = Impairment(seed, drop=0.05, duplicate=0.05, reorder=0.05, late=0.05)

    def work(worker: int) -> tuple[Results, Any]:
        with Transport(configs(mapping)[worker]) as transport:
            return transport.exchange(p4.OP_THC, up[worker]), transport.stats

    with Bridge(mapping, golden_switch(mapping), impairment):
        outcomes = run_workers(work, WORKERS)
    for results, _ in outcomes:
        assert_sums(results, up)
    assert sum(stats.retransmissions for _, stats in outcomes) > 0


def malformed(worker: int) -> list[bytes]:
    """Datagrams that a worker waiting for THC chunk 0 must not take for its result. Payload all ones: it would show."""
    good = model.Packet(model.RESULT, model.THC, JOB, 0, worker, 3, 0, 7, 0, 8, 0, 0, b"\xff" * 1024)
    data = good.encode()
    changed = [
        good._replace(kind=model.CONTRIBUTE),
        good._replace(kind=9),
        good._replace(version=1),
        good._replace(token=1),
        good._replace(op=model.MAX32),
        good._replace(op=77),
        good._replace(job=JOB + 1),
        good._replace(worker=worker + 1),
        good._replace(worker=255),
        good._replace(count=0),
        good._replace(words=4),
        good._replace(words=8, payload=b"\xff" * 512),
        good._replace(words=1, payload=b"\xff" * 128),
        good._replace(kind=model.STALE),
        good._replace(kind=model.STALE, words=0, payload=b"", job=JOB + 1, round=9),
        good._replace(kind=model.STALE, words=0, payload=b"", worker=worker + 1, round=9),
    ]
    return [b"", b"\x22", data[:31], data[:32], data[:-1], data + b"\xff", data * 2, *(p.encode() for p in changed)]


def test_malformed_packets_are_ignored_and_counted() -> None:
    mapping = job_mapping(WORKERS, 8)
    up = planes(1, 6)
    bad = malformed(0)
    switch = golden_switch(mapping)

    with Bridge(mapping, switch) as bridge, Transport(configs(mapping)[0]) as transport:
        transport.start(p4.OP_THC, up[0])
        for datagram in bad:
            bridge.send_to_worker(mapping["addresses"][0]["ip"], datagram)

        def work(worker: int) -> Results:
            if worker == 0:
                return transport.finish()
            with Transport(configs(mapping)[worker]) as other:
                return other.exchange(p4.OP_THC, up[worker])

        for results in run_workers(work, WORKERS):
            assert_sums(results, up)
        assert transport.stats.ignored == len(bad)


def test_each_malformed_packet_alone_is_ignored() -> None:
    """Alone in its batch, where nothing else makes the transport look closely."""
    mapping = job_mapping(WORKERS, 8)
    with Bridge(mapping, golden_switch(mapping)) as bridge, Transport(configs(mapping)[0]) as transport:
        exchange = transport.start(p4.OP_THC, planes(1, 6)[0])
        for number, datagram in enumerate(malformed(0), 1):
            bridge.send_to_worker(mapping["addresses"][0]["ip"], datagram)
            assert exchange.progress(block=False) == 0
            assert transport.stats.ignored == number


def test_results_outside_the_window_are_duplicates() -> None:
    mapping = job_mapping(WORKERS, 8)
    up = planes(1, 6)
    good = model.Packet(model.RESULT, model.THC, JOB, 0, 0, 3, 0, 7, 0, 8, 0, 0, b"\xff" * 1024)
    wrong = [good._replace(slot=7), good._replace(slot=8), good._replace(round=1), good._replace(round=2**32 - 1)]

    with Bridge(mapping, golden_switch(mapping)) as bridge, Transport(configs(mapping)[0]) as transport:
        transport.start(p4.OP_THC, up[0])
        for packet in wrong:
            bridge.send_to_worker(mapping["addresses"][0]["ip"], packet.encode())

        def work(worker: int) -> Results:
            if worker == 0:
                return transport.finish()
            with Transport(configs(mapping)[worker]) as other:
                return other.exchange(p4.OP_THC, up[worker])

        for results in run_workers(work, WORKERS):
            assert_sums(results, up)


def test_wrong_port_and_address_do_not_reach_the_worker() -> None:
    mapping = job_mapping(1, 8)
    good = model.Packet(model.RESULT, model.THC, JOB, 0, 0, 1, 0, 1, 0, 8, 0, 0, b"\xff" * 1024)
    worker = (mapping["addresses"][0]["ip"], model.UDP_PORT)
    up = planes(1, 1)[:1]
    # No time passes: nothing is asked for again.
    with Bridge(mapping, golden_switch(mapping)), Transport(configs(mapping)[0], clock=lambda: 0.0) as transport:
        aggregator = aggregator_of(mapping)
        for ip, port in ((aggregator, 0), (aggregator.replace(".250", ".251"), model.UDP_PORT)):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                stranger.bind((ip, port))
                stranger.sendto(good.encode(), worker)
        results = transport.exchange(p4.OP_THC, up[0])
        assert [words.tobytes() for words in results.words] == sums(up)
        assert (transport.stats.packets_received, transport.stats.ignored) == (1, 0)


def test_worker_sends_from_its_own_address_and_port() -> None:
    mapping = job_mapping(2, 8)
    with Bridge(mapping, golden_switch(mapping)) as bridge:
        run_workers(lambda w: Transport(configs(mapping)[w]).exchange(p4.OP_THC, planes(1, 2)[w]), 2)
        assert {(ip, model.decode(data).worker) for ip, data in bridge.seen} == {
            (entry["ip"], entry["worker"]) for entry in mapping["addresses"]
        }


def test_another_chunk_in_the_own_slot_is_an_order_error() -> None:
    """Worker 1 reduces two chunks at once, worker 0 one by one: the packets are folded, and somebody is told."""
    mapping = job_mapping(2, 8)

    def work(worker: int) -> str:
        with Transport(configs(mapping)[worker]) as transport:
            try:
                for chunks in (slice(0, 2),) if worker else (slice(0, 1), slice(1, 2)):
                    transport.exchange(p4.OP_THC, planes(1, 2)[worker][chunks])
            except OrderError as error:
                return str(error)
            return ""

    with Bridge(mapping, golden_switch(mapping)):
        texts = run_workers(work, 2)
    assert sorted(texts)[0] == ""
    assert "workers must reduce the same tensors in the same order" in sorted(texts)[1]


def test_missing_worker_is_a_deadline_error() -> None:
    mapping = job_mapping(2, 8)
    with (
        Bridge(mapping, golden_switch(mapping)),
        Transport(configs(mapping)[0], TransportOptions(deadline_s=0.4)) as transport,
        pytest.raises(
            DeadlineError, match=rf"job {JOB}: no result for \d+\.\d\d s; slot 0, round 0, chunk 0.* workers: \[1\]"
        ) as caught,
    ):
        transport.exchange(p4.OP_THC, planes(1, 3)[0])
    assert caught.value.missing == (1,)


def test_the_deadline_is_measured_by_the_clock_that_is_passed_in() -> None:
    """An hour passes with every look at it, so the first wait is over at once."""
    ticks = count(0.0, 3600.0)
    with (
        Bridge(mapping := job_mapping(2, 8), golden_switch(mapping)),
        Transport(configs(mapping)[0], TransportOptions(deadline_s=1800.0), clock=lambda: next(ticks)) as transport,
        pytest.raises(DeadlineError, match=r"does not answer worker 0 .* 3 questions in \d+00\.0 s"),
    ):
        transport.exchange(p4.OP_THC, planes(1, 3)[0])


def test_whole_result_after_the_deadline_lets_it_go_on() -> None:
    """The switch was cut off for longer than the deadline; asked who is missing, it has everything."""
    mapping = job_mapping(1, 8)
    up = planes(1, 20)[:1]
    asked: list[int] = []

    def cut_off(_: int, frame: bytes) -> bool:
        asked.extend(1 for _, data in bridge.seen if model.decode(data).flags & model.FLUSH)
        return not asked

    with (
        Bridge(mapping, golden_switch(mapping), mute=cut_off) as bridge,
        Transport(configs(mapping)[0], TransportOptions(deadline_s=0.3)) as transport,
    ):
        results = transport.exchange(p4.OP_THC, up[0])
    assert asked
    assert [words.tobytes() for words in results.words] == sums(up)


def test_nobody_at_the_aggregators_address_is_a_deadline_error_that_says_so() -> None:
    with (
        Transport(configs(job_mapping(2, 8))[0], TransportOptions(deadline_s=0.4)) as transport,
        pytest.raises(DeadlineError, match=r"UDP port 21335\) does not answer worker 0 .*Connection refused"),
    ):
        transport.exchange(p4.OP_THC, planes(1, 3)[0])


class FullSocket:
    """Passes on to a real socket, but is full at every third call, and may lose a packet at every fifth of the others.
    It takes at most three packets a call."""

    def __init__(self, real: BatchSocket, lossy: bool) -> None:
        self._real = real
        self._lossy = lossy
        self._calls = 0
        # C would pass it by.
        self.compiled = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def send(self, rows: NDArray[np.int64], joined: int) -> int:
        self._calls += 1
        if self._calls % 3 == 0:
            raise BlockingIOError
        if self._lossy and self._calls % 5 == 0:
            raise OSError(105, "No buffer space available")
        return self._real.send(rows[:3], joined)


@pytest.mark.parametrize("lossy", [False, True])
def test_full_socket_holds_chunks_back(lossy: bool) -> None:
    mapping = job_mapping(1, 16)
    up = planes(1, 50)[:1]
    # Where nothing is lost no time passes.
    clock = time.monotonic if lossy else lambda: 0.0
    with Bridge(mapping, golden_switch(mapping)), Transport(configs(mapping)[0], clock=clock) as transport:
        transport.link.socket = FullSocket(transport.link.socket, lossy)  # type: ignore[assignment]
        results = transport.exchange(p4.OP_THC, up[0])
        assert [words.tobytes() for words in results.words] == sums(up)
        assert (transport.stats.send_failures > 0) is lossy
        assert (transport.stats.retransmissions > 0) is lossy


def test_payload_of_another_shape_is_refused() -> None:
    with Transport(configs(job_mapping(1, 16))[0]) as transport:
        shapes: list[Any] = [np.zeros((2, 8, 128), np.uint8), np.zeros((2, 4, 128), np.int8), np.zeros(512, np.uint8)]
        for payload in shapes:
            with pytest.raises(UsageError, match="payload"):
                transport.start(p4.OP_THC, payload)
        with pytest.raises(UsageError, match="op 99"):
            transport.start(99, np.zeros((1, 1, 128), np.uint8))
        with pytest.raises(UsageError, match="no exchange"):
            transport.finish()
