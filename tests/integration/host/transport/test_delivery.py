# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Bounded loss over real sockets, with the golden switch on loopback: what may be missing, and what may not."""

from __future__ import annotations

import math
import random
import socket
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from golden import model
from helpers.transport.udp_bridge import (
    JOB,
    TABLE,
    Bridge,
    FrameSwitch,
    Impairment,
    aggregator_of,
    configs,
    golden_switch,
    job_mapping,
    run_workers,
)
from numpy.typing import NDArray
from sumwire.errors import ConfigError, DeadlineError, UsageError
from sumwire.transport.buffers import Results
from sumwire.transport.options import Delivery, ExchangeOptions, TransportOptions
from sumwire.transport.udp import Transport
from sumwire_protocol import constants as p4

WORKERS = 4


def planes(seed: int, chunks: int) -> NDArray[np.uint8]:
    """Index planes of every worker, (workers, chunks, 4, 128)."""
    return np.random.default_rng(seed).integers(0, 256, (WORKERS, chunks, 4, 128), dtype=np.uint8)


def assert_right(results: Results, up: NDArray[np.uint8]) -> None:
    """Every sum is that of the contributors it names."""
    table = np.array(TABLE)
    for chunk, words in enumerate(results.words):
        inside = [w for w in range(WORKERS) if int(results.contributors[chunk]) >> w & 1]
        total = np.sum([table[model.from_planes(up[w, chunk].tobytes())] for w in inside], axis=0)
        assert words.tobytes() == model.to_planes(total, 8)
        assert results.counts[chunk] == len(inside)
        assert bool(results.flags[chunk] & p4.FLAG_MISSING) is (len(inside) < WORKERS)


def transfer(
    delivery: Delivery | None, up: NDArray[np.uint8], *, slots: int = 16, bounded: bool = True, **bridge: Any
) -> tuple[list[Results], list[Any]]:
    """One tensor through the golden switch; all workers' results and counters."""
    mapping = job_mapping(WORKERS, slots)

    def work(worker: int) -> tuple[Results, Any]:
        with Transport(configs(mapping)[worker], TransportOptions(delivery=delivery)) as transport:
            return transport.exchange(p4.OP_THC, up[worker], options=ExchangeOptions(bounded=bounded)), transport.stats

    with Bridge(mapping, golden_switch(mapping), **bridge):
        outcomes = run_workers(work, WORKERS)
    return [results for results, _ in outcomes], [stats for _, stats in outcomes]


def assert_alike(results: list[Results]) -> None:
    for other in results[1:]:
        assert (other.words == results[0].words).all()
        assert (other.counts == results[0].counts).all()


@pytest.mark.parametrize("bound", [-0.01, 1.0, 1.5, math.nan, math.inf, "0.1", True, None])
def test_loss_bound_outside_its_range_is_refused(bound: Any) -> None:
    with pytest.raises(ConfigError, match=r"delivery: loss_bound = .*: must be a share in \[0, 1\)"):
        Delivery(loss_bound=bound)


def test_other_options_are_checked() -> None:
    with pytest.raises(ConfigError, match="divisor = 'n': must be one of contributors, workers"):
        Delivery(divisor="n")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="probes = 1: must be true or false"):
        Delivery(probes=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(3))
def test_p_0_equals_a_reliable_transfer_bit_for_bit(seed: int) -> None:
    up = planes(seed, 120)
    weather = Impairment(seed, drop=0.05, duplicate=0.02, reorder=0.02)
    plain, _ = transfer(None, up, impairment=weather)
    adaptive, stats = transfer(Delivery(), up, impairment=weather)
    assert_alike(plain + adaptive)
    for results in adaptive:
        assert_right(results, up)
        assert (results.counts == WORKERS).all()
    assert all(one.missing == one.left_out == one.flushed == 0 for one in stats)
    assert sum(one.probes for one in stats) > 0
    assert sum(one.informs for one in stats) > 0


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("bound", [0.005, 0.03, 0.2])
def test_missing_share_stays_below_the_bound_and_replicas_equal(bound: float, seed: int) -> None:
    up = planes(seed, 150)
    results, stats = transfer(Delivery(loss_bound=bound), up, slots=512, impairment=Impairment(seed, drop=0.04))
    assert_alike(results)
    for one in results:
        assert_right(one, up)
    missing = int((WORKERS - results[0].counts.astype(int)).sum())
    assert missing <= math.floor(bound * 150 * WORKERS)
    assert [one.missing for one in stats] == [missing] * WORKERS
    assert sum(one.left_out for one in stats) == missing
    if bound >= 0.03:
        assert missing > 0


def test_an_exchange_that_is_not_bounded_is_complete() -> None:
    up = planes(1, 60)
    results, _ = transfer(Delivery(loss_bound=0.5), up, bounded=False, impairment=Impairment(1, drop=0.05))
    for one in results:
        assert (one.counts == WORKERS).all()


def bursts(share_of_packets: float, seed: int) -> Callable[[int, bytes], bool]:
    """Loses 1 to 11 datagrams in a row, by and by."""
    rng, left = random.Random(seed), [0]

    def lost(_: int, datagram: bytes) -> bool:
        if not left[0] and rng.random() < share_of_packets / 6:
            left[0] = rng.randrange(1, 12)
        left[0] -= left[0] > 0
        return left[0] > 0

    return lost


def of_worker(number: int, share_of_packets: float, seed: int) -> Callable[[int, bytes], bool]:
    rng = random.Random(seed)
    return lambda _, datagram: model.decode(datagram).worker == number and rng.random() < share_of_packets


@pytest.mark.parametrize("loss", [bursts(0.05, 1), of_worker(3, 0.2, 1)], ids=["bursty", "per-worker"])
def test_other_losses_stay_below_the_bound_too(loss: Callable[[int, bytes], bool]) -> None:
    up = planes(1, 300)
    results, stats = transfer(Delivery(loss_bound=0.03), up, slots=1024, deaf=loss)
    assert_alike(results)
    assert_right(results[0], up)
    assert 0 < stats[0].missing <= math.floor(0.03 * 300 * WORKERS)


def test_stragglers_get_the_results_of_the_others() -> None:
    """Few slots and a large bound: the others pass a worker by rounds. All still end with the same sums."""
    up = planes(1, 200)
    results, stats = transfer(Delivery(loss_bound=0.3), up, slots=8, deaf=of_worker(3, 0.5, 2))
    assert_alike(results)
    assert_right(results[0], up)
    assert stats[0].missing <= math.floor(0.3 * 200 * WORKERS)


def degraded(mode: int, up: NDArray[np.uint8]) -> tuple[list[Results], list[Any], model.GoldenSwitch]:
    """Through a switch that degrades a fifth of the packets."""
    mapping = job_mapping(WORKERS, 512)
    switch = golden_switch(mapping)
    switch.degrades[JOB] = model.Degrade(7, 13107, mode)

    def work(worker: int) -> tuple[Results, Any]:
        with Transport(configs(mapping)[worker], TransportOptions(delivery=Delivery())) as transport:
            return transport.exchange(p4.OP_THC, up[worker]), transport.stats

    with Bridge(mapping, switch):
        outcomes = run_workers(work, WORKERS)
    return [results for results, _ in outcomes], [stats for _, stats in outcomes], switch


@pytest.mark.parametrize("mode", [model.TRIM_CONTRIBUTIONS, model.CUT_RESULTS])
def test_cut_results_are_filled_as_the_switch_fills_them(mode: int) -> None:
    """So one that came cut and one that was asked for again, whole, are the same."""
    up = planes(1, 120)
    results, stats, switch = degraded(mode, up)
    assert_alike(results)
    cut = 0
    for chunk in range(120):
        slot = switch.slots[JOB, chunk]
        assert results[0].words[chunk].tobytes() == slot.answer
        assert results[0].cuts[chunk] == slot.cut
        if slot.cut & model.CUT_RESULT:
            assert slot.answer[6 * 128 :] == b"\xaa" * 128 + b"\x55" * 128
            cut += 1
    assert 0 < cut < 120
    trimmed = sum(switch.slots[JOB, chunk].cut != 0 for chunk in range(120))
    assert [one.trimmed for one in stats] == [trimmed] * WORKERS


def test_what_is_sent_again_says_so() -> None:
    """An experiment hits first packets only: a resend has the flag that spares it."""
    up, mapping = planes(1, 60), job_mapping(WORKERS, 512)
    switch = FirstsLost(golden_switch(mapping))

    def work(worker: int) -> tuple[Results, Any]:
        with Transport(configs(mapping)[worker], TransportOptions(delivery=Delivery())) as transport:
            return transport.exchange(p4.OP_THC, up[worker]), transport.stats

    with Bridge(mapping, switch):
        outcomes = run_workers(work, WORKERS)
    assert (outcomes[0][0].counts == WORKERS).all()
    assert switch.lost > 10
    assert sum(stats.retransmissions for _, stats in outcomes) >= switch.lost


class FirstsLost:
    """The switch behind a link that loses a fifth of the contributions, those without RESYNC."""

    def __init__(self, switch: FrameSwitch) -> None:
        self.switch, self.lost = switch, 0
        self.which = model.Degrade(7, 13107, model.DROP_CONTRIBUTIONS)

    def receive(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        packet = model.decode(frame[42:])
        if packet.kind == model.CONTRIBUTE and not packet.flags & model.RESYNC and self.which.hits(packet):
            self.lost += 1
            return []
        return self.switch.receive(port, frame)


class MarkedFrames:
    """The switch behind a queue that marks every packet of one worker."""

    def __init__(self, switch: FrameSwitch, port: int) -> None:
        self.switch, self.port = switch, port

    def receive(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        return self.switch.receive(port, model.with_ipv4(frame, tos=3) if port == self.port else frame)


def test_marks_reach_all_workers_and_narrow_their_windows() -> None:
    mapping, up = job_mapping(WORKERS, 256), planes(1, 200)

    def work(worker: int) -> tuple[Results, int, int]:
        with Transport(configs(mapping)[worker], TransportOptions(delivery=Delivery())) as transport:
            results = transport.exchange(p4.OP_THC, up[worker])
            assert transport.window.limit is not None
            return results, transport.stats.ce_marks, transport.window.limit.chunks

    with Bridge(mapping, MarkedFrames(golden_switch(mapping), 3)):
        for results, marks, limit in run_workers(work, WORKERS):
            assert marks == 200
            assert (results.flags == p4.FLAG_CE).all()
            assert limit < 10


def test_first_packets_have_their_tags_and_resends_are_protected() -> None:
    mapping = job_mapping(2, 16)
    tos = np.array([0xF8, 0x18, 0x62, 0x00], np.uint8)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as switch:
        switch.bind((aggregator_of(mapping), model.UDP_PORT))
        switch.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
        switch.settimeout(5.0)
        with Transport(configs(mapping)[0], TransportOptions(delivery=Delivery(), deadline_s=0.5)) as transport:
            transport.start(p4.OP_THC, planes(1, 4)[0], options=ExchangeOptions(tos=tos))
            with pytest.raises(DeadlineError):
                transport.finish()
        seen: dict[int, list[tuple[model.Packet, int]]] = {}
        switch.setblocking(False)
        with pytest.raises(BlockingIOError):
            while True:
                data, [(_, _, tag)], _, _ = switch.recvmsg(2048, 64)
                packet = model.decode(data)
                seen.setdefault(packet.chunk, []).append((packet, tag[0]))
    assert any(packet.op == model.NO_OP for packet, _ in seen[0]), "a worker that waits says HELLO"
    for chunk, both in seen.items():
        packets = [(packet, tag) for packet, tag in both if packet.op != model.NO_OP]
        (first, tag), *later = packets
        assert (first.flags, tag) == (0, tos[chunk])
        assert later
        for packet, again in later:
            assert again == tos[chunk] & 0xE0 | 2
            if packet.kind == model.CONTRIBUTE:
                assert packet.flags & model.RESYNC
                assert packet.payload == first.payload


@pytest.mark.parametrize("tos", [np.zeros(3, np.uint8), np.zeros(4, np.int64)])
def test_tags_of_another_shape_are_refused(tos: Any) -> None:
    with (
        Transport(configs(job_mapping(2, 16))[0]) as transport,
        pytest.raises(UsageError, match=r"TOS bytes of shape .*: need uint8 \(4,\)"),
    ):
        transport.open(p4.OP_THC, 4, options=ExchangeOptions(tos=tos))


def test_more_chunks_than_a_packet_can_number() -> None:
    with Transport(configs(job_mapping(2, 16))[0]) as transport, pytest.raises(UsageError, match="16777217 chunks"):
        transport.open(p4.OP_MAX32, (1 << 24) + 1)
