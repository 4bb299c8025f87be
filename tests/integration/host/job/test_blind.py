# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Blind jobs on real gloo ranks: the same bits as open ones, and noise for the switch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden import model
from helpers.aggregator.served import serving
from helpers.gloo import blind_cases
from helpers.gloo.ranks import Ranks
from helpers.logs import of
from helpers.transport.soft_tree import soft_tree
from helpers.transport.udp_bridge import Bridge, Impairment, golden_switch, job_mapping
from numpy.typing import NDArray
from simulate.network import Shape
from sumwire.config import OP_NAMES
from sumwire.transport.options import Delivery
from sumwire.wire.packets import HEADER_BYTES
from sumwire_lab.experiments.secure_aggregation import CHI_SQUARE_MOST, noise_of, payload_of, values_of
from sumwire_protocol import constants as p4
from sumwire_protocol.events import Event

pytest.importorskip("cryptography")

RANKS = 4
# The buckets of the greeting.
GREETING = model.OPENS_RUN
OPS = ["thc", "max32", "sum32", "vote", "sign", "min32"]


def mapping_of(*, blind: bool, **fields: Any) -> dict[str, Any]:
    return {**job_mapping(RANKS, 64), "ops": OPS, "blind": blind, **fields}


def test_means_have_the_bits_of_the_open_job(ranks: Ranks) -> None:
    """Small tensors, also when norms jump, and one of several parts. The open job, too, asks for norms first."""
    outcomes = []
    for blind in (False, True):
        mapping = mapping_of(blind=blind)
        with serving(mapping):
            outcomes.append(ranks.run(blind_cases.means, mapping, [1, 1500, 300_000], 5))
    for plain, masked in zip(*outcomes, strict=True):
        assert masked["found"] == plain["found"]
        assert [len(of(outcome["lines"], Event.KEYS_AGREED)) for outcome in (plain, masked)] == [0, 1]
        assert of(masked["lines"], Event.JOB_OPENED)[0]["blind"]


def test_over_a_tree_of_switches(ranks: Ranks) -> None:
    with soft_tree(
        Shape({"leaf1": 3, "leaf2": 1}, dict.fromkeys(("leaf1", "leaf2"), ("spine1",))), {"train": 16}
    ) as rig:
        outcomes = []
        for blind in (False, True):
            mapping = {**rig.fresh_job("train"), "blind": blind}
            with rig.bridge(mapping, Impairment(3, drop=0.02, duplicate=0.02, reorder=0.02)):
                outcomes.append(ranks.run(blind_cases.means, mapping, [1500, 9000], 2))
    for plain, masked in zip(*outcomes, strict=True):
        assert masked["found"] == plain["found"]


def test_all_other_operations_have_the_open_jobs_results(ranks: Ranks) -> None:
    outcomes = []
    for case in (blind_cases.other_operations, blind_cases.not_finite):
        for blind in (False, True):
            mapping = mapping_of(blind=blind)
            with serving(mapping):
                outcomes.append(ranks.run(case, mapping))
    assert outcomes[0] == outcomes[1]
    assert outcomes[2] == outcomes[3]


class Record:
    """What a switch hears: a predicate that lets it hear everything."""

    def __init__(self) -> None:
        self.datagrams: list[bytes] = []

    def __call__(self, _: int, datagram: bytes) -> bool:
        self.datagrams.append(datagram)
        return False


@pytest.mark.parametrize("op", [p4.OP_THC, p4.OP_SUM32])
def test_a_switch_sees_noise(ranks: Ranks, op: int) -> None:
    """Bytes are uniform, and do not follow the gradient. Without masks the same test says that they are and do."""
    length, codec = 60_000, OP_NAMES[op]

    def seen(*, blind: bool) -> tuple[list[bytes], list[Any]]:
        mapping, record = mapping_of(blind=blind), Record()
        with Bridge(mapping, golden_switch(mapping), deaf=record):
            return record.datagrams, ranks.run(blind_cases.one_mean, mapping, codec, length)

    datagrams, means = seen(blind=False)
    sent = payload_of(datagrams, op, 1, 64)
    values = values_of(sent, op)
    plain = noise_of(values.view(np.uint8).reshape(len(sent), -1), values)
    assert plain.chi_square > 10 * CHI_SQUARE_MOST
    assert plain.correlation > 0.999
    # Noise is taken for something else once in 500 times, and twice in a row never.
    for _ in range(2):
        datagrams, masked = seen(blind=True)
        assert masked == means
        packets = [packet for packet in map(model.decode, datagrams) if packet.bucket < GREETING and packet.words]
        assert {packet.op for packet in packets} == {p4.OP_SUM32}
        noise = noise_of(payload_of(datagrams, p4.OP_SUM32, 1, 64), values)
        if noise.tells_nothing:
            break
    assert noise.tells_nothing, noise


def contributions(datagrams: list[bytes]) -> list[model.Packet]:
    """What workers sent but for greetings, in the order of chunks and workers, without what was sent again."""
    packets = [packet for packet in map(model.decode, datagrams) if packet.kind == model.CONTRIBUTE]
    found: dict[tuple[int, int], model.Packet] = {}
    for each in packets:
        if each.bucket < GREETING:
            found.setdefault((each.round * 64 + each.slot, each.worker), each)
    return [found[place] for place in sorted(found)]


def numbers(rows: list[NDArray[np.uint32]], codec: str) -> NDArray[np.float64]:
    """The values in rows of elements: table values are bytes."""
    elements = np.concatenate(rows).astype(">u4")
    return elements.view(np.uint8 if codec == "thc" else ">i4").astype(np.float64)


def most_told(sums: list[NDArray[np.uint32]], own: list[NDArray[np.uint32]], codec: str) -> tuple[float, float]:
    """Correlations with a worker's own values: of their sum, and the largest of what two rows of sums tell."""
    count, truth = len(own), numbers(own, codec)
    rows = [numbers(sums[first : first + count], codec) for first in range(len(sums) - count + 1)]
    told = [
        abs(np.corrcoef(second - (first @ second) / (first @ first) * first, truth)[0, 1])
        for k, first in enumerate(rows)
        for second in rows[k + 1 :]
    ]
    return float(np.corrcoef(rows[1], truth)[0, 1]), float(max(told))


@pytest.mark.parametrize("codec", ["thc", "sum32"])
def test_a_norm_that_jumps_is_not_seen(ranks: Ranks, codec: str) -> None:
    """A switch that reads everything: the packets of runs in which a worker's norm jumps or does not differ in payload
    alone, and no two sums differ by one worker's values."""
    length, chunks = 6000, -(-6000 // (256 if codec == "sum32" else 1024))
    seen = []
    for factor in (1.0, 1.4, 300.0):
        mapping, record = mapping_of(blind=True), Record()
        with Bridge(mapping, golden_switch(mapping), deaf=record):
            hidden = dict(ranks.run(blind_cases.jumping_means, mapping, codec, length, factor)[1])
        packets = contributions(record.datagrams)
        base = packets[0].round * 64 + packets[0].slot
        seen.append(
            [(p.round * 64 + p.slot - base, p.worker, p.op, p.flags & ~p4.FLAG_RESYNC, len(p.payload)) for p in packets]
        )
        sums = dict.fromkeys(hidden, np.zeros(256, np.uint32))
        for packet in packets:
            place = packet.round * 64 + packet.slot
            if place in sums:
                sums[place] = sums[place] + np.frombuffer(packet.payload, ">u4").astype(np.uint32)
        own = [np.frombuffer(row, ">u4").astype(np.uint32) for row in hidden.values()]
        allowed, told = most_told(list(sums.values()), own[1 : 1 + chunks], codec)
        assert told <= allowed + 0.01, (factor, allowed, told)
        assert len(sums) == 1 + chunks + 1, "norms, each value once, and the check of sums"
    assert seen[0] == seen[1] == seen[2]


class Changing:
    """A switch that changes an element of a sum of a blind job's first operation, in what one worker gets or all.
    ``chunk``: from the first one of the operation on. ``count``: contributions that it then says to be in it."""

    def __init__(self, switch: model.GoldenSwitch, *, chunk: int, port: int | None, count: int | None = None) -> None:
        self._switch = switch
        self._chunk = chunk
        self._port = port
        self._count = count
        self._first: int | None = None

    def receive(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        return [(to, self._changed(to, sent)) for to, sent in self._switch.receive(port, frame)]

    def _changed(self, port: int, frame: bytes) -> bytes:
        packet = model.decode(frame[-HEADER_BYTES - 1024 :])
        if len(frame) < 1024 or packet.kind != model.RESULT or packet.op != p4.OP_SUM32:
            return frame
        place = packet.round * 64 + packet.slot
        self._first = place if self._first is None else min(self._first, place)
        if place != self._first + self._chunk or self._port not in (None, port):
            return frame
        elements = np.frombuffer(packet.payload, ">u4").copy()
        elements[0] ^= 1 << 10
        changed = packet._replace(payload=elements.tobytes())
        if self._count is not None:
            changed = packet._replace(count=self._count)
        return frame[: -HEADER_BYTES - 1024] + changed.encode()


NOT_THOSE = "the sums are not those of what the workers sent"


@pytest.mark.parametrize(
    ("chunk", "said"),
    [(0, "numbers of worker 0: their tag does not fit them"), (1, NOT_THOSE), (2, NOT_THOSE)],
    ids=["norms", "sums", "the last sums"],
)
@pytest.mark.parametrize("codec", ["thc", "sum32"])
@pytest.mark.parametrize("port", [None, 2], ids=["all", "one"])
@pytest.mark.few(6)
def test_a_switch_that_changes_something_is_noticed(
    tmp_path: Path, codec: str, port: int | None, chunk: int, said: str
) -> None:
    """A hidden norm, before anything is encoded with it, so that no worker's values can be made to stand alone in a
    sum; a sum, before anything is done with it."""
    mapping = mapping_of(blind=True)
    with Ranks(RANKS, tmp_path) as ranks:
        switch = Changing(golden_switch(mapping), chunk=chunk, port=port)
        with Bridge(mapping, switch):
            errors = ranks.run(blind_cases.error_of_means, mapping, codec)
    for worker, text in enumerate(errors):
        if port in (None, 1 + worker):
            assert text.startswith("TamperedError: job 7: what the workers told each other through the switch was ")
            assert said in text
        else:
            assert text.startswith(("PeerLostError: ", "TamperedError: ")), text


def test_no_mask_is_used_twice(ranks: Ranks) -> None:
    """One tensor, over and over: through retransmissions, a fall-back with a new run after it, and a restart. With
    a mask used twice, two contributions of a worker would be equal; and a retransmission is the same packet."""
    mapping, record = mapping_of(blind=True), Record()
    with Bridge(
        mapping, golden_switch(mapping), Impairment(5, drop=0.03, duplicate=0.03, reorder=0.03), deaf=Loss(record)
    ):
        first = ranks.run(blind_cases.until_returned, mapping, 3)
        again = ranks.run(blind_cases.one_mean, mapping, "sum32", 2000)
    by_place: dict[tuple[int, int, int], set[bytes]] = {}
    for datagram in record.datagrams:
        packet = model.decode(datagram)
        if packet.op == p4.OP_SUM32 and packet.kind == model.CONTRIBUTE:
            place = packet.worker, packet.round, packet.slot
            by_place.setdefault(place, set()).add(datagram[HEADER_BYTES:])
    assert all(len(payloads) == 1 for payloads in by_place.values())
    runs = {round_ for _, round_, _ in by_place}
    assert len(runs) >= 3, "rounds of three runs"
    payloads = [payload for [payload] in by_place.values()]
    assert len({*payloads}) == len(payloads)
    assert {mean for found in first for mean, _ in found} >= {again[0][0]}


class Loss:
    """A switch that hears nothing after some contributions, until it was asked so often that it counts as lost."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._questions = 0

    def __call__(self, number: int, datagram: bytes) -> bool:
        self._record(number, datagram)
        packet = model.decode(datagram)
        deaf = len(self._record.datagrams) > 150 and self._questions < 28
        self._questions += deaf and model.is_hello(packet)
        return deaf


@pytest.mark.parametrize("killed", [False, True], ids=["leaves", "is killed"])
def test_a_worker_that_drops_out_ends_the_round_by_name(tmp_path: Path, killed: bool) -> None:
    with Ranks(3, tmp_path) as three:
        mapping = {**job_mapping(3, 64), "ops": OPS, "blind": True}
        with serving(mapping):
            three.begin(blind_cases.until_one_leaves, mapping, 1, killed)
            outcomes = three.outcomes(without=1 if killed else None)
    for text in outcomes[:1] + outcomes[-1:]:
        assert text.startswith("PeerLostError: job test: "), text


@pytest.mark.parametrize(
    ("fields", "options", "words"),
    [
        ({"ops": ["thc", "max32"]}, {}, "must have sum32"),
        ({"quorum": 3}, {}, "quorum = 3: must be 4, all workers: masks only cancel"),
        ({}, {"delivery": Delivery(loss_bound=0.1)}, "loss_bound = 0.1: must be 0 in a blind job"),
    ],
)
def test_a_job_that_cannot_be_blind_is_refused(
    ranks: Ranks, fields: dict[str, Any], options: dict[str, Any], words: str
) -> None:
    for [text] in ranks.run(blind_cases.refusals, mapping_of(blind=True, **fields), options):
        assert text.startswith("ConfigError: job test: ")
        assert words in text


def test_what_cannot_be_masked_is_refused_and_the_job_goes_on(ranks: Ranks) -> None:
    mapping = mapping_of(blind=True)
    with serving(mapping):
        for texts in ranks.run(blind_cases.refusals, mapping, {}):
            assert len(texts) == 3
            for text in texts:
                assert text.startswith("ConfigError: job test: blind = True: must not be true with ")
                assert text.endswith("use one of them, or leave `blind` out")


def test_ranks_that_disagree_learn_it(ranks: Ranks) -> None:
    for rank in range(RANKS):
        ranks.begin_on(rank, blind_cases.refusals, mapping_of(blind=rank == 2), {})
    for [text] in ranks.outcomes():
        assert "blind = [False, False, True, False]: must be equal on all ranks" in text
