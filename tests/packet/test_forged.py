# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Forged frames change no sum and say nothing to a worker in the switch's name.

A job runs on two switches that see the same frames of its workers. One of them also sees those of an attacker, who
knows the job's slots, rounds and calls. Whatever leaves because of a worker's frame must be the same.

SUMWIRE_FORGED: how many forged frames each attacker sends; `make verify-trust` sends a million.
"""

from __future__ import annotations

import itertools
import os
import random
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pytest
from golden import model
from golden.model import Host, Job, Packet, ones_complement_sum, udp_frame
from helpers.needs import missing
from helpers.packet import rigs
from helpers.packet.layers import encoded
from helpers.packet.play import Clock, Frames, contribution
from helpers.packet.rigs import ProcessRig
from helpers.packet.star import AGGREGATOR, FULL, HOSTS, QUORUM
from sumwire_protocol import constants as p4

FORGED = int(os.environ.get("SUMWIRE_FORGED", "3000"))
PER_FRAME = 40
OPS = (model.THC, model.MAX32)
FIRST_ROUND = 3
NEIGHBOUR = HOSTS[3]

# -- what the attacker sends: ten kinds, with every header field set to something else in turn

_IP_AT, _UDP_AT, _SUMWIRE_AT = 14 * 8, 34 * 8, 42 * 8


@dataclass(frozen=True)
class Field:
    """``at``: its first bit in the frame."""

    name: str
    at: int
    bits: int

    def get(self, frame: bytes | bytearray) -> int:
        first, last, shift = self._place()
        return int.from_bytes(frame[first:last]) >> shift & (1 << self.bits) - 1

    def put(self, frame: bytearray, value: int) -> None:
        first, last, shift = self._place()
        mask = (1 << self.bits) - 1 << shift
        whole = int.from_bytes(frame[first:last]) & ~mask | value << shift & mask
        frame[first:last] = whole.to_bytes(last - first)

    def _place(self) -> tuple[int, int, int]:
        last = (self.at + self.bits + 7) // 8
        return self.at // 8, last, last * 8 - self.at - self.bits


def _row(prefix: str, start: int, fields: tuple[tuple[str, int], ...]) -> tuple[Field, ...]:
    ends = itertools.accumulate((bits for _, bits in fields), initial=start)
    return tuple(Field(f"{prefix} {name}", at, bits) for (name, bits), at in zip(fields, ends, strict=False))


ETHERNET = _row("ethernet", 0, (("dst", 48), ("src", 48), ("type", 16)))
IPV4 = _row(
    "ipv4",
    _IP_AT,
    (
        ("version", 4), ("ihl", 4), ("dscp", 6), ("ecn", 2), ("length", 16), ("id", 16), ("flags", 3), ("offset", 13),
        ("ttl", 8), ("protocol", 8), ("checksum", 16), ("src", 32), ("dst", 32),
    ),
)  # fmt: skip
UDP = _row("udp", _UDP_AT, (("src", 16), ("dst", 16), ("length", 16), ("checksum", 16)))
SUMWIRE = _row("sumwire", _SUMWIRE_AT, p4.SUMWIRE_FIELDS)
FIELDS = (*ETHERNET, *IPV4, *UDP, *SUMWIRE)
# What a program without root's rights can set: the destination, TTL and TOS by socket options, and what it sends.
_UNPRIVILEGED = frozenset({"ipv4 dst", "ipv4 ttl", "ipv4 dscp", "ipv4 ecn", "udp dst"})
PLAIN_FIELDS = (*(field for field in FIELDS if field.name in _UNPRIVILEGED), *SUMWIRE)


@dataclass(frozen=True)
class Target:
    """What the attacker aims at: a job, a worker of it, and the slot, round and op that are under way."""

    job: Job
    worker: int
    slot: int
    round: int
    op: int

    @property
    def host(self) -> Host:
        return self.job.workers[self.worker]


def _contribution(target: Target, draw: random.Random, **fields: int) -> Packet:
    payload = draw.randbytes(model.WORDS_UP[target.op] * model.WORD)
    return contribution(target.job, target.worker, target.slot, target.round, payload, target.op, **fields)


def _bare(kind: int) -> Callable[[Target, random.Random], Packet]:
    return lambda target, draw: _contribution(target, draw)._replace(kind=kind, words=0, payload=b"")


def _result(target: Target, draw: random.Random) -> Packet:
    words = model.WORDS_DOWN[target.op]
    whole = (1 << len(target.job.workers)) - 1
    return _contribution(target, draw, count=len(target.job.workers), contributors=whole)._replace(
        kind=model.RESULT, words=words, payload=draw.randbytes(words * model.WORD)
    )


def _far_round(target: Target, draw: random.Random) -> Packet:
    far = draw.choice((1, 2, 16, 2**16, 2**31 - 1, 2**31, 2**32 - 1))
    return _contribution(target, draw)._replace(round=target.round + far & 0xFFFFFFFF)


# The ten kinds.
KINDS: dict[str, Callable[[Target, random.Random], Packet]] = {
    "contribution": _contribution,
    "flush": lambda target, draw: _contribution(target, draw, flags=model.FLUSH),
    "far round": _far_round,
    "result": _result,
    "stale": _bare(model.STALE),
    "probe": _bare(model.PROBE),
    "hello": lambda target, draw: _bare(model.PROBE)(target, draw)._replace(op=model.NO_OP),
    "inform": _bare(model.INFORM),
    "refused": _bare(model.REFUSED),
    "noise": lambda target, draw: _contribution(target, draw)._replace(
        kind=draw.randrange(16), version=draw.randrange(16), op=draw.randrange(256), payload=draw.randbytes(64)
    ),
}


class Forger:
    """Draws frames. ``fields``: those that the attacker can set."""

    def __init__(self, seed: int, fields: tuple[Field, ...] = FIELDS) -> None:
        self._draw = random.Random(seed)
        self._turns: Iterator[tuple[str, Field]] = itertools.cycle(itertools.product(KINDS, fields))
        self._fields = fields

    def from_neighbour(self, target: Target, neighbour: Host) -> bytes:
        """By root on a host of another job: any header, under any name, to the aggregator or to the worker."""
        halves = (replace(neighbour, ip=AGGREGATOR.ip), replace(target.host, mac=neighbour.mac))
        return self._forged(target, self._draw.choice((neighbour, AGGREGATOR, target.host, *halves)))

    def from_another_user(self, target: Target, host: Host) -> bytes:
        """By a program without rights on a worker's host, from a port that the worker's program does not hold."""
        ports = {0, 9, 1024, self._draw.randrange(1, 1 << 16)} - {host.udp_port}
        return self._forged(target, replace(host, udp_port=self._draw.choice(sorted(ports))))

    def _forged(self, target: Target, source: Host) -> bytes:
        kind, field = next(self._turns)
        packet = KINDS[kind](target, self._draw)
        to = self._draw.choice((AGGREGATOR, target.host))
        frame = bytearray(udp_frame(source, to, packet.encode()))
        if self._draw.random() < 0.9:
            self._change(frame, field)
        return bytes(frame)

    def _change(self, frame: bytearray, field: Field) -> None:
        now, top = field.get(frame), (1 << field.bits) - 1
        values = (0, 1, top, top >> 1, now + 1, now - 1, now ^ 1 << self._draw.randrange(field.bits))
        field.put(frame, self._draw.choice((*values, self._draw.getrandbits(field.bits))) & top)
        if field in IPV4 and field.name != "ipv4 checksum":
            frame[24:26] = bytes(2)
            frame[24:26] = struct.pack("!H", 0xFFFF ^ ones_complement_sum(bytes(frame[14:34])))


def is_of_the_aggregator(frame: bytes) -> bool:
    """Whether a worker's host takes it for the aggregator's: from its address, or ARP that names it."""
    if frame[12:14] == b"\x08\x06":
        return frame[28:32] == AGGREGATOR.ip
    return frame[12:14] == b"\x08\x00" and frame[26:30] == AGGREGATOR.ip


def reaches(frame: bytes, host: Host) -> bool:
    """Whether a frame is for the UDP port of the host's worker."""
    return frame[30:34] == host.ip and frame[36:38] == host.udp_port.to_bytes(2)


# -- two switches


class Twins:
    """The switch that is attacked, and the one that is not."""

    def __init__(self, attacked: ProcessRig, quiet: ProcessRig, clock: Clock) -> None:
        self.attacked, self.quiet, self.clock = attacked, quiet, clock

    def renew(self) -> None:
        for rig in (self.attacked, self.quiet):
            rig.renew()

    def good(self, port: int, frame: bytes) -> Frames:
        """A worker's frame at both."""
        self.clock.now += model.GAP_US
        got, expected = (rig.switch.process(port, frame) for rig in (self.attacked, self.quiet))
        assert got == expected, "a forged frame had an effect on what workers get"
        return got

    def forged(self, port: int, frame: bytes) -> Frames:
        return self.attacked.switch.process(port, frame)


@pytest.fixture(scope="module")
def twins() -> Iterator[Twins]:
    clock = Clock()
    engine = "python" if missing("cc") else "native"
    with ExitStack() as stack:
        yield Twins(*(stack.enter_context(rigs.soft_in_process(engine, clock)) for _ in range(2)), clock)


def workers_frames(job: Job, seed: int) -> Iterator[tuple[int, Target, bytes]]:
    """What the workers of a job send, for ever: round after round, the ops in turn; and who comes next."""
    draw = random.Random(seed)
    round_ = FIRST_ROUND
    while True:
        for slot in range(job.slots):
            op = OPS[(round_ + slot) % len(OPS)]
            for worker, host in enumerate(job.workers):
                payload = draw.randbytes(model.WORDS_UP[op] * model.WORD)
                packet = contribution(job, worker, slot, round_, payload, op)
                yield host.port, Target(job, worker, slot, round_, op), udp_frame(host, AGGREGATOR, encoded(packet))
        round_ += 1


def attack(twins: Twins, job: Job, draw_one: Callable[[Target], tuple[int, bytes, Host]], count: int) -> Counter[str]:
    """Forged frames between those of the workers. Counts sums, forged frames, and those that a worker could believe."""
    counts: Counter[str] = Counter()
    twins.renew()
    for port, target, frame in workers_frames(job, seed=1):
        for _ in range(PER_FRAME):
            at, forged, sender = draw_one(target)
            out = twins.forged(at, forged)
            counts["forged"] += 1
            counts["believed"] += sum(_is_believed(left, out_port, job, sender) for out_port, left in out)
        results = sum(model.decode(left[42:]).kind == model.RESULT for _, left in twins.good(port, frame))
        counts["results"] += results
        if counts["forged"] >= count:
            return counts
    raise AssertionError("workers never stop")


def _is_believed(frame: bytes, port: int, job: Job, sender: Host) -> bool:
    """Whether a worker of the job, other than the attacker itself, may take a frame for one of its switch."""
    victims = [host for host in job.workers if host.port == port]
    told_to_sender = frame[30:34] == sender.ip and not reaches(frame, sender)
    return bool(victims) and is_of_the_aggregator(frame) and not told_to_sender


def test_ten_kinds_and_every_field() -> None:
    assert len(KINDS) == 10
    assert {field.name.split()[1] for field in FIELDS if field.name.startswith("sumwire")} >= {"round", "slot", "flags"}
    frame = bytearray(range(100))
    for field in FIELDS:
        value = (1 << field.bits) - 1 & 0x5A5A5A5A5A5A
        field.put(frame, value)
        assert field.get(frame) == value


def test_from_a_neighbour_s_port(twins: Twins) -> None:
    forger = Forger(1)
    counts = attack(
        twins, QUORUM, lambda target: (NEIGHBOUR.port, forger.from_neighbour(target, NEIGHBOUR), NEIGHBOUR), FORGED
    )
    assert counts["believed"] == 0
    assert counts["results"] > 0


def test_from_a_worker_s_host_without_rights(twins: Twins) -> None:
    forger, host = Forger(2, PLAIN_FIELDS), FULL.workers[0]
    counts = attack(twins, FULL, lambda target: (host.port, forger.from_another_user(target, host), host), FORGED)
    assert counts["believed"] == 0
    assert counts["results"] > 0
