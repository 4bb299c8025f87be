# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Trains for tests: as a kernel sends them, as they are cut by rules written down once more, and C's cut and join."""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Sequence
from ctypes import POINTER, c_char_p, c_uint32, c_void_p
from dataclasses import dataclass
from pathlib import Path

from nativelib import build, load
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw
from softswitch.native import ports as portlib

NATIVE = Path(portlib.__file__).parent
PACKET_VNET_HDR = 15
NEEDS_CHECKSUM = 1
PLAIN, TCPV4, TCPV6, UDP_L4 = 0, 1, 4, 5
ECN = 0x80
MOST_BYTES = 65535
_TOLD = struct.Struct("=BBHHHH")


@dataclass(frozen=True)
class Told:
    """struct virtio_net_hdr: what the sender of a frame leaves to do."""

    flags: int = 0
    kind: int = PLAIN
    head_bytes: int = 0
    size: int = 0
    checksum_start: int = 0
    checksum_offset: int = 0

    def pack(self) -> bytes:
        return _TOLD.pack(*vars(self).values())

    @classmethod
    def split(cls, data: bytes) -> tuple[Told, bytes]:
        """What is told of a frame, and the frame."""
        return cls(*_TOLD.unpack(data[: _TOLD.size])), data[_TOLD.size :]


def transport(packet: Packet) -> Packet:
    return packet[TCP] if TCP in packet else packet[UDP]


def network(packet: Packet) -> Packet:
    return packet[IP] if IP in packet else packet[IPv6]


def _with_payload(train: Packet, payload: bytes) -> Packet:
    """A copy whose lengths and checksums scapy computes when it becomes bytes."""
    packet = train.copy()
    transport(packet).remove_payload()
    made = packet / Raw(payload) if payload else packet
    for layer, names in ((network(made), ("len", "plen", "chksum")), (transport(made), ("len", "chksum"))):
        for name in names:
            if name in layer.fields:
                delattr(layer, name)
    return made


def segment(train: Packet, size: int) -> list[bytes]:
    """The packets of ``train``, whose payload is cut into pieces of ``size`` bytes."""
    payload = bytes(transport(train).payload)
    starts = range(0, len(payload), size)
    made = []
    for number, start in enumerate(starts):
        packet = _with_payload(train, payload[start : start + size])
        if IP in packet:
            packet[IP].id = (packet[IP].id + number) % 65536
        if TCP in packet:
            packet[TCP].seq = (packet[TCP].seq + start) % 2**32
            flags = str(packet[TCP].flags)
            if number < len(starts) - 1:
                flags = flags.replace("F", "").replace("P", "")
            if number:
                flags = flags.replace("C", "")
            packet[TCP].flags = flags
        made.append(bytes(packet))
    return made


def train_of(packet: Packet, size: int) -> tuple[Told, bytes]:
    """``packet`` as a kernel sends it as a train: whole lengths, and the checksum of the pseudo header alone."""
    packet = Ether(bytes(packet))
    frame = bytearray(bytes(packet))
    layer = transport(packet)
    payload = len(layer.payload)
    start = len(frame) - payload - len(bytes(layer)[: len(layer) - payload])
    offset = 16 if TCP in packet else 6
    length = len(frame) - start
    head = network(packet)
    ends = bytes(head)[12:20] if IP in packet else bytes(head)[8:40]
    protocol = 6 if TCP in packet else 17
    pseudo = ends + struct.pack("!II", length, protocol)
    frame[start + offset : start + offset + 2] = _sum(pseudo).to_bytes(2)
    kind = (TCPV4 if IP in packet else TCPV6) if TCP in packet else UDP_L4
    if payload <= size:
        kind, size = PLAIN, 0
    return Told(NEEDS_CHECKSUM, kind, len(frame) - payload, size, start, offset), bytes(frame)


# ---------------------------------------------------------------- C

_SOURCE = """
#include "cut.h"
#include "impair.h"
#include "join.h"

#include <stdlib.h>

uint32_t test_cut(const uint8_t *data, uint32_t length, const struct virtio_net_hdr *told, ss_pass_fn *pass, void *to) {
  struct ss_cutter cutter;
  uint8_t *frame = malloc(length + 1);
  memcpy(frame, data, length);
  uint32_t count = ss_cut_begin(&cutter, frame, length, told), size;
  for (uint8_t *packet; count != 0 && (packet = ss_cut_next(&cutter, &size)) != NULL;) pass(to, packet, size);
  free(frame);
  return count;
}

typedef void parcel_fn(uint32_t packets, const struct virtio_net_hdr *told, const uint8_t *frame, uint32_t length);

void test_join(const uint8_t *const *packets, const uint32_t *lengths, uint32_t count, uint32_t most_bytes,
               uint32_t most_length, parcel_fn *pass) {
  static uint8_t frame[70000];
  for (uint32_t first = 0; first < count;) {
    struct ss_train train;
    struct virtio_net_hdr told = {0};
    uint32_t next = first + 1, length = lengths[first];
    ss_train_begin(&train, packets[first], length, most_bytes, most_length);
    while (next < count && ss_train_take(&train, packets[next], lengths[next])) next++;
    memcpy(frame, packets[first], length);
    if (train.packets > 1) {
      ss_train_head(&train, frame, &told);
      for (uint32_t i = first + 1; i < next; length += lengths[i++] - train.at.payload)
        memcpy(frame + length, packets[i] + train.at.payload, lengths[i] - train.at.payload);
    }
    pass(train.packets, &told, frame, length);
    first = next;
  }
}
"""
_Pass = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_uint32)
_Parcel = ctypes.CFUNCTYPE(None, c_uint32, c_void_p, c_void_p, c_uint32)


@functools.cache
def _library() -> ctypes.CDLL:
    sources = [NATIVE / name for name in ("layers.c", "cut.c", "join.c")]
    flags = ["-D_GNU_SOURCE"]
    library = load(
        build("softswitch-test-trains", sources, generated={"trains.c": _SOURCE}, includes=[NATIVE], flags=flags)
    )
    library.test_cut.argtypes = (c_char_p, c_uint32, c_char_p, _Pass, c_void_p)
    library.test_cut.restype = c_uint32
    library.test_join.argtypes = (POINTER(c_char_p), POINTER(c_uint32), c_uint32, c_uint32, c_uint32, _Parcel)
    library.test_join.restype = None
    return library


def cut(told: Told, frame: bytes) -> list[bytes]:
    """The packets that C makes of a frame; none if it refuses it."""
    made: list[bytes] = []

    def take(_to: int, packet: int, length: int) -> None:
        made.append(ctypes.string_at(packet, length))

    count = _library().test_cut(frame, len(frame), told.pack(), _Pass(take), None)
    assert count == len(made)
    return made


@dataclass(frozen=True)
class Parcel:
    """What leaves as one frame."""

    packets: int
    told: Told
    frame: bytes


def join(packets: Sequence[bytes], most_bytes: int = MOST_BYTES, most_length: int = 1514) -> list[Parcel]:
    """What C makes of packets that leave one after the other."""
    made: list[Parcel] = []

    def take(count: int, told: int, frame: int, length: int) -> None:
        made.append(Parcel(count, *Told.split(ctypes.string_at(told, _TOLD.size) + ctypes.string_at(frame, length))))

    pointers = (c_char_p * len(packets))(*packets)
    lengths = (c_uint32 * len(packets))(*map(len, packets))
    _library().test_join(pointers, lengths, len(packets), most_bytes, most_length, _Parcel(take))
    assert sum(parcel.packets for parcel in made) == len(packets)
    return made


# ---------------------------------------------------------------- comparison


def as_from_a_train(packet: bytes) -> bytes:
    """What a packet is when it may have been in a train: the two differences that docs/softswitch.md allows are gone.

    IPv4's identification counts for nothing if DF is set, and a UDP checksum may be 0 instead of right.
    """
    made = bytearray(packet)
    if made[12:15] != b"\x08\x00\x45" or made[20] & 0x3F or made[21]:
        return packet
    if made[20] & 0x40:
        made[18:20] = made[24:26] = bytes(2)
    udp = bytes(made[34:])
    pseudo = bytes(made[26:34]) + struct.pack("!HH", 17, len(udp))
    if made[23] == 17 and _sum(pseudo + udp) == 0xFFFF:
        made[40:42] = bytes(2)
    return bytes(made)


def _sum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data[: len(data) & ~1])) + (data[-1] << 8 if len(data) % 2 else 0)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total
