# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What may happen to a packet besides its sum: virtual queues and loss on purpose, as docs/protocol.md has them."""

from __future__ import annotations

from dataclasses import dataclass, field

from golden.packets import (
    CONTRIBUTE,
    THC,
    TRIMMED,
    WORD,
    WORDS_TRIMMED,
    WORDS_UP,
    Packet,
    decode,
    malformed,
    ones_complement_sum,
)

PASS, MARK, DROP, TRIM = range(4)
TRIM_CONTRIBUTIONS, DROP_CONTRIBUTIONS, CUT_RESULTS = 1, 2, 4


def mix32(x: int) -> int:
    """The finalizer of MurmurHash3."""
    x = (x ^ x >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    x = (x ^ x >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return x ^ x >> 16


def salted(slot: int, round_: int, worker: int = 0) -> int:
    return (slot * 0x9E3779B1 ^ round_ * 0x85EBCA77 ^ worker * 0xC2B2AE3D) & 0xFFFFFFFF


# Of a job with a limit: what it may send at once.
BURST_BYTES = 131_072


@dataclass
class Budget:
    """Of a job's workers at one switch. ``rate``: bytes in 1024 us. ``used``: in 1/1024 bytes, at ``seen`` us."""

    rate: int
    used: int = 0
    seen: int = 0

    def takes(self, frame: bytes, now: int) -> bool:
        """Whether there is room for the frame, which then takes it."""
        self.used = max(0, self.used - min(now - self.seen, 1 << 30) * self.rate)
        self.seen = now
        room = self.used >> 10 < BURST_BYTES
        self.used += len(frame) << 10 if room else 0
        return room


@dataclass(frozen=True)
class Degrade:
    """Loss on purpose: ``share`` of 65536."""

    seed: int
    share: int
    mode: int

    def hits(self, packet: Packet) -> bool:
        worker = 0 if self.mode == CUT_RESULTS else packet.worker
        return mix32(self.seed ^ salted(packet.slot, packet.round, worker)) & 0xFFFF < self.share


@dataclass
class Queue:
    """A port's virtual queues, of tagged packets and of others. ``rate`` is bytes in 1024 us, thresholds are bytes,
    ``drop`` is by class."""

    rate: int
    mark: int
    drop: tuple[int, int, int, int]
    drop_all: int
    trims: bool
    # Of others and of tagged packets: 1/1024 bytes, and us.
    backlog: list[int] = field(default_factory=lambda: [0, 0])
    seen: list[int] = field(default_factory=lambda: [0, 0])

    def decide(self, frame: bytes, now: int) -> tuple[int, bytes]:
        """What happens to the frame, and the frame afterwards."""
        which = is_tagged(frame)
        self.backlog[which] = max(0, self.backlog[which] - (now - self.seen[which]) * self.rate)
        self.seen[which] = now
        decision = self._decision(frame, self.backlog[which] // 1024)
        if decision == DROP:
            return decision, b""
        if decision == MARK:
            frame = with_ipv4(frame, tos=frame[15] | 3)
        if decision == TRIM:
            frame = trimmed(frame)
        self.backlog[which] += 1024 * len(frame)
        return decision, frame

    def _decision(self, frame: bytes, length: int) -> int:
        if length > self.drop_all:
            return DROP
        if frame[15] & 3:
            return MARK if length > self.mark else PASS
        if length <= self.drop[drop_class(frame)]:
            return PASS
        return TRIM if self.trims and is_whole_contribution(frame) else DROP


def drop_class(frame: bytes) -> int:
    return frame[15] >> 3 & 3


def is_tagged(frame: bytes) -> bool:
    """Whether the frame has a priority."""
    return frame[15] >> 5 > 0


def is_whole_contribution(frame: bytes) -> bool:
    if malformed(frame) is not None:
        return False
    packet = decode(frame[42:])
    # Who checks an authentication tag would refuse what is left.
    return (packet.kind, packet.op, packet.words, packet.tag) == (CONTRIBUTE, THC, WORDS_UP[THC], b"")


def with_ipv4(frame: bytes, *, tos: int, total: int | None = None) -> bytes:
    """The frame with other IPv4 fields, and the header's checksum made right."""
    end = 14 + 4 * (frame[14] & 15)
    total = int.from_bytes(frame[16:18]) if total is None else total
    head = bytearray(frame[14:end])
    head[1], head[2:4], head[10:12] = tos, total.to_bytes(2), bytes(2)
    head[10:12] = (0xFFFF ^ ones_complement_sum(bytes(head))).to_bytes(2)
    return frame[:14] + bytes(head) + frame[end:]


def trimmed(frame: bytes) -> bytes:
    """A whole THC contribution's frame without its two low planes."""
    packet = decode(frame[42:])
    body = packet._replace(words=WORDS_TRIMMED, flags=packet.flags | TRIMMED, payload=packet.payload[: 2 * WORD])
    data = body.encode()
    udp = frame[34:38] + (8 + len(data)).to_bytes(2) + bytes(2)
    return with_ipv4(frame[:34] + udp + data, tos=frame[15], total=28 + len(data))
