# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The scapy layer builds what the golden model builds, and takes apart what it encodes."""

from __future__ import annotations

import os
import random

import pytest
from golden import packets as golden
from golden.ops import WORD
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw
from sumwire_protocol.scapy_layer import Sumwire

COUNT = int(os.environ.get("SUMWIRE_SCAPY_PACKETS", "300"))
_HEADER = [name for name in golden.Packet._fields if name not in ("payload", "tag")]
_BITS = {"kind": 4, "version": 4, "op": 8, "job": 16, "slot": 16, "worker": 8, "count": 8, "round": 32,
         "contributors": 32, "flags": 8, "words": 8, "bucket": 16, "chunk": 24, "cut": 8, "token": 64}  # fmt: skip


def _drawn(rng: random.Random) -> golden.Packet:
    fields = {name: rng.getrandbits(bits) for name, bits in _BITS.items()}
    # Mostly as short as real ones are, and now and then as long as the field can say.
    fields["words"] = rng.choice((0, 1, 2, 4, 6, 8)) if rng.random() < 0.98 else rng.getrandbits(8)
    return golden.Packet(**fields, payload=rng.randbytes(WORD * fields["words"]))


def _built(packet: golden.Packet) -> Sumwire:
    return Sumwire(**{name: getattr(packet, name) for name in _HEADER if name != "words"}, data=packet.payload)


def test_built_and_dissected_packets_are_the_golden_models() -> None:
    rng = random.Random(5)
    for _ in range(COUNT):
        packet = _drawn(rng)
        encoded = packet.encode()
        assert bytes(_built(packet)) == encoded
        seen = Sumwire(encoded)
        assert {name: int(getattr(seen, name)) for name in _HEADER} == {name: getattr(packet, name) for name in _HEADER}
        assert (bytes(seen.data), seen.payload.name) == (packet.payload, "NoPayload")
        assert bytes(seen) == encoded


def test_a_frame_is_the_golden_models() -> None:
    packet = golden.Packet(1, 1, 7, 2, 1, 1, 3, 0, 0, 4, 9, 6, payload=bytes(512), token=5)
    host, switch = (golden.Host(1, bytes([2, 0, 0, 0, 0, k]), bytes([10, 0, 0, k])) for k in (1, 9))
    mac = "02:00:00:00:00:0"
    frame = Ether(src=f"{mac}1", dst=f"{mac}9") / IP(src="10.0.0.1", dst="10.0.0.9", id=0)
    assert bytes(frame / UDP(chksum=0) / _built(packet)) == golden.udp_frame(host, switch, packet.encode())


def test_frames_of_the_port_are_sumwires() -> None:
    frame = Ether() / IP(dst="10.0.0.1") / UDP(sport=golden.UDP_PORT, dport=4000) / Sumwire(kind="REFUSED", count=6)
    seen = Ether(bytes(frame))
    assert seen[Sumwire].reason == "JOB"
    assert "Sumwire REFUSED JOB NONE job 0 slot 0" in seen.summary()


@pytest.mark.parametrize("tag", [b"", b"\x25" * 8])
def test_the_packets_of_a_train_are_layers_one_behind_another(tag: bytes) -> None:
    packets = [golden.Packet(1, 1, 7, slot, 1, 1, 3, 0, 0, 4, 9, 6, payload=bytes(512), token=5) for slot in range(3)]
    seen = Sumwire(b"".join(packet.encode() + tag for packet in packets))
    assert [seen.getlayer(Sumwire, nb).slot for nb in (1, 2, 3)] == [0, 1, 2]
    assert seen.getlayer(Sumwire, 4) is None and not seen.haslayer(Raw)


def test_names_of_flags_kinds_and_ops() -> None:
    packet = Sumwire(kind="PROBE", op="SUM32", flags="FLUSH+RESYNC")
    assert (packet.kind, packet.op, int(packet.flags)) == (golden.PROBE, 3, golden.FLUSH | golden.RESYNC)
    assert "SUM32" in packet.mysummary() and "FLUSH RESYNC" in packet.mysummary()


def test_values() -> None:
    assert Sumwire(op="SUM32", data=(-2).to_bytes(4, signed=True) * 256).values == [-2] * 256


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        (Sumwire(kind="RESULT", op=1, job=7, slot=2, worker=1, round=3), True),
        (Sumwire(kind="STALE", op=1, job=7, slot=2, worker=1, round=9), True),
        (Sumwire(kind="RESULT", op=1, job=7, slot=2, worker=1, round=4), False),
        (Sumwire(kind="RESULT", op=1, job=7, slot=2, worker=0, round=3), False),
        (Sumwire(kind="CONTRIBUTE", op=1, job=7, slot=2, worker=1, round=3), False),
        (Raw(b""), False),
    ],
)
def test_which_packet_answers_which(answer: Packet, right: bool) -> None:
    request = Sumwire(kind="CONTRIBUTE", op=1, job=7, slot=2, worker=1, round=3)
    assert isinstance(answer, Sumwire) is False or answer.answers(request) is right
    if right:
        assert answer.hashret() == request.hashret()


def test_a_packet_with_bytes_left_over_keeps_them() -> None:
    assert bytes(Sumwire(golden.Packet(4, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0).encode() + b"left").payload) == b"left"


def test_a_packet_shorter_than_the_header_is_left_as_it_is() -> None:
    frame = bytes(Ether() / IP(dst="10.0.0.1") / UDP(dport=golden.UDP_PORT) / b"\x24\x00\x01")
    assert bytes(Ether(frame)[UDP].payload) == b"\x24\x00\x01"
