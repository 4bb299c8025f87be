# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sends malformed packets to a switch. The module has the frames they are made of, and the counters that must count
them."""

from __future__ import annotations

import contextlib
import errno
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from sumwire.wire.packets import WORD_BYTES, Header
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import BY_CODE, THC

from sumwire_lab.network.control_plane import JOB_ID, NARROW_ID, ODD_ID, SLOTS
from sumwire_lab.network.switches import BMV2_SLOTS

_ETHERNET: Final = struct.Struct("!6s6sH")
_IPV4: Final = struct.Struct("!BBHHHBBH4s4s")
_UDP: Final = struct.Struct("!HHHH")
_SUMWIRE: Final = struct.Struct("!BBHHBBIIBBHIQ")
IPV4_NO_OPTIONS: Final = 0x45
DEFAULT_TTL: Final = 64
# As hosts send their datagrams.
_DONT_FRAGMENT: Final = 0x4000
# Offset of the Sumwire header's field `round` in a frame.
ROUND_OFFSET: Final = p4.ETHERNET_BYTES + p4.IPV4_BYTES + p4.UDP_BYTES + 8


@dataclass(frozen=True)
class Endpoints:
    """Addresses of a frame, as text: MAC as aa:bb:.., IPv4 dotted."""

    src_mac: str
    dst_mac: str
    src_ip: str
    dst_ip: str


def ones_complement(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071) of an even number of bytes."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ethernet(ends: Endpoints, payload: bytes) -> bytes:
    """Return an IPv4 packet as a frame."""
    dst, src = (bytes.fromhex(mac.replace(":", "")) for mac in (ends.dst_mac, ends.src_mac))
    return _ETHERNET.pack(dst, src, p4.ETHERTYPE_IPV4) + payload


def ipv4(
    ends: Endpoints, payload: bytes, *, protocol: int = p4.IP_PROTOCOL_UDP, length_error: int = 0, sum_error: int = 0
) -> bytes:
    """Return an IPv4 packet; the errors are added to total length and checksum. With `sum_error` 0 the checksum is
    right."""

    def pack(checksum: int) -> bytes:
        length = p4.IPV4_BYTES + len(payload) + length_error
        src, dst = socket.inet_aton(ends.src_ip), socket.inet_aton(ends.dst_ip)
        return _IPV4.pack(IPV4_NO_OPTIONS, 0, length, 0, _DONT_FRAGMENT, DEFAULT_TTL, protocol, checksum, src, dst)

    return pack((ones_complement(pack(0)) + sum_error) & 0xFFFF) + payload


def udp(payload: bytes, *, port: int = p4.SUMWIRE_PORT, source: int = p4.SUMWIRE_PORT, length_error: int = 0) -> bytes:
    """Return a UDP datagram without checksum; the error is added to its length field."""
    return _UDP.pack(source, port, p4.UDP_BYTES + len(payload) + length_error, 0) + payload


def sumwire(header: Header, payload: bytes = b"", *, version: int = p4.SUMWIRE_VERSION) -> bytes:
    """Return header and payload without any check, so that they may be invalid."""
    h = header
    head = _SUMWIRE.pack(
        version << 4 | h.kind, h.op, h.job, h.slot, h.worker, h.count,
        h.round, h.contributors, h.flags, h.words, h.bucket, h.chunk, h.token,
    )  # fmt: skip
    return head + payload


def frame(ends: Endpoints, header: Header, payload: bytes = b"") -> bytes:
    """Return a Sumwire packet as a whole frame."""
    return ethernet(ends, ipv4(ends, udp(sumwire(header, payload))))


THC_WORDS: Final = THC.up.words
_SEND_BATCH: Final = 10
_ICMP: Final = 1
# UDP ports of other programs on a worker's host.
_OTHER_PROGRAMS: Final = (1024, 9999, p4.SUMWIRE_PORT - 1)


@dataclass(frozen=True)
class ForgedSender:
    """The worker that the packets pretend to be from, and the number of workers in its job."""

    ends: Endpoints
    worker: int
    workers: int


Build = Callable[[ForgedSender, random.Random], bytes]


def _max32(sender: ForgedSender, rng: random.Random, **changes: Any) -> tuple[Header, bytes]:
    """A valid MAX32 contribution with these changes. Its round is far ahead, so that accepting it would do harm."""
    header = Header(
        kind=p4.KIND_CONTRIBUTE,
        op=p4.OP_MAX32,
        job=JOB_ID,
        # On all kinds of switches below the job's number of slots.
        slot=rng.randrange(min(SLOTS, BMV2_SLOTS)),
        worker=sender.worker,
        round=rng.randrange(1 << 20, 1 << 24),
        words=1,
    )
    return replace(header, **changes), rng.randbytes(WORD_BYTES)


def _frame(sender: ForgedSender, message: tuple[Header, bytes]) -> bytes:
    return frame(sender.ends, *message)


def _changed(**choices: tuple[int, ...]) -> Build:
    """Builds contributions in which each named field has one of its values."""

    def build(sender: ForgedSender, rng: random.Random) -> bytes:
        return _frame(sender, _max32(sender, rng, **{name: rng.choice(values) for name, values in choices.items()}))

    return build


def _version(sender: ForgedSender, rng: random.Random) -> bytes:
    version = rng.choice([v for v in range(16) if v != p4.SUMWIRE_VERSION])
    body = sumwire(*_max32(sender, rng), version=version)
    return ethernet(sender.ends, ipv4(sender.ends, udp(body)))


def _truncated(sender: ForgedSender, rng: random.Random) -> bytes:
    """A frame shorter than its IPv4 header says, with a complete UDP header."""
    whole = _frame(sender, _max32(sender, rng))
    return whole[: rng.randrange(p4.ETHERNET_BYTES + p4.IPV4_BYTES + p4.UDP_BYTES, len(whole))]


def _overlong(sender: ForgedSender, rng: random.Random) -> bytes:
    return _frame(sender, _max32(sender, rng)) + rng.randbytes(rng.randrange(1, 400))


def _payload_missing(sender: ForgedSender, rng: random.Random) -> bytes:
    """The lengths agree, but the payload is shorter than `words` says."""
    header, payload = _max32(sender, rng)
    return _frame(sender, (header, payload[: rng.randrange(len(payload))]))


def _payload_excess(sender: ForgedSender, rng: random.Random) -> bytes:
    header, payload = _max32(sender, rng)
    # 8 bytes more would be an authentication tag.
    excess = rng.choice([size for size in range(1, 300) if size != p4.TAG_BYTES])
    return _frame(sender, (header, payload + rng.randbytes(excess)))


def _with_tag(sender: ForgedSender, rng: random.Random) -> bytes:
    """With an authentication tag, for a job without a key."""
    header, payload = _max32(sender, rng)
    return _frame(sender, (header, payload + rng.randbytes(p4.TAG_BYTES)))


def _udp_length(sender: ForgedSender, rng: random.Random) -> bytes:
    body = udp(sumwire(*_max32(sender, rng)), length_error=rng.choice((-8, -1, 1, 500)))
    return ethernet(sender.ends, ipv4(sender.ends, body))


def _ipv4_length(sender: ForgedSender, rng: random.Random) -> bytes:
    body = udp(sumwire(*_max32(sender, rng)))
    return ethernet(sender.ends, ipv4(sender.ends, body, length_error=rng.choice((-40, -1, 1, 700))))


def _no_header(sender: ForgedSender, rng: random.Random) -> bytes:
    """A datagram too short for a Sumwire header."""
    body = udp(rng.randbytes(rng.randrange(p4.SUMWIRE_BYTES)))
    return ethernet(sender.ends, ipv4(sender.ends, body))


def _checksum(sender: ForgedSender, rng: random.Random) -> bytes:
    body = udp(sumwire(*_max32(sender, rng)))
    return ethernet(sender.ends, ipv4(sender.ends, body, sum_error=rng.randrange(1, 0xFFFE)))


def _foreign_worker(sender: ForgedSender, rng: random.Random) -> bytes:
    """Another worker's number in a packet from this worker's port."""
    other = (sender.worker + rng.randrange(1, sender.workers)) % sender.workers
    return _frame(sender, _max32(sender, rng, worker=other))


def _foreign_address(sender: ForgedSender, rng: random.Random) -> bytes:
    ends = replace(sender.ends, src_ip=f"10.{rng.randrange(1, 255)}.0.{rng.randrange(1, 255)}")
    return frame(ends, *_max32(sender, rng))


def _thc_words(sender: ForgedSender, rng: random.Random) -> bytes:
    words = rng.choice([n for n in range(p4.SLOT_WORDS + 1) if n != THC_WORDS])
    header, _ = _max32(sender, rng, op=p4.OP_THC, words=words)
    return _frame(sender, (header, rng.randbytes(words * WORD_BYTES)))


def _other_port(sender: ForgedSender, rng: random.Random) -> bytes:
    body = udp(sumwire(*_max32(sender, rng)), port=rng.choice((53, p4.SUMWIRE_PORT - 1, 65535)))
    return ethernet(sender.ends, ipv4(sender.ends, body))


def _other_program(sender: ForgedSender, rng: random.Random) -> bytes:
    """What a user without rights may send from the worker's host: the worker has its UDP port."""
    body = udp(sumwire(*_max32(sender, rng)), source=rng.choice(_OTHER_PROGRAMS))
    return ethernet(sender.ends, ipv4(sender.ends, body))


def _forged_result(sender: ForgedSender, rng: random.Random) -> bytes:
    """Return a result as the aggregator would send it to this worker."""
    ends = sender.ends
    forged = Endpoints(rng.choice((ends.src_mac, ends.dst_mac)), ends.src_mac, ends.dst_ip, ends.src_ip)
    return frame(forged, *_max32(sender, rng, kind=p4.KIND_RESULT, count=sender.workers))


def _ping(sender: ForgedSender, rng: random.Random) -> bytes:
    return ethernet(sender.ends, ipv4(sender.ends, rng.randbytes(64), protocol=_ICMP))


def _no_udp_header(sender: ForgedSender, rng: random.Random) -> bytes:
    """An IPv4 packet with protocol UDP that ends within the UDP header."""
    body = rng.randbytes(rng.randrange(p4.UDP_BYTES))
    return ethernet(sender.ends, ipv4(sender.ends, body))


_GOOD_KINDS = (p4.KIND_CONTRIBUTE, p4.KIND_PROBE, p4.KIND_RESULT, p4.KIND_STALE, p4.KIND_REFUSED)
_BAD_KINDS: Final = tuple(kind for kind in range(16) if kind not in _GOOD_KINDS)
_BAD_OPS: Final = (0, max(BY_CODE) + 1, 77, 255)

KINDS: Final[dict[str, tuple[int, Build]]] = {
    "truncated frame": (p4.REJECT_LENGTH, _truncated),
    "overlong frame": (p4.REJECT_LENGTH, _overlong),
    "payload shorter than words": (p4.REJECT_LENGTH, _payload_missing),
    "payload longer than words": (p4.REJECT_LENGTH, _payload_excess),
    "UDP length": (p4.REJECT_LENGTH, _udp_length),
    "IPv4 length": (p4.REJECT_LENGTH, _ipv4_length),
    "no room for the header": (p4.REJECT_LENGTH, _no_header),
    "version": (p4.REJECT_VERSION, _version),
    "kind": (p4.REJECT_KIND, _changed(kind=_BAD_KINDS)),
    "result": (p4.REJECT_PARENT, _changed(kind=(p4.KIND_RESULT,))),
    "op": (p4.REJECT_OP, _changed(op=_BAD_OPS)),
    "words of MAX32": (p4.REJECT_WORDS, _changed(words=(0, 2, 4, 8, 255))),
    "words of THC": (p4.REJECT_WORDS, _thc_words),
    "words of the other ops": (p4.REJECT_WORDS, _changed(op=(p4.OP_SUM32, p4.OP_SIGN, p4.OP_VOTE), words=(1,))),
    "job": (p4.REJECT_JOB, _changed(job=(0, 9, 999, 0xFFFF))),
    "worker": (p4.REJECT_WORKER, _changed(worker=(32, 100, 255))),
    "port": (p4.REJECT_PORT, _foreign_worker),
    "address": (p4.REJECT_ADDRESS, _foreign_address),
    "slot": (p4.REJECT_SLOT, _changed(slot=(SLOTS, SLOTS + 1, 0xFFFF))),
    "op of another job": (p4.REJECT_JOB_OP, _changed(job=(NARROW_ID,), slot=(0,))),
    "count": (p4.REJECT_COUNT, _changed(count=(0, 2, 255))),
    "checksum": (p4.REJECT_CHECKSUM, _checksum),
    "UDP source port": (p4.REJECT_UDP_PORT, _other_program),
    "flags of a lower switch": (p4.REJECT_FLAGS, _changed(flags=(0x02, 0x10, 0x40, 0x80, 0xFF))),
    "forged result": (p4.REJECT_SOURCE, _forged_result),
    "other UDP port": (p4.REJECT_NOT_SUMWIRE, _other_port),
    "ICMP": (p4.REJECT_NOT_SUMWIRE, _ping),
    "no UDP header": (p4.REJECT_NOT_SUMWIRE, _no_udp_header),
    "run that nobody has opened": (p4.REJECT_TOKEN, _changed(token=(p4.TOKENS_OF_RUNS, 1 << 63, (1 << 64) - 1))),
    "authentication tag": (p4.REJECT_TAG, _with_tag),
    "op of an open slot": (p4.REJECT_CALL, _changed(job=(ODD_ID,), slot=(0,), round=(1,))),
}
"""Kinds of malformed packets by name: the reject reason that must be counted, and a function that builds one."""


def opener(sender: ForgedSender) -> bytes:
    """Return a valid packet that opens slot 0 of job ODD in round 1. One worker alone never completes it."""
    header = Header(p4.KIND_CONTRIBUTE, p4.OP_THC, ODD_ID, slot=0, worker=sender.worker, round=1, words=THC_WORDS)
    return frame(sender.ends, header, bytes(THC_WORDS * WORD_BYTES))


def packets(sender: ForgedSender, count: int, seed: int) -> Iterator[tuple[int, bytes]]:
    """Yield (reason, frame) for `count` packets, all kinds in turn. With one worker, there are none from another
    worker's port."""
    rng = random.Random(seed)
    kinds = [kind for name, kind in KINDS.items() if sender.workers > 1 or name != "port"]
    for k in range(count):
        reason, build = kinds[k % len(kinds)]
        yield reason, build(sender, rng)


@dataclass(frozen=True)
class MalformedSpec:
    """What one host is told to send, as its process gets it."""

    interface: str
    sender: ForgedSender
    count: int
    per_second: float
    seed: int


def send_all(spec: MalformedSpec) -> dict[int, int]:
    """Send the packets at the given rate. Returns their number by reason. It waits while a queue is full, so that none
    is lost."""
    sent: dict[int, int] = {}
    with contextlib.ExitStack() as opened:
        for port in _OTHER_PROGRAMS:
            # Else the kernel would answer the switch's refusals by ICMP, which the switch counts as well.
            program = opened.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            program.bind((spec.sender.ends.src_ip, port))
        link = opened.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
        link.bind((spec.interface, 0))
        _send(link, opener(spec.sender))
        began = time.monotonic()
        for number, (reason, data) in enumerate(packets(spec.sender, spec.count, spec.seed)):
            if number % _SEND_BATCH == 0:
                # Pacing: each batch has its own time.
                time.sleep(max(0.0, began + number / spec.per_second - time.monotonic()))
            _send(link, data)
            sent[reason] = sent.get(reason, 0) + 1
    return sent


_FULL_SECONDS: Final = 0.002


def _send(link: socket.socket, data: bytes) -> None:
    while True:
        try:
            link.send(data)
            return
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            # poll() does not report when a packet socket's queue has room again.
            time.sleep(_FULL_SECONDS)
