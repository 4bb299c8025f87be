# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a switch refuses, and under which reason it counts it. Refused packets are built with scapy."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from golden import model
from golden.model import Packet
from helpers.packet.layers import encoded
from helpers.packet.play import Game, ProgramRig, Rig, contribution, random_payload
from helpers.packet.star import AGGREGATOR, FULL, HOSTS, QUORUM, SINGLE, WIDE
from scapy.layers.inet import IP, TCP, UDP, IPOption_NOP
from scapy.layers.l2 import Ether
from scapy.packet import Packet as Frame
from scapy.packet import Raw

GOOD_BYTES = model.BARE - 42 + 4 * model.WORD


def frame_of(payload: bytes, *, sender: int = 0) -> Frame:
    """Ethernet / IPv4 / UDP around a payload, lengths and checksums by scapy."""
    host = HOSTS[sender]
    ether = Ether(src=host.mac.hex(":"), dst=AGGREGATOR.mac.hex(":"))
    ip = IP(src=".".join(map(str, host.ip)), dst=".".join(map(str, AGGREGATOR.ip)))
    return ether / ip / UDP(sport=model.UDP_PORT, dport=model.UDP_PORT, chksum=0) / Raw(payload)


def good(game: Game, **fields: Any) -> Packet:
    return contribution(FULL, 0, 0, 0, random_payload(game.rng, model.THC))._replace(**fields)


def changed(layer: type[Frame], **fields: object) -> Callable[[Game], bytes]:
    def build(game: Game) -> bytes:
        frame = frame_of(encoded(good(game)))
        for name, value in fields.items():
            setattr(frame[layer], name, value)
        return bytes(frame)

    return build


def header(**fields: Any) -> Callable[[Game], bytes]:
    return lambda game: bytes(frame_of(encoded(good(game, **fields))))


def probe(**fields: Any) -> Callable[[Game], bytes]:
    """A HELLO, if no op is given."""
    return header(**{"kind": model.PROBE, "op": model.NO_OP, "words": 0, "payload": b"", **fields})


def cut(length: int) -> Callable[[Game], bytes]:
    """A frame that lost its tail: the lengths in its headers say more."""
    return lambda game: bytes(frame_of(encoded(good(game))))[:length]


def payload_of(length: int) -> Callable[[Game], bytes]:
    """Headers that agree with each other, around a payload of another length."""
    return lambda game: bytes(frame_of((encoded(good(game)) + bytes(600))[:length]))


CASES: list[tuple[str, str, Callable[[Game], bytes]]] = [
    ("version 0", "VERSION", header(version=0)),
    ("version 1", "VERSION", header(version=1)),
    ("a result with a contribution's words", "WORDS", header(kind=model.RESULT)),
    ("a probe with a payload", "WORDS", header(kind=model.PROBE)),
    ("an inform", "KIND", header(kind=model.INFORM)),
    ("kind 15", "KIND", header(kind=15)),
    ("op 0", "OP", header(op=0)),
    ("the first code without an op", "OP", header(op=max(model.OPS) + 1)),
    ("op 255", "OP", header(op=255)),
    ("words 3", "WORDS", header(words=3)),
    ("words 5", "WORDS", header(words=5)),
    ("words 0", "WORDS", header(words=0)),
    ("MAX32 with four words", "WORDS", header(op=model.MAX32)),
    ("unknown job", "JOB", header(job=99)),
    ("worker = n", "WORKER", header(worker=4)),
    ("worker 255", "WORKER", header(worker=255)),
    ("another worker's number", "PORT", header(worker=1)),
    ("another worker's address", "ADDRESS", changed(IP, src="10.0.0.2")),
    ("an address of nobody", "ADDRESS", changed(IP, src="192.0.2.1")),
    ("another worker's MAC", "ADDRESS", changed(Ether, src="00:00:00:00:00:02")),
    ("another program's UDP port", "UDP_PORT", changed(UDP, sport=40000)),
    *((f"flag {flag:#x} from a host", "FLAGS", header(flags=flag)) for flag in (0x02, 0x10, 0x40, 0x80, 0xFF)),
    ("slot = slots", "SLOT", header(slot=8)),
    ("slot 65535", "SLOT", header(slot=65535)),
    ("count 0", "COUNT", header(count=0)),
    ("count 2 from a host", "COUNT", header(count=2)),
    ("wrong IPv4 checksum", "CHECKSUM", changed(IP, chksum=0x1234)),
    ("UDP to another port", "NOT_SUMWIRE", changed(UDP, dport=21336)),
    ("another version of IP", "NOT_SUMWIRE", changed(IP, version=5)),
    ("a first fragment", "NOT_SUMWIRE", changed(IP, flags=1)),
    ("a later fragment", "NOT_SUMWIRE", changed(IP, frag=8)),
    ("IPv4 options", "NOT_SUMWIRE", changed(IP, options=[IPOption_NOP()] * 4)),
    ("ICMP's protocol number", "NOT_SUMWIRE", changed(IP, proto=1)),
    ("a byte cut off", "LENGTH", cut(42 + GOOD_BYTES - 1)),
    ("a word cut off", "LENGTH", cut(42 + GOOD_BYTES - 128)),
    ("cut in the Sumwire header", "LENGTH", cut(60)),
    ("cut after UDP", "LENGTH", cut(42)),
    ("cut in UDP", "NOT_SUMWIRE", cut(40)),
    ("cut after IPv4", "NOT_SUMWIRE", cut(34)),
    ("no payload at all", "LENGTH", payload_of(0)),
    ("a payload of 23 bytes", "LENGTH", payload_of(23)),
    ("the header alone", "LENGTH", payload_of(model.BARE - 42)),
    ("a word too few", "LENGTH", payload_of(GOOD_BYTES - 128)),
    ("a byte too few", "LENGTH", payload_of(GOOD_BYTES - 1)),
    ("a byte too many", "LENGTH", payload_of(GOOD_BYTES + 1)),
    ("a word too many", "LENGTH", payload_of(GOOD_BYTES + 128)),
    *((f"a probe of op {op} with {name}", reason, probe(op=op, **fields)) for op in (model.THC, model.NO_OP)
      for name, reason, fields in (
          ("version 1", "VERSION", {"version": 1}), ("an unknown job", "JOB", {"job": 99}),
          ("slot 8", "SLOT", {"slot": 8}), ("worker 9", "WORKER", {"worker": 9}),
          ("another worker's number", "PORT", {"worker": 2}), ("count 0", "COUNT", {"count": 0}),
          ("a byte behind it", "LENGTH", {"payload": b"x"}))),
    *((f"kind {kind} without an op", "OP", probe(kind=kind)) for kind in (model.CONTRIBUTE, model.RESULT, model.STALE)),
    ("a greeting with a word", "OP", probe(words=1)),
    ("bytes after the packet", "LENGTH", lambda game: bytes(frame_of(encoded(good(game)))) + b"\0"),
    ("UDP length 8 too long", "LENGTH", changed(UDP, len=GOOD_BYTES + 16)),
    ("UDP length 0", "LENGTH", changed(UDP, len=0)),
    ("IPv4 length too short", "LENGTH", changed(IP, len=100)),
    ("IPv4 length 65535", "LENGTH", changed(IP, len=65535)),
]  # fmt: skip


@pytest.mark.parametrize(("what", "reason", "build"), CASES, ids=[case[0] for case in CASES])
def test_refused_and_counted(game: Game, what: str, reason: str, build: Callable[[Game], bytes]) -> None:
    out = game.frame(HOSTS[0].port, build(game))
    assert {model.decode(frame[42:]).count for _, frame in out} <= {model.REASONS[reason]}, what
    assert game.golden.rejects == {reason: 1}
    # It left no trace: the slot is as new for the round that follows.
    for worker in range(4):
        game.contribute(FULL, worker)


def test_the_good_packet_the_cases_are_made_from_is_admitted(game: Game) -> None:
    game.frame(HOSTS[0].port, bytes(frame_of(encoded(good(game)))))
    assert game.golden.verdicts == {"FIRST": 1}


def test_right_packet_at_the_wrong_port(game: Game) -> None:
    game.frame(HOSTS[1].port, bytes(frame_of(encoded(good(game)))))
    assert game.golden.rejects == {"PORT": 1}


def test_slot_of_the_neighbouring_job_is_out_of_reach(game: Game) -> None:
    game.contribute(WIDE, 0, 0)
    game.contribute(QUORUM, 0, 3)  # base 8 + 3 is the first slot of WIDE
    game.contribute(WIDE, 1, 0)
    assert game.golden.rejects == {"SLOT": 1}


@pytest.mark.parametrize("base", [model.SWITCH_SLOTS - 1, 1 << 16, 2**32 - 1])
def test_a_row_that_leads_out_of_the_registers(rig: Rig, base: int) -> None:
    """No controller writes it. Without a check the last base would lead to slot 0, of another job."""
    if not isinstance(rig, ProgramRig):
        pytest.skip("an aggregator has no rows")
    game = Game(rig)
    rig.move(SINGLE.number, base)
    single = next(replace(job, slot_base=base) for job in game.golden.jobs if job.number == SINGLE.number)
    game.golden.jobs = (FULL, single)
    game.contribute(single, 0, slot=1)
    game.contribute(single, 0, slot=0)
    inside = int(base < model.SWITCH_SLOTS)
    assert (game.golden.rejects["SLOT"], game.golden.verdicts["LAST"]) == (2 - inside, inside)
    for worker in range(4):
        game.contribute(FULL, worker)
    game.check_counters()


def test_random_bytes_to_the_aggregator(game: Game) -> None:
    """Any bytes behind valid lengths, and any bytes at all: the model's reason, never a crash."""
    for step in range(200):
        length = int(game.rng.integers(0, 700))
        junk = game.rng.integers(0, 256, length, dtype=np.uint8).tobytes()
        frame = bytearray(bytes(frame_of(junk)))
        if step % 2 and len(junk) >= model.BARE - 42:  # half of them get past the version
            frame[42] = 0x11
            frame[43:46] = struct.pack("!BH", 1 + step % 4 // 2, 1)
        if step % 5 == 0:
            frame[16 + int(game.rng.integers(0, 8))] ^= 1 << int(game.rng.integers(0, 8))
        game.frame(HOSTS[0].port, bytes(frame))


def test_tcp_to_the_aggregator(game: Game) -> None:
    frame = frame_of(b"")
    frame = frame[Ether].__class__(src=frame.src, dst=frame.dst) / IP(src=frame[IP].src, dst=frame[IP].dst) / TCP()
    game.frame(HOSTS[0].port, bytes(frame))
    assert game.golden.rejects == {"NOT_SUMWIRE": 1}
