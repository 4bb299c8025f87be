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
CONTRIBUTE, RESULT, STALE, PROBE, INFORM = 1, 2, 3, 4, 5
THC, MAX32, SUM32, SIGN, VOTE = 1, 2, 3, 4, 5
FLUSH, PARTIAL, OVERFLOW = 0x01, 0x02, 0x04
# Words from a host, from a lower switch, and of a result.
WORDS_UP = {THC: 4, MAX32: 1, SUM32: 8, SIGN: 8, VOTE: 2}
WORDS_PARTIAL = {THC: 8, MAX32: 1, SUM32: 8, SIGN: 8, VOTE: 6}
WORDS_DOWN = {THC: 8, MAX32: 1, SUM32: 8, SIGN: 8, VOTE: 2}

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
    cut: int = 0

    def encode(self) -> bytes:
        head = _SUMWIRE.pack(
            self.version << 4 | self.kind, self.op, self.job, self.slot, self.worker, self.count,
            self.round, self.contributors, self.flags, self.words, self.bucket, self.cut << 24 | self.chunk,
        )  # fmt: skip
        return head + self.payload


def decode(data: bytes) -> Packet:
    first, *rest, last = _SUMWIRE.unpack_from(data)
    payload, chunk = data[_SUMWIRE.size :], last & 0xFFFFFF
    return Packet(first & 15, *rest, chunk, payload=payload, version=first >> 4, cut=last >> 24)


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
    # A lower switch is a worker that stands for several and sends partial results.
    weight: int = 1
    is_switch: bool = False


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


class Signs(NamedTuple):
    """What merged signs may be: where `low` has a 1 all contributors have, where `high` has a 0 none has."""

    low: NDArray[np.uint8]
    high: NDArray[np.uint8]

    def allows(self, bits: NDArray[np.uint8]) -> bool:
        return bool(np.all(bits & self.low == self.low) and np.all(bits & ~self.high == 0))


Content = NDArray[np.int64] | Signs


@dataclass(frozen=True)
class Parent:
    """The switch above a job's slots, and this switch's number there."""

    switch: Host
    worker: int


@dataclass(frozen=True)
class Job:
    number: int
    workers: tuple[Host, ...]
    slot_base: int
    slots: int
    quorum: int
    table: tuple[int, ...] = ()
    ops: frozenset[int] = frozenset({THC, MAX32})
    parent: Parent | None = None

    def read(self, op: int, payload: bytes, partial: bool) -> Content:
        """A contribution's content: sums for THC, lanes, sign bits, counts of plus votes."""
        if op == THC:
            values = from_planes(payload)
            return values if partial else np.asarray(self.table, np.int64)[values]
        if op == SIGN:
            bits = np.frombuffer(payload, np.uint8)
            return Signs(bits, bits)
        if op == VOTE:
            planes = 3 if partial else 1
            halves = (payload[: planes * WORD], payload[planes * WORD :])
            return np.concatenate([from_planes(half) for half in halves])
        return np.frombuffer(payload, ">i4" if op == SUM32 else ">u4").astype(np.int64)

    @staticmethod
    def fold(op: int, held: Content, added: Content) -> tuple[Content, int]:
        """The slot's new content and the flags that earns."""
        if isinstance(held, Signs) and isinstance(added, Signs):
            return Signs(held.low & added.low, held.high | added.high), 0
        assert not isinstance(held, Signs) and not isinstance(added, Signs)
        if op == MAX32:
            return np.maximum(held, added), 0
        total = held + added
        if op != SUM32:
            return total, 0
        wrapped = (total + 2**31) % 2**32 - 2**31
        return wrapped, OVERFLOW if np.any(wrapped != total) else 0

    @staticmethod
    def partial(op: int, held: Content) -> bytes:
        """As it goes to the switch above. Signs still open to chance are given as what all agree on."""
        if isinstance(held, Signs):
            return held.low.tobytes()
        if op == THC:
            return to_planes(held, 8)
        if op == VOTE:
            return to_planes(held[:VALUES], 3) + to_planes(held[VALUES:], 3)
        return held.astype(">i4" if op == SUM32 else ">u4").tobytes()

    @classmethod
    def result(cls, op: int, held: Content, count: int) -> bytes:
        """As it goes to the workers. A tie of votes is plus."""
        if op != VOTE:
            return cls.partial(op, held)
        assert not isinstance(held, Signs)
        return b"".join(np.packbits(2 * half >= count).tobytes() for half in (held[:VALUES], held[VALUES:]))


@dataclass
class Slot:
    round: int
    op: int
    content: Content
    contributors: int = 0
    count: int = 0
    flags: int = 0
    # Open while None; then whether the result is here or only the partial result, on its way up.
    closed: bool = False
    waiting: bool = False
    # The result as it came from above or was made here.
    answer: bytes = b""


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
        from_above = packet.kind == RESULT
        if not from_above and packet.worker >= len(job.workers):
            return "WORKER"
        slot = self.slots.get((job.number, packet.slot))
        worker = job.workers[packet.worker] if not from_above else self.aggregator
        above = job.parent.switch if job.parent else None
        # Only THC's and VOTE's partial results look different from a host's contribution.
        as_switch = packet.words == WORDS_PARTIAL[packet.op]
        two_forms = WORDS_UP[packet.op] != WORDS_PARTIAL[packet.op]
        checks = (
            (not from_above and port != worker.port, "PORT"),
            (not from_above and frame[26:30] != worker.ip, "ADDRESS"),
            (packet.slot >= job.slots, "SLOT"),
            (packet.op not in job.ops, "JOB_OP"),
            (not from_above and not 1 <= packet.count <= worker.weight, "COUNT"),
            (not from_above and two_forms and as_switch != worker.is_switch, "WORDS"),
            (from_above and (above is None or (port, frame[26:30]) != (above.port, above.ip)), "PARENT"),
            (slot is not None and slot.round == packet.round and slot.op != packet.op, "SLOT_OP"),
        )
        return next((reason for failed, reason in checks if failed), None)

    def _verdict(self, job: Job, packet: Packet) -> str:
        key = (job.number, packet.slot)
        slot = self.slots.get(key)
        ahead = (packet.round - slot.round) % 2**32 if slot else 0
        fresh = slot is None or 0 < ahead < 2**31
        if packet.kind == RESULT:
            return self._from_above(job, packet, None if fresh else slot, older=bool(ahead) and not fresh)
        if slot is None or fresh:
            content = job.read(packet.op, packet.payload, job.workers[packet.worker].is_switch)
            slot = Slot(packet.round, packet.op, content)
            self.slots[key] = slot
            return self._contributed(job, slot, packet, "FIRST")
        if ahead:
            return "STALE"
        if slot.closed:
            return "DUPLICATE"
        if slot.waiting:
            return "ASK"
        if slot.contributors >> packet.worker & 1:
            if not packet.flags & FLUSH:
                return "REPEAT"
            slot.flags |= PARTIAL
            self._close(job, slot)
            return "FLUSH"
        added = job.read(packet.op, packet.payload, job.workers[packet.worker].is_switch)
        slot.content, earned = job.fold(packet.op, slot.content, added)
        slot.flags |= earned
        return self._contributed(job, slot, packet, "ADD")

    def _contributed(self, job: Job, slot: Slot, packet: Packet, verdict: str) -> str:
        slot.contributors |= 1 << packet.worker
        slot.count += packet.count
        slot.flags |= packet.flags & (PARTIAL | OVERFLOW)
        if slot.contributors.bit_count() < job.quorum:
            return verdict
        self._close(job, slot)
        return "LAST"

    @staticmethod
    def _close(job: Job, slot: Slot) -> None:
        if job.parent:
            slot.waiting = True
        else:
            slot.closed = True
            slot.answer = job.result(slot.op, slot.content, slot.count)

    def _from_above(self, job: Job, packet: Packet, slot: Slot | None, *, older: bool) -> str:
        assert job.parent is not None
        if older or (slot is not None and slot.closed):
            return "KNOWN"
        if slot is None:
            slot = Slot(packet.round, packet.op, np.zeros(0, np.int64))
            self.slots[job.number, packet.slot] = slot
        slot.closed, slot.waiting = True, False
        slot.contributors *= packet.contributors >> job.parent.worker & 1
        slot.count, slot.answer = packet.count, packet.payload
        if packet.op == SIGN:
            drawn = np.frombuffer(packet.payload, np.uint8)
            slot.content = Signs(drawn, drawn)
        slot.flags |= packet.flags
        return "DOWN"

    def _reply(self, job: Job, port: int, frame: bytes, packet: Packet, verdict: str) -> list[tuple[int, bytes]]:
        slot = self.slots[job.number, packet.slot]
        if verdict == "STALE":
            stale = packet._replace(
                kind=STALE, round=slot.round, count=0, contributors=0, flags=0, words=0, payload=b""
            )
            return [self._to(job, packet.worker, stale, frame)]
        if slot.waiting and verdict in ("LAST", "FLUSH", "ASK"):
            return [self._up(job, slot, packet, frame, packet.flags & FLUSH if verdict == "ASK" else 0)]
        if verdict not in ("LAST", "FLUSH", "DUPLICATE", "DOWN"):
            return []
        result = packet._replace(
            kind=RESULT, count=slot.count, contributors=slot.contributors, flags=slot.flags,
            words=len(slot.answer) // WORD, payload=slot.answer,
        )  # fmt: skip
        if verdict == "DUPLICATE":
            return [self._to(job, packet.worker, result, frame)]
        return [self._to(job, worker, result, frame) for worker in range(len(job.workers))]

    def _up(self, job: Job, slot: Slot, packet: Packet, request: bytes, flush: int) -> tuple[int, bytes]:
        assert job.parent is not None
        payload = job.partial(slot.op, slot.content)
        up = packet._replace(
            kind=CONTRIBUTE, worker=job.parent.worker, count=slot.count, contributors=0, flags=slot.flags | flush,
            words=len(payload) // WORD, payload=payload,
        )  # fmt: skip
        parent = job.parent.switch
        return parent.port, udp_frame(self.aggregator, parent, up.encode(), dscp_ecn=request[15])

    def _to(self, job: Job, worker: int, packet: Packet, request: bytes) -> tuple[int, bytes]:
        host = job.workers[worker]
        source = replace(self.aggregator, udp_port=UDP_PORT)
        body = packet._replace(worker=worker).encode()
        return host.port, udp_frame(source, host, body, dscp_ecn=request[15])

    def settle(self, job_number: int, slot_number: int, bits: bytes) -> None:
        """The switch has drawn: an open draw of this slot's signs is `bits` from now on.

        Raises AssertionError if not all contributors could have led to them.
        """
        slot = self.slots[job_number, slot_number]
        drawn = np.frombuffer(bits, np.uint8)
        if slot.op != SIGN or not isinstance(slot.content, Signs) or not (slot.waiting or slot.closed):
            return
        assert slot.content.allows(drawn), "signs that no draw can give: all contributors say otherwise"
        slot.content = Signs(drawn, drawn)
        if slot.closed:
            slot.answer = bits


def words_of(kind: int, op: int) -> tuple[int, ...]:
    return (WORDS_DOWN[op],) if kind == RESULT else (WORDS_UP[op], WORDS_PARTIAL[op])


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
    if packet.kind not in (CONTRIBUTE, RESULT):
        return "KIND"
    if packet.op not in WORDS_UP:
        return "OP"
    if packet.words not in words_of(packet.kind, packet.op):
        return "WORDS"
    return "LENGTH" if len(packet.payload) != packet.words * WORD else None
