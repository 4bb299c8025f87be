# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Frames made by hand, judged by scapy and by the golden switch."""

from __future__ import annotations

import random
import socket
from collections import Counter

import pytest
from golden import model as golden
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from sumwire.wire.packets import Header, pack
from sumwire_lab.load import malformed
from sumwire_lab.load.malformed import KINDS, Endpoints, ForgedSender, opener, packets
from sumwire_protocol import constants as p4

MAC = "02:53:57:00:00:64"
TABLE = (0, 3, 5, 7, 9, 11, 13, 14, 16, 17, 19, 21, 23, 25, 27, 30)


def ends(worker: int) -> Endpoints:
    return Endpoints(f"00:00:00:00:00:{worker + 1:02x}", MAC, f"10.0.0.{worker + 1}", "10.0.0.100")


def golden_host(worker: int) -> golden.Host:
    mac, ip = ends(worker).src_mac, ends(worker).src_ip
    return golden.Host(worker + 1, bytes.fromhex(mac.replace(":", "")), socket.inet_aton(ip))


def golden_switch(workers: int = 4) -> golden.GoldenSwitch:
    """Jobs as the lab installs them for a run with malformed packets."""
    hosts = tuple(golden_host(k) for k in range(workers))
    jobs = (
        golden.Job(1, hosts, 0, 256, workers, TABLE, ops=frozenset(golden.WORDS_UP)),
        golden.Job(2, hosts, 256, 2, workers, TABLE),
        golden.Job(3, hosts, 258, 2, workers, TABLE, ops=frozenset({golden.THC})),
    )
    aggregator = golden.Host(0, bytes.fromhex(MAC.replace(":", "")), socket.inet_aton("10.0.0.100"))
    return golden.GoldenSwitch(aggregator, hosts, jobs)


def test_a_frame_is_what_scapy_reads() -> None:
    header = Header(p4.KIND_CONTRIBUTE, p4.OP_MAX32, job=7, slot=3, worker=2, round=9, words=1)
    payload = bytes(range(128))
    packet = Ether(malformed.frame(ends(2), header, payload))
    assert (packet[IP].src, packet[IP].dst, packet[UDP].dport) == ("10.0.0.3", "10.0.0.100", 21335)
    assert bytes(packet[UDP].payload) == pack(header, payload)
    stated = packet[IP].chksum
    del packet[IP].chksum
    assert Ether(bytes(packet))[IP].chksum == stated
    assert (packet[IP].len, packet[UDP].len) == (20 + 8 + 32 + 128, 8 + 32 + 128)


@pytest.mark.parametrize("name", sorted(KINDS))
def test_every_kind_is_rejected_for_its_reason(name: str) -> None:
    reason, build = KINDS[name]
    wanted = next(key for key, value in vars(p4).items() if key.startswith("REJECT_") and value == reason)
    rng = random.Random(3)
    for worker in (0, 3):
        switch = golden_switch()
        sender = ForgedSender(ends(worker), worker, 4)
        switch.receive(worker + 1, opener(sender))
        assert switch.verdicts == {"FIRST": 1}
        for _ in range(200):
            assert switch.receive(worker + 1, build(sender, rng)) == []
        assert switch.rejects == {wanted.removeprefix("REJECT_"): 200}


def test_the_kinds_cover_every_reason_of_the_program() -> None:
    reasons = {value for name, value in vars(p4).items() if name.startswith("REJECT_")}
    # A packet beyond its job's limit is like any other, and a round is only wrong in a run that workers have opened.
    assert {reason for reason, _ in KINDS.values()} == reasons - {p4.REJECT_NONE, p4.REJECT_BUDGET, p4.REJECT_ROUND}


def test_a_flood_takes_all_kinds_in_turn() -> None:
    count = 2 * len(KINDS)
    sent = list(packets(ForgedSender(ends(0), 0, 4), count, seed=1))
    assert Counter(reason for reason, _ in sent) == Counter(reason for reason, _ in KINDS.values() for _ in range(2))
    assert len({data for _, data in sent}) == count, "no two alike"
    assert list(packets(ForgedSender(ends(0), 0, 4), count, seed=1)) == sent
    assert all(len(data) + 8 >= 42 and len(data) <= 1514 for _, data in sent)


def test_a_lone_worker_sends_no_foreign_number() -> None:
    assert p4.REJECT_PORT not in {reason for reason, _ in packets(ForgedSender(ends(0), 0, 1), 100, seed=1)}


def test_the_round_is_where_the_generator_patches_it() -> None:
    data = bytearray(malformed.frame(ends(0), Header(p4.KIND_CONTRIBUTE, p4.OP_MAX32, 1, 2, 0, words=1), bytes(128)))
    data[malformed.ROUND_OFFSET : malformed.ROUND_OFFSET + 4] = (0xABCDEF01).to_bytes(4, "big")
    assert golden.decode(bytes(data[42:])).round == 0xABCDEF01
