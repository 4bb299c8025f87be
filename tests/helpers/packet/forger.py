# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Forged frames by the hundred thousand: of ten kinds, with every header field set to something else in turn.

Who sends them knows all that is to be known of a job but its token: ports, addresses, slots, rounds, calls.
"""

from __future__ import annotations

import itertools
import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from golden import model
from golden.model import Host, Job, Packet, ones_complement_sum, udp_frame
from helpers.packet.play import contribution
from helpers.packet.star import AGGREGATOR, HOSTS
from sumwire_protocol import constants as p4

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


ETHERNET: Final = _row("ethernet", 0, (("dst", 48), ("src", 48), ("type", 16)))
IPV4: Final = _row(
    "ipv4",
    _IP_AT,
    (
        ("version", 4), ("ihl", 4), ("dscp", 6), ("ecn", 2), ("length", 16), ("id", 16), ("flags", 3), ("offset", 13),
        ("ttl", 8), ("protocol", 8), ("checksum", 16), ("src", 32), ("dst", 32),
    ),
)  # fmt: skip
UDP: Final = _row("udp", _UDP_AT, (("src", 16), ("dst", 16), ("length", 16), ("checksum", 16)))
SUMWIRE: Final = _row("sumwire", _SUMWIRE_AT, p4.SUMWIRE_FIELDS)
FIELDS: Final = (*ETHERNET, *IPV4, *UDP, *SUMWIRE)
# What a program without root's rights can set: the destination, TTL and TOS by socket options, and what it sends.
_UNPRIVILEGED: Final = frozenset({"ipv4 dst", "ipv4 ttl", "ipv4 dscp", "ipv4 ecn", "udp dst"})
PLAIN_FIELDS: Final = (*(field for field in FIELDS if field.name in _UNPRIVILEGED), *SUMWIRE)


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
KINDS: Final[dict[str, Callable[[Target, random.Random], Packet]]] = {
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


NEIGHBOUR: Final = HOSTS[3]
