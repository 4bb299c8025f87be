# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""REFUSED: who is told why, how often, and who is told nothing."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from golden import model
from golden.model import Host, Packet, udp_frame
from helpers.packet.layers import encoded
from helpers.packet.play import Frames, Game, contribution, random_payload
from helpers.packet.star import AGGREGATOR, EVERY, FULL, HOSTS, LEAF, LOWER, MIDDLE, NORMS, PARENT, ROOT

CHANGES = pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"version": 1}, "VERSION"),
        ({"op": 77}, "OP"),
        ({"op": 0}, "OP"),
        ({"words": 3}, "WORDS"),
        ({"words": 8}, "LENGTH"),
        ({"job": 99}, "JOB"),
        ({"worker": 4}, "WORKER"),
        ({"worker": 1}, "PORT"),
        ({"slot": 8}, "SLOT"),
        ({"job": NORMS.number}, "JOB_OP"),
        ({"count": 2}, "COUNT"),
        ({"flags": model.CE}, "FLAGS"),
        ({}, "UDP_PORT"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
HEADER = model.BARE


def good(game: Game, **fields: int) -> Packet:
    payload = random_payload(game.rng, model.THC)
    packet = contribution(FULL, 0, 3, 5, payload, flags=model.RESYNC, contributors=9, cut=3)
    return packet._replace(**fields)


def ask(game: Game, packet: Packet, sender: Host = HOSTS[0], tos: int = 0xB9, udp_port: int = 40_000) -> Frames:
    """As urgent as class 5, droppable and with ECN = 1."""
    frame = udp_frame(Host(sender.port, sender.mac, sender.ip, udp_port), AGGREGATOR, encoded(packet), dscp_ecn=tos)
    return game.frame(sender.port, frame)


@CHANGES
def test_a_known_sender_is_told_why(game: Game, fields: dict[str, int], reason: str) -> None:
    """Typed out, not asked of the model: the packet's own header, with the reason, back to where it came from."""
    packet = good(game, **fields)
    # Reasons behind UDP_PORT are those of the worker's own port.
    udp_port = HOSTS[0].udp_port if reason in ("SLOT", "JOB_OP", "COUNT", "FLAGS") else 40_000
    out = wait_for(game, lambda: ask(game, packet, udp_port=udp_port))
    ((port, frame),) = out
    assert (port, len(frame)) == (HOSTS[0].port, HEADER)
    assert (frame[:6], frame[6:12]) == (HOSTS[0].mac, AGGREGATOR.mac)
    assert (frame[26:30], frame[30:34]) == (AGGREGATOR.ip, HOSTS[0].ip)
    assert (frame[34:36], frame[36:38]) == (model.UDP_PORT.to_bytes(2), udp_port.to_bytes(2))
    assert frame[15] == 0xA2  # the priority of the question, protected
    assert model.decode(frame[42:]) == packet._replace(
        version=model.VERSION, kind=6, count=model.REASONS[reason], contributors=0, flags=0, words=0, cut=0, payload=b""
    )
    assert set(game.golden.rejects) == {reason}


def wait_for(game: Game, ask_again: Callable[[], Frames]) -> Frames:
    """The first answer: by the real clock another test's refusal may have been a moment ago."""
    while not (out := ask_again()):
        assert game.rig.clock is None
    return out


def test_of_another_call_and_of_a_probe(game: Game) -> None:
    game.contribute(EVERY, 0)
    probe = contribution(EVERY, 0, 0, 0, b"", bucket=8)._replace(kind=model.PROBE)
    ((_, frame),) = wait_for(game, lambda: game.send(EVERY, probe))
    packet = model.decode(frame[42:])
    assert (packet.kind, packet.count, packet.bucket) == (model.REFUSED, model.REASONS["CALL"], 8)


def test_a_lower_switch_is_told(game: Game) -> None:
    packet = contribution(ROOT, 2, 0, 0, random_payload(game.rng, model.MAX32), model.MAX32, count=5)
    ((port, frame),) = wait_for(game, lambda: game.send(ROOT, packet))
    assert (port, frame[30:34]) == (LOWER[2].port, LOWER[2].ip)
    assert model.decode(frame[42:]).count == model.REASONS["COUNT"]


@pytest.mark.parametrize("kind", [k for k in range(16) if k not in (model.CONTRIBUTE, model.PROBE)])
@pytest.mark.parametrize("job", [FULL, LEAF], ids=["root", "leaf"])
def test_nothing_else_is_answered(game: Game, kind: int, job: model.Job) -> None:
    """Or two switches could answer each other for ever."""
    for words in (0, 8):
        packet = contribution(job, 0, 0, 0, random_payload(game.rng, model.THC, 8)[: words * model.WORD])
        assert game.send(job, packet._replace(kind=kind)) == []
    assert sum(game.golden.rejects.values()) == 2


def test_the_switch_above_is_not_answered(game: Game) -> None:
    """Even where it is a worker of another job: LEAF's parent has MIDDLE's, and EVERY's worker 3 is behind its port."""
    for kind in (model.RESULT, model.STALE, model.REFUSED, model.INFORM):
        packet = contribution(MIDDLE, 0, 99, 0, b"")._replace(kind=kind)
        assert game.frame(PARENT.port, udp_frame(PARENT, AGGREGATOR, encoded(packet))) == []
        assert game.frame(4, udp_frame(HOSTS[3], AGGREGATOR, encoded(packet))) == []


@pytest.mark.parametrize(
    ("port", "ip"), [(1, bytes([192, 0, 2, 1])), (1, HOSTS[1].ip), (2, HOSTS[0].ip), (4, LOWER[0].ip), (1, PARENT.ip)]
)
def test_strangers_are_told_nothing(game: Game, port: int, ip: bytes) -> None:
    """Neither an address of nobody's, nor a worker's at another port than its own."""
    packet = good(game, job=99)
    assert game.frame(port, udp_frame(Host(port, HOSTS[0].mac, ip), AGGREGATOR, encoded(packet))) == []
    assert game.golden.rejects == {"JOB": 1}


def test_broken_frames_are_not_answered(game: Game) -> None:
    """Lengths that do not agree, no room for the header, a wrong IPv4 checksum, something else than Sumwire."""
    whole = udp_frame(HOSTS[0], AGGREGATOR, encoded(good(game, job=99)))
    checksum = whole[:24] + bytes([whole[24] ^ 1]) + whole[25:]
    version = checksum[:42] + bytes([0x11]) + checksum[43:]
    other_port = whole[:36] + (21336).to_bytes(2) + whole[38:]
    short = udp_frame(HOSTS[0], AGGREGATOR, whole[42 : HEADER - 1])
    for frame in (whole[:-1], whole + b"\0", checksum, version, other_port, short):
        assert game.frame(1, frame) == []
    assert game.golden.rejects == {"LENGTH": 3, "CHECKSUM": 1, "VERSION": 1, "NOT_SUMWIRE": 1}


@pytest.mark.parametrize("length", [32, 33, 39, 32 + model.WORD, 1000, 1400])
def test_never_longer_than_the_question(game: Game, length: int) -> None:
    """Whatever follows the header, parsed or not, does not come back."""
    body = encoded(good(game, words=0, kind=model.PROBE, version=9))[:32] + game.rng.bytes(length - 32)
    frame = udp_frame(HOSTS[0], AGGREGATOR, body)
    ((_, answer),) = wait_for(game, lambda: game.frame(1, frame))
    assert len(answer) == HEADER <= len(frame)


def test_a_refused_packet_between_hosts_is_ordinary_traffic(game: Game) -> None:
    frame = udp_frame(HOSTS[0], HOSTS[1], encoded(good(game, job=99)) + game.rng.bytes(300))
    assert game.frame(1, frame) == [(2, frame)]


def test_a_port_is_told_once_in_ten_milliseconds(game: Game) -> None:
    """To the microsecond, by a clock that stands still. What is not answered does not count."""
    if game.rig.clock is None:
        pytest.skip(f"{game.rig.name}: its clock is not the test's")

    def told(sender: Host) -> bool:
        return bool(ask(game, good(game, job=99), sender))

    assert told(HOSTS[0])
    assert not told(HOSTS[0])
    assert told(HOSTS[1])
    game.later(9_999)
    assert not told(HOSTS[0])
    assert not told(LOWER[0])  # behind the same port
    game.later(1)
    assert told(LOWER[0])
    assert not told(HOSTS[0])


def test_a_burst_gets_little_back(game: Game) -> None:
    """At most as many answers as the time that passed has room for."""
    packet = good(game, job=99)
    began = time.monotonic()
    answers = sum(len(ask(game, packet)) for _ in range(100))
    passed_us = 0 if game.rig.clock else (time.monotonic() - began) * 1e6
    assert answers <= 1 + passed_us / model.GAP_US
