# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the program for Tofino does to packets, on a switch that runs v1model (helpers/tofino): the rules of
docs/tofino.md, packet by packet. Nothing here shows what a Tofino does."""

from __future__ import annotations

import itertools
import random
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from golden.packets import CONTRIBUTE, RESULT, STALE, Host, Packet, decode, udp_frame
from helpers.tofino.v1model import compile_for_v1model
from numpy.typing import NDArray
from softswitch.runtime.entries import ActionCall, Entry, Exact, Replica
from softswitch.switch import SoftSwitch

pytestmark = pytest.mark.p4c

THC, MAX32, SUM32, SIGN = 1, 2, 3, 4
# A packet has 16 lanes of 32 bits, in 8 words.
LANES = 16
WORD_BYTES = 8
JOB, BLOCK, GROUP, CODEBOOK, TOKEN = 7, 3, 5, 2, 0x1234567890ABCDEF
AGGREGATOR = Host(0, bytes.fromhex("020000000001"), bytes([10, 0, 0, 254]))
WORKERS = [Host(k + 1, bytes([2, 0, 0, 0, 1, k]), bytes([10, 0, 0, k + 1]), 30000 + k) for k in range(3)]
TABLE = [0, 1, 3, 4, 6, 8, 9, 11, 13, 15, 16, 18, 20, 22, 27, 30]
VERDICTS = {"FIRST": 1, "ADD": 2, "LAST": 3, "DUPLICATE": 4, "REPEAT": 5, "STALE": 7}
INGRESS = "ingress.inner"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    return compile_for_v1model(tmp_path_factory.mktemp("tofino"))


@pytest.fixture
def switch(program: str) -> SoftSwitch:
    made = SoftSwitch(program, seed=1, cpu_port=510, engine="python")
    everyone = (1 << len(WORKERS)) - 1
    for seat, host in enumerate(WORKERS):
        key = (JOB, seat, 0, TOKEN, number(host.ip), number(AGGREGATOR.ip), host.udp_port, host.port)
        bit = 1 << seat
        row = (BLOCK, bit, everyone ^ bit, everyone, len(WORKERS), GROUP, CODEBOOK, seat)
        insert(made, "admission.worker", key, "admission.admit_worker", row)
        replica = (seat, number(host.mac), number(host.ip), host.udp_port)
        address = ActionCall("egress.inner.reply_address.address", replica)
        made.insert("egress.inner.reply_address.replica", Entry((Exact(JOB), Exact(seat + 1)), address))
    made.set_group(GROUP, [Replica(host.port, seat + 1) for seat, host in enumerate(WORKERS)])
    insert(made, "forwarding.forward", (number(WORKERS[1].ip),), "forwarding.to_port", (WORKERS[1].port,))
    return made


def insert(switch: SoftSwitch, table: str, key: Sequence[int], action: str, data: Sequence[int]) -> None:
    entry = Entry(tuple(map(Exact, key)), ActionCall(f"{INGRESS}.{action}", tuple(data)))
    switch.insert(f"{INGRESS}.{table}", entry)


def number(data: bytes) -> int:
    return int.from_bytes(data, "big")


def contribution(worker: int, op: int, payload: bytes, *, slot: int = 4, round_: int = 9) -> Packet:
    return Packet(
        CONTRIBUTE, op, JOB, slot, worker, 1, round_, 0, 0, len(payload) // WORD_BYTES, 77, 6, payload, token=TOKEN
    )


def sent(switch: SoftSwitch, packet: Packet, *, host: Host | None = None) -> dict[int, Packet]:
    """What comes out, by port. Every reply is a whole frame from the aggregator to the worker behind the port."""
    sender = host or WORKERS[packet.worker]
    frame = udp_frame(sender, AGGREGATOR, packet.encode(), dscp_ecn=0xE0, ident=5, udp_checksum=1)
    replies = {}
    for port, out in switch.process(sender.port, frame):
        answer = decode(out[42:])
        assert out == udp_frame(AGGREGATOR, WORKERS[port - 1], answer.encode(), dscp_ecn=0xE2)
        assert port not in replies
        replies[port] = answer
    return replies


def verdict(switch: SoftSwitch, packet: Packet) -> tuple[str, dict[int, Packet]]:
    """The verdict by which the packet is counted, and what comes out."""

    def counted() -> list[int]:
        return [switch.read_counter(f"{INGRESS}.accounting.verdicts", code).packets for code in VERDICTS.values()]

    before = counted()
    replies = sent(switch, packet)
    (name,) = [name for name, old, new in zip(VERDICTS, before, counted(), strict=True) if new == old + 1]
    return name, replies


def planes(values: NDArray[np.int64]) -> bytes:
    """64 indices as four planes of 64 bits, the most significant first; value i is bit i from the left."""
    return b"".join(np.packbits((values >> bit & 1).astype(np.uint8)).tobytes() for bit in (3, 2, 1, 0))


def install_table(switch: SoftSwitch) -> None:
    """Rows of all 32 tables of pairs. The bits of a key are those of the planes, from z3 to z0."""
    for (first, second), lane in itertools.product(itertools.product(range(16), repeat=2), range(LANES)):
        key = [(first >> bit & 1) << 1 | second >> bit & 1 for bit in (3, 2, 1, 0)]
        data = (TABLE[first] << 8 | TABLE[second],)
        for which in ("01", "23"):
            name = f"thc.lookup_{lane}"
            insert(switch, f"{name}.pair_{which}", (CODEBOOK, *key), f"{name}.values_{which}", data)


def result_of(worker: int, packet: Packet, payload: bytes) -> Packet:
    return packet._replace(kind=RESULT, worker=worker, count=3, contributors=7, words=8, payload=payload)


def test_thc_sums_table_values(switch: SoftSwitch) -> None:
    install_table(switch)
    generator = np.random.default_rng(1)
    indices = generator.integers(0, 16, (3, 4 * LANES))
    packets = [contribution(worker, THC, planes(indices[worker])) for worker in range(3)]
    assert verdict(switch, packets[2]) == ("FIRST", {})
    assert verdict(switch, packets[0]) == ("ADD", {})
    sums = bytes(int(value) for value in np.asarray(TABLE)[indices].sum(axis=0))
    expected = {host.port: result_of(seat, packets[1], sums) for seat, host in enumerate(WORKERS)}
    assert verdict(switch, packets[1]) == ("LAST", expected)
    assert verdict(switch, packets[0]) == ("DUPLICATE", {1: expected[1]})


def test_a_sign_is_that_of_the_worker_that_the_draw_names(switch: SoftSwitch) -> None:
    generator = np.random.default_rng(2)
    signs, drawn = generator.integers(0, 2, (3, 32 * LANES)), generator.integers(0, 3, 32 * LANES)
    draw = zlib.crc32(struct.pack("!HHI", JOB, 4, 9)) % 256
    for seat, first in itertools.product(range(3), range(0, LANES, 4)):
        mask = np.packbits((drawn == seat).astype(np.uint8)).tobytes()
        masks = struct.unpack_from("!4I", mask, 4 * first)
        insert(switch, f"sign.mask_{first}.masks", (SIGN, seat, draw), f"sign.mask_{first}.keep", masks)
    packets = [contribution(worker, SIGN, np.packbits(signs[worker].astype(np.uint8)).tobytes()) for worker in range(3)]
    assert [verdict(switch, packet)[0] for packet in packets[:2]] == ["FIRST", "ADD"]
    name, replies = verdict(switch, packets[2])
    merged = np.packbits(signs[drawn, np.arange(32 * LANES)].astype(np.uint8)).tobytes()
    assert (name, replies[1]) == ("LAST", result_of(0, packets[2], merged))


@pytest.mark.parametrize("op", [SUM32, MAX32])
def test_elements(switch: SoftSwitch, op: int) -> None:
    elements = np.random.default_rng(op).integers(0, 1 << 32, (3, LANES), dtype=np.uint64)
    packets = [contribution(worker, op, elements[worker].astype(">u4").tobytes()) for worker in range(3)]
    replies = [sent(switch, packet) for packet in packets][-1]
    folded = elements.sum(axis=0) % (1 << 32) if op == SUM32 else elements.max(axis=0)
    assert replies[3] == result_of(2, packets[2], folded.astype(">u4").tobytes())


class Model:
    """Slots of docs/tofino.md, for SUM32 with one element that matters."""

    def __init__(self) -> None:
        self.slots: dict[int, tuple[int, set[int], int]] = {}

    def take(self, worker: int, slot: int, round_: int, element: int) -> tuple[str, int]:
        """The verdict, and what the reply says: the sum, or the slot's round."""
        held, members, total = self.slots.get(slot, (-1, set(), 0))
        if round_ > held:
            self.slots[slot] = (round_, {worker}, element)
            return "FIRST", 0
        if round_ < held:
            return "STALE", held
        if worker in members:
            return ("DUPLICATE", total) if len(members) == len(WORKERS) else ("REPEAT", 0)
        total = (total + element) % (1 << 32)
        self.slots[slot] = (held, {*members, worker}, total)
        return ("LAST", total) if len(members) + 1 == len(WORKERS) else ("ADD", 0)


def schedule(seed: int) -> Iterator[tuple[int, int, int, int]]:
    choose = random.Random(seed)
    for step in range(400):
        yield (
            choose.randrange(3),
            choose.choice((0, 1, 4095)),
            1 + max(0, step // 60 - choose.randrange(2)),
            choose.getrandbits(32),
        )


@pytest.mark.parametrize("seed", range(3))
def test_any_schedule(switch: SoftSwitch, seed: int) -> None:
    model, seen = Model(), set()
    for worker, slot, round_, element in schedule(seed):
        name, says = model.take(worker, slot, round_, element)
        packet = contribution(worker, SUM32, struct.pack("!I", element) * LANES, slot=slot, round_=round_)
        found, replies = verdict(switch, packet)
        seen.add(found)
        assert found == name, seed
        if name in ("FIRST", "ADD", "REPEAT"):
            assert replies == {}
        elif name == "STALE":
            told = packet._replace(kind=STALE, round=says, count=0, words=0, payload=b"")
            assert replies == {worker + 1: told}
        else:
            to = range(3) if name == "LAST" else (worker,)
            assert replies == {seat + 1: result_of(seat, packet, struct.pack("!I", says) * LANES) for seat in to}
    assert seen == set(VERDICTS)


Change = Callable[[Packet], Packet]


@pytest.mark.parametrize(
    "change",
    [
        lambda packet: packet._replace(job=8),
        lambda packet: packet._replace(worker=1),
        lambda packet: packet._replace(slot=4096 + 4),
        lambda packet: packet._replace(token=TOKEN + (1 << 40)),
        lambda packet: packet._replace(version=1),
        lambda packet: packet._replace(kind=STALE),
        lambda packet: packet._replace(op=5),
        lambda packet: packet._replace(words=7),
        lambda packet: packet._replace(payload=packet.payload[:-1]),
    ],
)
def test_what_is_not_admitted_changes_nothing(switch: SoftSwitch, change: Change) -> None:
    good = [contribution(worker, SUM32, struct.pack("!I", 5) * LANES) for worker in range(3)]
    for packet in good[1:]:
        assert sent(switch, packet) == {}
    assert sent(switch, change(good[0]), host=WORKERS[0]) == {}
    own = WORKERS[0]
    for elsewhere in (replace(own, port=2), replace(own, ip=WORKERS[2].ip), replace(own, udp_port=9)):
        assert sent(switch, good[0], host=elsewhere) == {}
    assert verdict(switch, good[0])[0] == "LAST"


def test_another_run_takes_the_slot_whatever_its_round(switch: SoftSwitch) -> None:
    packet = contribution(0, SUM32, bytes(4 * LANES), round_=900)
    assert verdict(switch, packet)[0] == "FIRST"
    other, host = TOKEN ^ 0xFFFF, WORKERS[0]
    key = (JOB, 0, 0, other, number(host.ip), number(AGGREGATOR.ip), host.udp_port, host.port)
    insert(switch, "admission.worker", key, "admission.admit_worker", (BLOCK, 1, 6, 7, 3, GROUP, CODEBOOK, 0))
    assert verdict(switch, packet._replace(token=other, round=2))[0] == "FIRST"


def test_other_packets_are_forwarded_as_they_are(switch: SoftSwitch) -> None:
    frame = udp_frame(WORKERS[0], WORKERS[1], b"\x21" * 80, ttl=3, udp_checksum=9)
    assert switch.process(1, frame) == [(2, frame)]
    unknown = udp_frame(WORKERS[0], WORKERS[2], b"\x21" * 80)
    assert switch.process(1, unknown) == []
