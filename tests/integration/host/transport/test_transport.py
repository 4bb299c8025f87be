# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The transport over real sockets, with the golden switch on loopback; also with a key."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pytest
from golden import model
from helpers.transport.exchanges import assert_sums, exchanged, planes
from helpers.transport.udp_bridge import JOB, Bridge, aggregator_of, configs, golden_switch, job_mapping, run_workers
from numpy.typing import NDArray
from sumwire.errors import DeadlineError, OrderError, RefusedError, UsageError
from sumwire.transport.buffers import Buffers, Results
from sumwire.transport.options import TransportOptions
from sumwire.transport.scheduling import Flight
from sumwire.transport.udp import Transport
from sumwire.wire.batch import BatchSocket
from sumwire_protocol import constants as p4

WORKERS = 3
KEY = bytes(range(50, 82))
NATIVE = pytest.mark.parametrize("native", [pytest.param("1", marks=pytest.mark.cc), "0"], ids=["native", "numpy"])


def noting(whole: Callable[..., Any], into: list[int], argument: int) -> Callable[..., Any]:
    """The method, and how long one of its arguments is each time."""

    def method(self: Any, *args: Any) -> Any:
        into.append(len(args[argument]))
        return whole(self, *args)

    return method


@NATIVE
def test_plain_chunks_are_sent_and_taken_in_by_c(native: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numpy gets only what came out of turn, if it is not told to do all of it."""
    monkeypatch.setenv("SUMWIRE_NATIVE", native)
    taken: list[int] = []
    sent: list[int] = []
    for into, owner, name, argument in (
        (sent, Flight, "send", 0),
        (sent, BatchSocket, "_cut_by_numpy", 0),
        (taken, Buffers, "accept", 1),
        (taken, Buffers, "accept_run", 1),
    ):
        monkeypatch.setattr(owner, name, noting(getattr(owner, name), into, argument))
    up = planes(1, 200, WORKERS)
    assert_sums([one.results for one in exchanged(job_mapping(WORKERS, 64), up)], up)
    assert sum(taken) == 200 * WORKERS if native == "0" else sum(taken) < 200
    # Each chunk is sent and cut once.
    assert sum(sent) >= 2 * 200 * WORKERS if native == "0" else not sent


@pytest.mark.parametrize("slots", [2, 5, 64])
def test_exchanges_in_a_row(slots: int) -> None:
    mapping = job_mapping(WORKERS, slots)
    lengths = [7, 1, 0, 40]
    data = [planes(seed, length, WORKERS) for seed, length in enumerate(lengths)]

    def work(worker: int) -> tuple[list[Results], Any]:
        with Transport(configs(mapping)[worker]) as transport:
            return [transport.exchange(p4.OP_THC, up[worker], bucket=3) for up in data], transport.stats

    with Bridge(mapping, golden_switch(mapping)):
        outcomes = run_workers(work, WORKERS)
    for number, up in enumerate(data):
        assert_sums([results[number] for results, _ in outcomes], up)
        assert not any(results[number].flags.any() for results, _ in outcomes)
    for _, stats in outcomes:
        # On a busy machine packets are sent again, and a HELLO with the first of them; nor has its answer a payload.
        header_bytes, whole = 14 + 20 + 8 + 32, sum(lengths) + stats.duplicates
        assert stats.packets_sent - stats.retransmissions - stats.probes == sum(lengths)
        assert stats.bytes_sent == stats.packets_sent * header_bytes + (stats.packets_sent - stats.probes) * 4 * 128
        assert stats.bytes_received == stats.packets_received * header_bytes + whole * 8 * 128
        assert 0 <= stats.packets_received - whole <= stats.probes + stats.stale


@NATIVE
@pytest.mark.parametrize("key", [b"", KEY], ids=["plain", "keyed"])
def test_max32_goes_out_before_finish_and_takes_the_maximum(
    native: str, key: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a key questions have tags, too."""
    monkeypatch.setenv("SUMWIRE_NATIVE", native)
    mapping = job_mapping(WORKERS, 8)
    lanes = np.random.default_rng(0).integers(0, 2**32, (WORKERS, 6, 32), dtype=np.uint32)
    up = lanes.astype(">u4").view(np.uint8).reshape(WORKERS, 6, 1, 128)

    def work(worker: int) -> list[int]:
        with Transport(replace(configs(mapping)[worker], key=key or None)) as transport:
            assert transport.hello(10.0) is not None
            before = transport.stats.packets_sent
            transport.start(p4.OP_MAX32, up[worker])
            assert transport.stats.packets_sent - before == 4
            words = transport.finish().words
            return words.view(">u4").reshape(-1).tolist()

    switch = golden_switch(mapping, key=key)
    with Bridge(mapping, switch):
        assert run_workers(work, WORKERS) == [lanes.max(axis=0).reshape(-1).tolist()] * WORKERS
    assert not switch.rejects


# -- packets that are none for this worker -------------------------------------------------------------


def foreign(worker: int) -> dict[bytes, bool]:
    """Datagrams that a worker waiting for THC chunk 0 must not take for its result, and whether they are counted as
    ignored. Payload all ones: it would show."""
    good = model.Packet(model.RESULT, model.THC, JOB, 0, worker, 3, 0, 7, 0, 8, 0, 0, b"\xff" * 1024)
    data, stale = good.encode(), good._replace(kind=model.STALE, words=0, payload=b"")
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
        stale._replace(job=JOB + 1, round=9),
        stale._replace(worker=worker + 1, round=9),
    ]
    cut = [b"", b"\x22", data[:31], data[:32], data[:-1], data + b"\xff", data * 2]
    outside = [good._replace(slot=7), good._replace(slot=8), good._replace(round=1), good._replace(round=2**32 - 1)]
    return dict.fromkeys([*cut, *(packet.encode() for packet in changed)], True) | {
        packet.encode(): False for packet in outside
    }


def test_other_packets_are_ignored_and_counted() -> None:
    """Each alone in its batch, where nothing else makes the transport look closely, and all of them together."""
    mapping, up = job_mapping(WORKERS, 8), planes(1, 6, WORKERS)
    ip, ignored = mapping["addresses"][0]["ip"], 0
    with Bridge(mapping, golden_switch(mapping)) as bridge, Transport(configs(mapping)[0]) as transport:
        exchange = transport.start(p4.OP_THC, up[0])
        for datagram, counts in foreign(0).items():
            bridge.send_to_worker(ip, datagram)
            assert exchange.progress(block=False) == 0
            ignored += counts
            assert transport.stats.ignored == ignored
        for datagram in foreign(0):
            bridge.send_to_worker(ip, datagram)

        def work(worker: int) -> Results:
            if worker == 0:
                return transport.finish()
            with Transport(configs(mapping)[worker]) as other:
                return other.exchange(p4.OP_THC, up[worker])

        assert_sums(run_workers(work, WORKERS), up)
        assert transport.stats.ignored == 2 * ignored


def test_wrong_port_and_address_do_not_reach_the_worker() -> None:
    mapping = job_mapping(1, 8)
    good = model.Packet(model.RESULT, model.THC, JOB, 0, 0, 1, 0, 1, 0, 8, 0, 0, b"\xff" * 1024)
    worker = (mapping["addresses"][0]["ip"], model.UDP_PORT)
    up = planes(1, 1, 1)
    # No time passes: nothing is asked for again.
    with Bridge(mapping, golden_switch(mapping)), Transport(configs(mapping)[0], clock=lambda: 0.0) as transport:
        aggregator = aggregator_of(mapping)
        for ip, port in ((aggregator, 0), (aggregator.replace(".250", ".251"), model.UDP_PORT)):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                stranger.bind((ip, port))
                stranger.sendto(good.encode(), worker)
        assert_sums([transport.exchange(p4.OP_THC, up[0])], up)
        assert (transport.stats.packets_received, transport.stats.ignored) == (1, 0)


class FlippingBridge(Bridge):
    """Between sockets and frames a share of the datagrams has a bit flipped, both ways."""

    flips = random.Random(4)
    share = 0.08
    flipped = 0

    def _flip(self, data: bytes) -> bytes:
        if self.flips.random() >= self.share:
            return data
        type(self).flipped += 1
        changed, bit = bytearray(data), self.flips.randrange(len(data) * 8)
        changed[bit // 8] ^= 1 << bit % 8
        return bytes(changed)

    def _hear(self, datagram: bytes, sender: tuple[str, int]) -> None:
        super()._hear(self._flip(datagram), sender)

    def _tell(self, port: int, frame: bytes) -> None:
        super()._tell(port, frame[:42] + self._flip(frame[42:]))


@NATIVE
def test_with_a_key_sums_are_right_whatever_bits_the_network_flips(
    native: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUMWIRE_NATIVE", native)
    mapping, up = job_mapping(WORKERS, 16), planes(1, 60, WORKERS)
    switch, before = golden_switch(mapping, key=KEY), FlippingBridge.flipped
    outcomes = exchanged(mapping, up, switch, key=KEY, bridge=FlippingBridge)
    assert_sums([one.results for one in outcomes], up)
    assert FlippingBridge.flipped - before > 20
    assert sum(one.stats.forged for one in outcomes) > 0
    assert switch.rejects["TAG"] > 0


@pytest.mark.parametrize(
    ("worker", "switch"), [(None, KEY), (bytes(32), KEY), (KEY, None)], ids=["none", "another", "none at the switch"]
)
def test_a_wrong_key_is_a_typed_error_that_names_the_cure(worker: bytes | None, switch: bytes | None) -> None:
    mapping = job_mapping(1, 4)
    config = replace(configs(mapping)[0], key=worker)
    cure = "TAG: the authentication tag of its packets is wrong.*same `key` file.*sumwire-controller apply"
    refused = pytest.raises(RefusedError, match=cure)
    with Bridge(mapping, golden_switch(mapping, key=switch)), Transport(config) as transport, refused as caught:
        transport.hello(0.3)
    assert caught.value.reason == p4.REJECT_TAG


def test_forged_answers_are_counted_and_not_taken() -> None:
    """Whoever writes the switch's answers without the key only makes the worker ask again."""
    mapping = job_mapping(1, 4)
    forged = model.Packet(model.INFORM, 0, mapping["job"], 0, 0, 0, 77, 0, 0, 0, 0, 3 << 16).encode()
    ip, config = mapping["addresses"][0]["ip"], replace(configs(mapping)[0], key=KEY)
    with Bridge(mapping, golden_switch(mapping, key=KEY)) as bridge, Transport(config) as transport:
        for datagram in (forged, forged + bytes(8), forged + b"\xff" * 8):
            bridge.send_to_worker(ip, datagram)
        state = transport.hello(10.0)
        assert state is not None and state.round == 0
        assert transport.stats.forged == 3


# -- waits, deadlines and misuse -------------------------------------------------------------------------


def test_another_chunk_in_the_own_slot_is_an_order_error() -> None:
    """Worker 1 reduces two chunks at once, worker 0 one by one: the packets are folded, and somebody is told."""
    mapping, up = job_mapping(2, 8), planes(1, 2, 2)

    def work(worker: int) -> str:
        with Transport(configs(mapping)[worker]) as transport:
            try:
                for chunks in (slice(0, 2),) if worker else (slice(0, 1), slice(1, 2)):
                    transport.exchange(p4.OP_THC, up[worker][chunks])
            except OrderError as error:
                return str(error)
            return ""

    with Bridge(mapping, golden_switch(mapping)):
        texts = run_workers(work, 2)
    assert sorted(texts)[0] == ""
    assert "workers must reduce the same tensors in the same order" in sorted(texts)[1]


def ends(error: str, *, served: bool = True, deadline_s: float = 0.4, clock: Any = time.monotonic) -> DeadlineError:
    """The error of worker 0, whose peer never comes."""
    mapping = job_mapping(2, 8)
    with (
        Bridge(mapping, golden_switch(mapping)) if served else nullcontext(),
        Transport(configs(mapping)[0], TransportOptions(deadline_s=deadline_s), clock=clock) as transport,
        pytest.raises(DeadlineError, match=error) as caught,
    ):
        transport.exchange(p4.OP_THC, planes(1, 3, 1)[0])
    return caught.value


def test_missing_worker_is_a_deadline_error() -> None:
    error = ends(rf"job {JOB}: no result for \d+\.\d\d s; slot 0, round 0, chunk 0.* workers: \[1\]")
    assert error.missing == (1,)


def test_the_deadline_is_measured_by_the_clock_that_is_passed_in() -> None:
    """An hour passes with every look at it, so the first wait is over at once."""
    ticks = count(0.0, 3600.0)
    ends(r"does not answer worker 0 .* 3 questions in \d+00\.0 s", deadline_s=1800.0, clock=lambda: next(ticks))


def test_nobody_at_the_aggregators_address_is_a_deadline_error_that_says_so() -> None:
    ends(r"UDP port 21335\) does not answer worker 0 .*Connection refused", served=False)


def test_whole_result_after_the_deadline_lets_it_go_on() -> None:
    """The switch was cut off for longer than the deadline; asked who is missing, it has everything."""
    mapping, up = job_mapping(1, 8), planes(1, 20, 1)
    asked: list[int] = []

    def cut_off(_: int, frame: bytes) -> bool:
        asked.extend(1 for _, data in bridge.seen if model.decode(data).flags & model.FLUSH)
        return not asked

    with (
        Bridge(mapping, golden_switch(mapping), mute=cut_off) as bridge,
        Transport(configs(mapping)[0], TransportOptions(deadline_s=0.3)) as transport,
    ):
        assert_sums([transport.exchange(p4.OP_THC, up[0])], up)
    assert asked


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
    mapping, up = job_mapping(1, 16), planes(1, 50, 1)
    # Where nothing is lost no time passes.
    clock = time.monotonic if lossy else lambda: 0.0
    with Bridge(mapping, golden_switch(mapping)), Transport(configs(mapping)[0], clock=clock) as transport:
        transport.link.socket = FullSocket(transport.link.socket, lossy)  # type: ignore[assignment]
        assert_sums([transport.exchange(p4.OP_THC, up[0])], up)
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
        with pytest.raises(UsageError, match="16777217 chunks"):
            transport.open(p4.OP_MAX32, (1 << 24) + 1)
