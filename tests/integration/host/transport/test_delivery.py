# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Bounded loss, marks and tags over real sockets, with the golden switch on loopback: what may be missing, and what
may not, and whose window a mark narrows."""

from __future__ import annotations

import math
import random
import socket
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sumwire
import torch
from golden import model
from helpers.transport.exchanges import Outcome, assert_sums, exchanged, planes
from helpers.transport.soft_tree import STAR, soft_tree
from helpers.transport.udp_bridge import (
    JOB,
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
from sumwire.native import SWITCH
from sumwire.transport.options import Delivery, ExchangeOptions, TransportOptions
from sumwire.transport.udp import Transport
from sumwire_protocol import constants as p4

WORKERS = 4
KEY = bytes(range(32))
# Priority 5, protected.
URGENT = 0xA2


def transfer(
    delivery: Delivery | None,
    up: NDArray[np.uint8],
    switch: Callable[[FrameSwitch], FrameSwitch] = lambda golden: golden,
    *,
    slots: int = 512,
    bounded: bool = True,
    key: bytes | None = None,
    **bridge: Any,
) -> list[Outcome]:
    """One tensor through what ``switch`` makes of the golden one; the sums are right, and say who is missing."""
    mapping = job_mapping(len(up), slots)
    options, exchange = TransportOptions(delivery=delivery), ExchangeOptions(bounded_from=0 if bounded else None)
    bound = 0.0 if delivery is None else delivery.loss_bound
    made = switch(golden_switch(mapping, key=key))
    outcomes = exchanged(mapping, up, made, key=key, options=options, exchange=exchange, **bridge)
    assert_sums([one.results for one in outcomes], up, least=1)
    for results, stats, _ in outcomes:
        missing = len(up) - results.counts.astype(int)
        assert ((results.flags & p4.FLAG_MISSING) != 0).tolist() == (missing > 0).tolist()
        assert stats.missing == missing.sum() <= math.floor(bound * missing.size * len(up))
    assert sum(one.stats.left_out for one in outcomes) == outcomes[0].stats.missing
    return outcomes


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
    up = planes(seed, 120, WORKERS)
    weather = Impairment(seed, drop=0.05, duplicate=0.02, reorder=0.02, late=0.02)
    plain, adaptive = (transfer(delivery, up, slots=16, impairment=weather) for delivery in (None, Delivery()))
    assert sum(one.stats.retransmissions for one in plain) > 0
    assert all(one.stats.flushed == 0 for one in adaptive)
    assert sum(one.stats.probes for one in adaptive) > 0
    assert sum(one.stats.informs for one in adaptive) > 0


def test_an_exchange_that_is_not_bounded_is_complete() -> None:
    up = planes(1, 60, WORKERS)
    for one in transfer(Delivery(loss_bound=0.5), up, slots=16, bounded=False, impairment=Impairment(1, drop=0.05)):
        assert one.stats.missing == 0


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


@pytest.mark.parametrize(
    ("bound", "slots", "loss"),
    [
        *((bound, 512, {"impairment": Impairment(seed, drop=0.04)}) for bound in (0.005, 0.03, 0.2) for seed in (0, 1)),
        (0.03, 512, {"deaf": bursts(0.05, 1)}),
        (0.03, 512, {"deaf": of_worker(3, 0.2, 1)}),
        # Few slots and a large bound: the others pass a worker by rounds. All still end with the same sums.
        (0.3, 8, {"deaf": of_worker(3, 0.5, 2)}),
    ],
)
def test_missing_share_stays_below_the_bound_and_replicas_equal(bound: float, slots: int, loss: dict[str, Any]) -> None:
    outcomes = transfer(Delivery(loss_bound=bound), planes(1, 150, WORKERS), slots=slots, **loss)
    assert outcomes[0].stats.missing > 0 or bound < 0.03


@pytest.mark.parametrize("mode", [model.TRIM_CONTRIBUTIONS, model.CUT_RESULTS])
def test_cut_results_are_filled_as_the_switch_fills_them(mode: int) -> None:
    """The switch degrades a fifth of the packets. A result that came cut and one that was asked for again, whole, are
    the same."""
    mapping, up = job_mapping(WORKERS, 512), planes(1, 120, WORKERS)
    switch = golden_switch(mapping)
    switch.degrades[JOB] = model.Degrade(7, 13107, mode)
    outcomes = exchanged(mapping, up, switch, options=TransportOptions(delivery=Delivery()))
    slots = [switch.slots[JOB, chunk] for chunk in range(120)]
    for results, stats, _ in outcomes:
        assert [words.tobytes() for words in results.words] == [slot.answer for slot in slots]
        assert stats.trimmed == sum(slot.cut != 0 for slot in slots)
    assert outcomes[0].results.cuts.tolist() == [slot.cut for slot in slots]
    cut = [slot for slot in slots if slot.cut & model.CUT_RESULT]
    assert 0 < len(cut) < 120
    assert all(slot.answer[6 * 128 :] == b"\xaa" * 128 + b"\x55" * 128 for slot in cut)


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


def test_what_is_sent_again_says_so() -> None:
    """An experiment hits first packets only: a resend has the flag that spares it."""
    links: list[FirstsLost] = []

    def lossy(switch: FrameSwitch) -> FrameSwitch:
        links.append(FirstsLost(switch))
        return links[0]

    outcomes = transfer(Delivery(), planes(1, 60, WORKERS), lossy)
    assert links[0].lost > 10
    assert sum(one.stats.retransmissions for one in outcomes) >= links[0].lost


# -- marks and tags ----------------------------------------------------------------------------------------


class Marked:
    """The switch, and at one of its ports a queue that marks all packets on their way up, or every second one down."""

    def __init__(self, switch: FrameSwitch, port: int, *, up: bool = False) -> None:
        self.switch, self.port, self.up, self.passed = switch, port, up, 0

    def receive(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        if self.up and port == self.port:
            frame = model.with_ipv4(frame, tos=p4.ECN_CE)
        return [(out, self._down(out, sent)) for out, sent in self.switch.receive(port, frame)]

    def _down(self, port: int, frame: bytes) -> bytes:
        if self.up or port != self.port:
            return frame
        self.passed += 1
        return model.with_ipv4(frame, tos=p4.ECN_CE) if self.passed % 2 else frame


def test_marks_on_the_way_up_reach_all_workers_and_narrow_their_windows() -> None:
    for results, stats, limit in transfer(Delivery(), planes(1, 200, WORKERS), lambda s: Marked(s, 3, up=True)):
        assert stats.ce_marks == 200
        assert (results.flags == p4.FLAG_CE).all()
        assert limit < 10


@pytest.mark.parametrize(
    ("form", "bound", "key"), [("native", 0.0, None), ("native", 0.01, KEY), ("numpy", 0.01, None), ("numpy", 0.0, KEY)]
)
def test_a_mark_on_the_way_down_narrows_the_window_of_who_gets_it(
    form: str, bound: float, key: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a key a mark is no change of the packet: the tag covers what the switch has sent."""
    monkeypatch.setenv(SWITCH, str(int(form == "native")))
    # The golden model takes its time for tags.
    chunks = 100 if key is None else 30
    outcomes = transfer(Delivery(loss_bound=bound), planes(1, chunks, 3), lambda s: Marked(s, 2), key=key)
    assert not any(one.stats.forged for one in outcomes)
    marks = [one.stats.ce_marks for one in outcomes]
    # Resends, if there are any, have results of their own.
    assert (marks[0], marks[2]) == (0, 0)
    assert 0.4 * chunks <= marks[1] <= 0.6 * chunks
    limits = [one.limit for one in outcomes]
    # A window begins with 10 and grows, and nothing but marks takes it below that.
    assert limits[1] < 10 < min(limits[0], limits[2])


@pytest.mark.parametrize("form", ["native", "numpy"])
def test_without_a_window_that_follows_marks_nobody_reads_them(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, str(int(form == "native")))
    for one in transfer(Delivery(congestion=False), planes(1, 100, 3), lambda s: Marked(s, 2)):
        assert (one.stats.ce_marks, one.limit) == (0, 0)


@pytest.mark.parametrize("mark_bytes", [1, 1 << 24], ids=["marking", "long"])
def test_a_queue_of_a_star_reaches_the_workers_of_a_job(mark_bytes: int) -> None:
    """A queue behind a soft switch's port that marks every result narrows the window of the worker there alone."""
    queue = f"switch: s1, port: 1, rate_mbit: 1, mark_bytes: {mark_bytes}"
    never = 1 << 24
    queue = f"{{{queue}, drop_bytes: [{never}, {never}, {never}, {never}], drop_all_bytes: {never}}}"
    given = [torch.randn(40 * 1024, generator=torch.Generator().manual_seed(w)) for w in range(STAR.workers)]

    def tag(magnitudes: NDArray[np.float32]) -> NDArray[np.uint8]:
        return np.full(len(magnitudes), URGENT, np.uint8)

    with soft_tree(STAR, {"train": 256}, queue) as rig:
        mapping = rig.fresh_job("train")

        def work(worker: int) -> Any:
            with sumwire.Job(configs(mapping)[worker], delivery=Delivery()) as job:
                mean = job.reduce(given[worker], tag=tag)[0].clone()
                limit = job._session.window.limit
                assert limit is not None
                return mean, job.stats.ce_marks, limit.chunks

        with rig.bridge(mapping):
            outcomes = run_workers(work, STAR.workers)
    assert all(torch.equal(mean, outcomes[0][0]) for mean, _, _ in outcomes)
    marks, limits = [marks for _, marks, _ in outcomes], [limit for _, _, limit in outcomes]
    assert marks[1:] == [0, 0, 0]
    # A window begins with 10 and nothing but marks takes it below that.
    assert min(limits[1:]) >= 10
    if mark_bytes == 1:
        # The first finds an empty queue, and so may a later one.
        assert marks[0] > 20
        assert limits[0] < 10
    else:
        assert marks[0] == 0
        assert limits[0] >= 10


def test_first_packets_have_their_tags_and_resends_are_protected() -> None:
    mapping = job_mapping(2, 16)
    tos = np.array([0xF8, 0x18, 0x62, 0x00], np.uint8)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as switch:
        switch.bind((aggregator_of(mapping), model.UDP_PORT))
        switch.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
        switch.settimeout(5.0)
        with Transport(configs(mapping)[0], TransportOptions(delivery=Delivery(), deadline_s=0.5)) as transport:
            transport.start(p4.OP_THC, planes(1, 4, 1)[0], options=ExchangeOptions(tos=tos))
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
