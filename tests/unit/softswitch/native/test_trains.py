# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Trains are cut into the packets that they stand for. Packets are joined only if nobody can tell the difference."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from helpers.softswitch.trains import (
    ECN,
    MOST_BYTES,
    NEEDS_CHECKSUM,
    PLAIN,
    TCPV4,
    TCPV6,
    UDP_L4,
    Told,
    cut,
    join,
    network,
    segment,
    train_of,
    transport,
)
from scapy.layers.inet import IP, TCP, UDP, IPOption_NOP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt
from scapy.layers.l2 import Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw
from softswitch.runtime.interface import train_bytes

pytestmark = pytest.mark.cc

ETHER = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
V4 = IP(src="10.0.0.1", dst="10.0.0.2", id=65530, flags="DF", tos=0x28)
V6 = IPv6(src="fd00::1", dst="fd00::2", fl=77)
DATAGRAM = UDP(sport=4000, dport=21335)
SEGMENT = TCP(sport=4000, dport=5201, seq=2**32 - 1000, ack=77, flags="PA", options=[("Timestamp", (5, 6))])


def data(size: int) -> Raw:
    return Raw(random.Random(size).randbytes(size))


FLOWS: dict[str, Packet] = {
    "udp4": ETHER / V4 / DATAGRAM,
    "udp6": ETHER / V6 / DATAGRAM,
    "tcp4": ETHER / V4 / SEGMENT,
    "tcp6": ETHER / V6 / SEGMENT,
}


# -- cutting -----------------------------------------------------------------


OTHERS: dict[str, Packet] = {
    "tagged": ETHER / Dot1Q(vlan=5) / V4 / DATAGRAM,
    "tagged twice": ETHER / Dot1Q(type=0x8100, vlan=5) / Dot1Q(vlan=6) / V6 / SEGMENT,
    "ipv4 options": ETHER / IP(src="10.0.0.1", dst="10.0.0.2", options=[IPOption_NOP()] * 4) / DATAGRAM,
    "ipv6 extension": ETHER / V6 / IPv6ExtHdrDestOpt() / DATAGRAM,
    "tcp without options": ETHER / V4 / TCP(sport=1, dport=2, flags="FPACE"),
}


@pytest.mark.parametrize("flow", [*FLOWS.values(), *OTHERS.values()], ids=[*FLOWS, *OTHERS])
@pytest.mark.parametrize(("payload", "size"), [(64 * 536, 536), (1001, 500), (1000, 999), (37, 1), (20000, 1448)])
def test_a_train_is_cut_into_its_packets(flow: Packet, payload: int, size: int) -> None:
    whole = flow / data(payload)
    assert cut(*train_of(whole, size)) == segment(whole, size)


def test_a_train_that_was_marked_on_its_way() -> None:
    """CWR is in the first packet only, and the kernel says so."""
    whole = ETHER / V4 / TCP(sport=1, dport=2, flags="CA") / data(3000)
    told, frame = train_of(whole, 1000)
    assert cut(replace(told, kind=told.kind | ECN), frame) == segment(whole, 1000)


@pytest.mark.parametrize("flow", FLOWS.values(), ids=FLOWS)
@pytest.mark.parametrize("size", [1, 700, 1400])
def test_a_packet_without_its_checksum_gets_it(flow: Packet, size: int) -> None:
    whole = flow / data(size)
    told, frame = train_of(whole, 1448)
    assert told.kind == PLAIN
    assert cut(told, frame) == segment(whole, 1448) != [frame]


def test_a_finished_frame_stays_as_it_is() -> None:
    for frame in (b"", b"x", bytes(60), bytes(FLOWS["udp4"] / data(100))):
        assert cut(Told(), frame) == [frame]


def test_a_checksum_of_0_is_sent_as_65535() -> None:
    """0 would mean that there is none."""
    flow = FLOWS["udp4"] / Raw(bytes(2))
    open_sum = transport(Ether(bytes(flow))).chksum
    whole = FLOWS["udp4"] / Raw(open_sum.to_bytes(2))
    assert [Ether(packet)[UDP].chksum for packet in cut(*train_of(whole, 2))] == [0xFFFF]


def test_datagrams_without_checksum_stay_without() -> None:
    whole = ETHER / V4 / UDP(sport=1, dport=2, chksum=0) / data(3000)
    packets = cut(Told(0, UDP_L4, 42, 1000), bytes(whole))
    assert [Ether(packet)[UDP].chksum for packet in packets] == [0, 0, 0]


def tunnel() -> Packet:
    return FLOWS["udp4"] / VXLAN(vni=1) / FLOWS["tcp4"] / data(3000)


def _refused() -> dict[str, tuple[Told, bytes]]:
    told, frame = train_of(FLOWS["udp4"] / data(3000), 1000)
    segments, stream = train_of(FLOWS["tcp4"] / data(3000), 1000)
    inner = len(bytes(tunnel())) - 3000 - len(SEGMENT)
    return {
        "no size": (replace(told, size=0), frame),
        "too many packets": (replace(told, size=1), frame),
        "fragments of UDP (UFO)": (replace(told, kind=3), frame),
        "an unknown kind": (replace(told, kind=77), frame),
        "TCP that is UDP": (replace(told, kind=TCPV4), frame),
        "UDP that is TCP": (replace(segments, kind=UDP_L4), stream),
        "IPv6 that is IPv4": (replace(segments, kind=TCPV6), stream),
        "ends in Ethernet": (told, frame[:13]),
        "ends in IPv4": (told, frame[:33]),
        "ends in UDP": (told, frame[:41]),
        "ends in TCP's options": (segments, stream[:60]),
        "another checksum": (replace(told, checksum_start=50), frame),
        "a tunnel": (Told(NEEDS_CHECKSUM, TCPV4, 0, 1000, inner, 16), bytes(tunnel())),
        "a fragment": train_of(ETHER / IP(src="10.0.0.1", dst="10.0.0.2", flags="MF") / DATAGRAM / data(3000), 1000),
        "neither IP": (told, frame[:12] + b"\x88\xb5" + frame[14:]),
        "IPv4 of another version": (told, frame[:14] + b"\x55" + frame[15:]),
        "a header of 4 words": (told, frame[:14] + b"\x44" + frame[15:]),
        "a TCP header of 4 words": (segments, stream[:46] + b"\x40" + stream[47:]),
        "a checksum behind the end": (Told(NEEDS_CHECKSUM, PLAIN, 0, 0, 3000, 41), frame),
        "a checksum far behind the end": (Told(NEEDS_CHECKSUM, PLAIN, 0, 0, 65535, 65535), frame),
    }


@pytest.mark.parametrize("why", _refused())
def test_what_does_not_fit_is_refused(why: str) -> None:
    assert cut(*_refused()[why]) == []


# -- joining -----------------------------------------------------------------


@pytest.mark.parametrize("flow", FLOWS.values(), ids=FLOWS)
@pytest.mark.parametrize(("payload", "size"), [(64 * 536, 536), (1001, 500), (2000, 1999), (37, 1), (20000, 1448)])
def test_packets_of_a_train_become_that_train_again(flow: Packet, payload: int, size: int) -> None:
    whole = flow / data(payload)
    packets = segment(whole, size)
    (parcel,) = join(packets, most_length=2100)
    assert (parcel.told, parcel.frame) == train_of(whole, size)
    assert cut(parcel.told, parcel.frame) == packets


def pair(flow: Packet, change: Callable[[Packet], Any] = lambda _: None, first: int = 500, second: int = 500) -> int:
    """Two packets of a flow, of which the second is changed. Returns in how many frames they leave."""
    one, other = (Ether(packet) for packet in segment(flow / data(first + second), max(first, 1)))
    change(other)
    for layer in (network(other), transport(other)):
        if "chksum" in layer.fields and change.__name__ != "keeps_checksums":
            del layer.chksum
    return len(join([bytes(one), bytes(other)]))


def _put(layer: type[Packet], **fields: object) -> Callable[[Packet], None]:
    def change(packet: Packet) -> None:
        for name, value in fields.items():
            setattr(packet[layer], name, value)

    return change


CHANGES: dict[str, tuple[str, Callable[[Packet], Any]]] = {
    "source MAC": ("udp4", _put(Ether, src="02:00:00:00:00:09")),
    "destination MAC": ("udp4", _put(Ether, dst="02:00:00:00:00:09")),
    "IPv4 source": ("udp4", _put(IP, src="10.0.0.9")),
    "IPv4 destination": ("udp4", _put(IP, dst="10.0.0.9")),
    "IPv6 destination": ("tcp6", _put(IPv6, dst="fd00::9")),
    "hop limit": ("udp6", _put(IPv6, hlim=9)),
    "flow label": ("udp6", _put(IPv6, fl=9)),
    "TTL": ("udp4", _put(IP, ttl=9)),
    "TOS": ("tcp4", _put(IP, tos=0x29)),
    "DF": ("udp4", _put(IP, flags=0)),
    "source port": ("udp4", _put(UDP, sport=9)),
    "destination port": ("tcp4", _put(TCP, dport=9)),
    "a gap in the stream": ("tcp4", _put(TCP, seq=9)),
    "acknowledgement": ("tcp6", _put(TCP, ack=9)),
    "window": ("tcp4", _put(TCP, window=9)),
    "timestamp": ("tcp4", _put(TCP, options=[("Timestamp", (5, 7))])),
    "CWR": ("tcp4", _put(TCP, flags="CA")),
    "SYN": ("tcp4", _put(TCP, flags="SA")),
    "RST": ("tcp4", _put(TCP, flags="RA")),
    "URG": ("tcp4", _put(TCP, flags="UA")),
    "ECE": ("tcp4", _put(TCP, flags="EA")),
    "no ACK": ("tcp4", _put(TCP, flags="P")),
}


@pytest.mark.parametrize("what", CHANGES)
def test_packets_that_differ_are_not_joined(what: str) -> None:
    flow, change = CHANGES[what]
    assert pair(FLOWS[flow]) == 1
    assert pair(FLOWS[flow], change) == 2


def test_identifications_count_up_where_packets_may_be_fragmented() -> None:
    flow = ETHER / IP(src="10.0.0.1", dst="10.0.0.2", id=7) / DATAGRAM
    assert pair(flow) == 1
    assert pair(flow, _put(IP, id=7)) == 2
    assert pair(FLOWS["udp4"], _put(IP, id=7)) == 1  # DF: nobody looks at it


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("wrong", [0, 1])
def test_a_wrong_checksum_stays_wrong(flow: str, wrong: int) -> None:
    packets = segment(FLOWS[flow] / data(1000), 500)
    packets[wrong] = packets[wrong][:-1] + bytes([packets[wrong][-1] ^ 1])
    assert [parcel.frame for parcel in join(packets)] == packets


def test_a_wrong_ipv4_checksum_stays_wrong() -> None:
    packets = segment(FLOWS["udp4"] / data(1000), 500)
    packets[1] = packets[1][:24] + b"\x00\x00" + packets[1][26:]
    assert [parcel.frame for parcel in join(packets)] == packets


def test_only_the_last_may_be_shorter_and_none_longer() -> None:
    flow = FLOWS["udp4"]
    packets = [segment(flow / data(size), 9999)[0] for size in (500, 500, 300, 300, 500, 500, 501)]
    assert [parcel.packets for parcel in join(packets)] == [3, 1, 2, 1]


@pytest.mark.parametrize("flag", ["P", "F"])
def test_push_and_fin_end_a_train(flag: str) -> None:
    flow = ETHER / V4 / TCP(sport=1, dport=2, flags="A")
    packets = segment(flow / data(2500), 500)
    marked = Ether(packets[2])
    marked[TCP].flags = f"{flag}A"
    del marked[TCP].chksum
    packets[2] = bytes(marked)
    parcels = join(packets)
    assert [parcel.packets for parcel in parcels] == [3, 2]
    assert [set(str(Ether(parcel.frame)[TCP].flags)) for parcel in parcels] == [{flag, "A"}, {"A"}]
    assert [packet for parcel in parcels for packet in cut(parcel.told, parcel.frame)] == packets


def test_datagrams_without_checksum_get_one() -> None:
    flow = ETHER / V4 / UDP(sport=1, dport=2, chksum=0)
    packets = []
    for payload in (data(500), data(499)):
        made = Ether(bytes(flow / payload))
        packets.append(bytes(made))
    (parcel,) = join(packets)
    checked = cut(parcel.told, parcel.frame)
    for given, made in zip(packets, checked, strict=True):
        again = Ether(given)
        del again[UDP].chksum
        assert Ether(made)[UDP] == Ether(bytes(again))[UDP]


def _plain(change: Callable[[bytes], bytes]) -> list[bytes]:
    return [change(packet) for packet in segment(FLOWS["udp4"] / data(1000), 500)]


@pytest.mark.parametrize(
    "packets",
    [
        _plain(lambda packet: packet + bytes(4)),
        _plain(lambda packet: packet[:12] + b"\x81\x00\x00\x05" + packet[12:]),
        _plain(lambda packet: packet[:12] + b"\x88\xb5" + packet[14:]),
        _plain(lambda packet: packet[:42]),
        [bytes(60), bytes(60)],
        [b"", b""],
        [bytes(FLOWS["tcp4"])] * 2,
        [bytes(Ether(bytes(ETHER / V6 / UDP(sport=1, dport=2, chksum=0) / data(500))))] * 2,
        segment(ETHER / V6 / IPv6ExtHdrDestOpt() / DATAGRAM / data(1000), 500),
    ],
    ids=["padding", "tag", "no IP", "cut", "zeros", "nothing", "no payload", "IPv6 without checksum", "IPv6 extension"],
)
def test_what_is_never_joined(packets: list[bytes]) -> None:
    assert [(parcel.told, parcel.frame) for parcel in join(packets)] == [(Told(), packet) for packet in packets]


def test_how_long_a_train_may_be() -> None:
    packets = segment(FLOWS["udp4"] / data(65000), 100)
    assert [parcel.packets for parcel in join(packets)] == [64] * 10 + [10]
    large = segment(FLOWS["udp4"] / data(65000), 1000)
    assert [parcel.packets for parcel in join(large)] == [64, 1]
    longest = segment(FLOWS["udp4"] / data(44 * 1472), 1472)
    assert [parcel.packets for parcel in join(longest * 2)] == [44, 44]
    for most, counts in ((5042, [5] * 13), (5041, [4] * 16 + [1]), (1042, [1] * 65), (0, [1] * 65)):
        assert [parcel.packets for parcel in join(large[:65], most_bytes=most)] == counts
    assert [parcel.packets for parcel in join(large[:65], most_length=1041)] == [1] * 65


def test_a_trains_length_follows_the_links_rate() -> None:
    assert [train_bytes(mbit) for mbit in (10, 100, 1000, 10_000)] == [625, 6250, 62500, MOST_BYTES]
