# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a Sumwire switch must do, in plain Python and numpy: the source of every expectation in the packet tests.

Written from docs/wire-format.md and docs/protocol.md alone. It imports nothing of the project and types the
numbers of the wire format once more, on purpose: a wrong number in the project must not reach its own test.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

UDP_PORT = 21335
VALUES = 1024
WORD = 128
CONTRIBUTE, RESULT, STALE = 1, 2, 3
THC, MAX32 = 1, 2
FLUSH, PARTIAL = 0x01, 0x02
WORDS_UP = {THC: 4, MAX32: 1}

_SUMWIRE = struct.Struct("!BBHHBBIIBBHI")


class Packet(NamedTuple):
    """The Sumwire header's fields, then the payload."""

    kind: int
    op: int
    job: int
    slot: int
    worker: int
    count: int
    round: int
    contributors: int
    flags: int
    words: int
    bucket: int
    chunk: int
    payload: bytes = b""
    version: int = 1

    def encode(self) -> bytes:
        head = _SUMWIRE.pack(
            self.version << 4 | self.kind, self.op, self.job, self.slot, self.worker, self.count,
            self.round, self.contributors, self.flags, self.words, self.bucket, self.chunk,
        )  # fmt: skip
        return head + self.payload


def decode(data: bytes) -> Packet:
    first, *rest = _SUMWIRE.unpack_from(data)
    return Packet(first & 15, *rest, payload=data[_SUMWIRE.size :], version=first >> 4)


def ones_complement_sum(data: bytes) -> int:
    """RFC 1071."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


@dataclass(frozen=True)
class Host:
    port: int
    mac: bytes
    ip: bytes
    udp_port: int = UDP_PORT


def udp_frame(
    src: Host, dst: Host, payload: bytes, *, ttl: int = 64, dscp_ecn: int = 0, ident: int = 0, udp_checksum: int = 0
) -> bytes:
    """Ethernet, IPv4 with a right checksum, UDP with the checksum given."""
    head = struct.pack("!BBHHHBBH4s4s", 0x45, dscp_ecn, 28 + len(payload), ident, 0, ttl, 17, 0, src.ip, dst.ip)
    checksum = 0xFFFF ^ ones_complement_sum(head)
    head = head[:10] + struct.pack("!H", checksum) + head[12:]
    udp = struct.pack("!HHHH", src.udp_port, dst.udp_port, 8 + len(payload), udp_checksum)
    return dst.mac + src.mac + b"\x08\x00" + head + udp + payload


# -- payloads ------------------------------------------------------------------------------------------


def to_planes(values: NDArray[np.integer], planes: int) -> bytes:
    """1024 integers as planes, the most significant first; value i is bit i from the left."""
    bits = [(np.asarray(values) >> k) & 1 for k in reversed(range(planes))]
    return b"".join(np.packbits(bit.astype(np.uint8)).tobytes() for bit in bits)


def from_planes(payload: bytes) -> NDArray[np.int64]:
    planes = len(payload) // WORD
    bits = np.unpackbits(np.frombuffer(payload, np.uint8).reshape(planes, WORD), axis=1).astype(np.int64)
    return sum((bits[p] << (planes - 1 - p) for p in range(planes)), np.zeros(VALUES, np.int64))


@dataclass(frozen=True)
class Job:
    number: int
    workers: tuple[Host, ...]
    slot_base: int
    slots: int
    quorum: int
    table: tuple[int, ...] = ()
    ops: frozenset[int] = frozenset({THC, MAX32})

    def fold(self, op: int, held: NDArray[np.int64] | None, payload: bytes) -> NDArray[np.int64]:
        """The slot's new content: sums for THC, lane maxima for MAX32."""
        if op == THC:
            looked_up = np.asarray(self.table, np.int64)[from_planes(payload)]
            return looked_up if held is None else held + looked_up
        lanes = np.frombuffer(payload, ">u4").astype(np.int64)
        return lanes if held is None else np.maximum(held, lanes)

    @staticmethod
    def payload(op: int, held: NDArray[np.int64]) -> bytes:
        return to_planes(held, 8) if op == THC else held.astype(">u4").tobytes()


@dataclass
class Slot:
    round: int
    op: int
    content: NDArray[np.int64]
    contributors: int = 0
    count: int = 0
    closed: bool = False
    flags: int = 0


@dataclass
class GoldenSwitch:
    """One switch. `receive` gives the frames that leave, as (port, frame), in no particular order."""

    aggregator: Host
    hosts: tuple[Host, ...]
    jobs: tuple[Job, ...]
    verdicts: Counter[str] = field(default_factory=Counter)
    rejects: Counter[str] = field(default_factory=Counter)
    slots: dict[tuple[int, int], Slot] = field(default_factory=dict)

    def receive(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        ethertype = frame[12:14]
        if ethertype == b"\x08\x06" and len(frame) >= 42:
            return self._arp(port, frame)
        if ethertype == b"\x08\x00" and len(frame) >= 34:
            if frame[30:34] == self.aggregator.ip:
                return self._sumwire(port, frame)
            return self._forward(frame[30:34], frame)
        return []

    def _forward(self, ip: bytes, frame: bytes) -> list[tuple[int, bytes]]:
        return [(host.port, frame) for host in self.hosts if host.ip == ip]

    def _arp(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        target = frame[38:42]
        if target != self.aggregator.ip:
            return self._forward(target, frame)
        if frame[20:22] != b"\x00\x01":
            return []
        asker = frame[22:32]
        mac = self.aggregator.mac
        reply = asker[:6] + mac + frame[12:20] + b"\x00\x02" + mac + self.aggregator.ip + asker
        return [(port, reply + frame[42:])]

    def _sumwire(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        reason = malformed(frame)
        packet = decode(frame[42:]) if reason is None else None
        if packet is not None:
            reason = self._refusal(port, frame, packet)
        if packet is None or reason is not None:
            self.verdicts["REJECT"] += 1
            self.rejects[str(reason)] += 1
            return []
        job = next(job for job in self.jobs if job.number == packet.job)
        verdict = self._verdict(job, packet)
        self.verdicts[verdict] += 1
        return self._reply(job, port, frame, packet, verdict)

    def _refusal(self, port: int, frame: bytes, packet: Packet) -> str | None:
        job = next((job for job in self.jobs if job.number == packet.job), None)
        if ones_complement_sum(frame[14:34]) != 0xFFFF:
            return "CHECKSUM"
        if job is None:
            return "JOB"
        if packet.worker >= len(job.workers):
            return "WORKER"
        worker = job.workers[packet.worker]
        slot = self.slots.get((job.number, packet.slot))
        checks = (
            (port != worker.port, "PORT"),
            (frame[26:30] != worker.ip, "ADDRESS"),
            (packet.slot >= job.slots, "SLOT"),
            (packet.op not in job.ops, "JOB_OP"),
            (packet.count != 1, "COUNT"),
            (slot is not None and slot.round == packet.round and slot.op != packet.op, "SLOT_OP"),
        )
        return next((reason for failed, reason in checks if failed), None)

    def _verdict(self, job: Job, packet: Packet) -> str:
        key = (job.number, packet.slot)
        slot = self.slots.get(key)
        ahead = (packet.round - slot.round) % 2**32 if slot else 0
        if slot is None or 0 < ahead < 2**31:
            slot = Slot(packet.round, packet.op, job.fold(packet.op, None, packet.payload))
            self.slots[key] = slot
            return self._contributed(job, slot, packet, "FIRST")
        if ahead:
            return "STALE"
        if slot.closed:
            return "DUPLICATE"
        if slot.contributors >> packet.worker & 1:
            if not packet.flags & FLUSH:
                return "REPEAT"
            slot.closed, slot.flags = True, PARTIAL
            return "FLUSH"
        slot.content = job.fold(packet.op, slot.content, packet.payload)
        return self._contributed(job, slot, packet, "ADD")

    @staticmethod
    def _contributed(job: Job, slot: Slot, packet: Packet, verdict: str) -> str:
        slot.contributors |= 1 << packet.worker
        slot.count += packet.count
        if slot.contributors.bit_count() < job.quorum:
            return verdict
        slot.closed = True
        return "LAST"

    def _reply(self, job: Job, port: int, frame: bytes, packet: Packet, verdict: str) -> list[tuple[int, bytes]]:
        slot = self.slots[job.number, packet.slot]
        if verdict == "STALE":
            stale = packet._replace(
                kind=STALE, round=slot.round, count=0, contributors=0, flags=0, words=0, payload=b""
            )
            return [self._to(job, packet.worker, stale, frame)]
        if verdict not in ("LAST", "FLUSH", "DUPLICATE"):
            return []
        payload = job.payload(slot.op, slot.content)
        result = packet._replace(
            kind=RESULT, count=slot.count, contributors=slot.contributors, flags=slot.flags,
            words=len(payload) // WORD, payload=payload,
        )  # fmt: skip
        if verdict == "DUPLICATE":
            return [self._to(job, packet.worker, result, frame)]
        return [self._to(job, worker, result, frame) for worker in range(len(job.workers))]

    def _to(self, job: Job, worker: int, packet: Packet, request: bytes) -> tuple[int, bytes]:
        host = job.workers[worker]
        source = replace(self.aggregator, udp_port=UDP_PORT)
        body = packet._replace(worker=worker).encode()
        return host.port, udp_frame(source, host, body, dscp_ecn=request[15])


def malformed(frame: bytes) -> str | None:
    """Why a frame to the aggregator is no contribution, by its own bytes alone."""
    fragment = struct.unpack_from("!H", frame, 20)[0] & 0x3FFF
    if frame[14] != 0x45 or frame[23] != 17 or fragment or len(frame) < 42:
        return "NOT_SUMWIRE"
    if struct.unpack_from("!H", frame, 36)[0] != UDP_PORT:
        return "NOT_SUMWIRE"
    total, udp = struct.unpack_from("!H", frame, 16)[0], struct.unpack_from("!H", frame, 38)[0]
    if len(frame) != 14 + total or total != 20 + udp or udp < 32:
        return "LENGTH"
    packet = decode(frame[42:])
    if packet.version != 1:
        return "VERSION"
    if packet.kind != CONTRIBUTE:
        return "KIND"
    if packet.op not in WORDS_UP:
        return "OP"
    if packet.words != WORDS_UP[packet.op]:
        return "WORDS"
    return "LENGTH" if len(packet.payload) != packet.words * WORD else None
