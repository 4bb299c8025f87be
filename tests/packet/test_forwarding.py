# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Ordinary traffic passes untouched; the aggregator's address is answered for."""

from __future__ import annotations

import pytest
from golden import model
from golden.model import udp_frame
from helpers.packet.layers import encoded
from helpers.packet.play import Game, Rig, contribution, random_payload
from helpers.packet.star import AGGREGATOR, FULL, HOSTS
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_NOP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet, Raw

H1, H2 = HOSTS[0], HOSTS[1]
ETHER = Ether(src=H1.mac.hex(":"), dst=H2.mac.hex(":"))
TO_H2 = IP(src="10.0.0.1", dst="10.0.0.2")
BROADCAST = Ether(src=H1.mac.hex(":"), dst="ff:ff:ff:ff:ff:ff")

FORWARDED: dict[str, Packet] = {
    "TCP": ETHER / TO_H2 / TCP(dport=29500, flags="S"),
    "TCP of 1500 bytes": ETHER / TO_H2 / TCP() / Raw(bytes(1460)),
    "UDP": ETHER / TO_H2 / UDP(dport=53) / Raw(b"x"),
    "UDP without payload": ETHER / TO_H2 / UDP(dport=53),
    "UDP on Sumwire's port that is none of ours": ETHER / TO_H2 / UDP(dport=model.UDP_PORT) / Raw(b"hello"),
    "ICMP": ETHER / TO_H2 / ICMP(),
    "a fragment": ETHER / IP(src="10.0.0.1", dst="10.0.0.2", frag=100, proto=17) / Raw(bytes(100)),
    "IPv4 options": ETHER / IP(src="10.0.0.1", dst="10.0.0.2", options=[IPOption_NOP()] * 4) / UDP(),
    "TTL 1": ETHER / IP(src="10.0.0.1", dst="10.0.0.2", ttl=1) / UDP(),
    "a wrong IPv4 checksum": ETHER / IP(src="10.0.0.1", dst="10.0.0.2", chksum=1) / UDP(),
    "DSCP and ECN": ETHER / IP(src="10.0.0.1", dst="10.0.0.2", tos=0xBB) / UDP(),
    "back to where it came from": ETHER / IP(src="10.0.0.1", dst="10.0.0.1") / UDP(),
    "an ARP request for a host": BROADCAST / ARP(op=1, hwsrc=H1.mac.hex(":"), psrc="10.0.0.1", pdst="10.0.0.2"),
    "an ARP reply": ETHER / ARP(op=2, hwsrc=H1.mac.hex(":"), psrc="10.0.0.1", pdst="10.0.0.2"),
}
DROPPED: dict[str, Packet] = {
    "IPv4 to nobody": ETHER / IP(src="10.0.0.1", dst="192.0.2.7") / UDP(),
    "ARP for nobody": BROADCAST / ARP(op=1, hwsrc=H1.mac.hex(":"), psrc="10.0.0.1", pdst="10.0.0.77"),
    "IPv6": ETHER / IPv6() / UDP(),
    "an ARP reply to the aggregator": ETHER / ARP(op=2, hwsrc=H1.mac.hex(":"), psrc="10.0.0.1", pdst="10.0.0.100"),
}


@pytest.mark.parametrize("what", FORWARDED)
def test_forwarded_untouched(rig: Rig, what: str) -> None:
    frame = bytes(FORWARDED[what])
    game = Game(rig)
    out = game.frame(1, frame)
    assert [sent for _, sent in out] == [frame]
    game.check_counters()


@pytest.mark.parametrize("what", DROPPED)
def test_dropped(rig: Rig, what: str) -> None:
    assert Game(rig).frame(1, bytes(DROPPED[what])) == []


def test_sumwire_packets_between_hosts_are_ordinary_traffic(game: Game) -> None:
    packet = contribution(FULL, 0, 0, 0, random_payload(game.rng, model.THC))
    for version in (1, 3):
        frame = udp_frame(H1, H2, encoded(packet._replace(version=version)))
        assert game.frame(1, frame) == [(2, frame)]


def test_arp_for_the_aggregator(rig: Rig) -> None:
    request = BROADCAST / ARP(op=1, hwsrc=H1.mac.hex(":"), psrc="10.0.0.1", pdst="10.0.0.100")
    ((port, frame),) = Game(rig).frame(1, bytes(request))
    reply = Ether(frame)
    assert (port, reply.dst, reply.src) == (1, H1.mac.hex(":"), AGGREGATOR.mac.hex(":"))
    assert (reply[ARP].op, reply[ARP].psrc, reply[ARP].hwsrc) == (2, "10.0.0.100", AGGREGATOR.mac.hex(":"))
    assert (reply[ARP].pdst, reply[ARP].hwdst) == ("10.0.0.1", H1.mac.hex(":"))


def test_results_have_valid_ipv4_checksums_and_no_udp_checksum(game: Game) -> None:
    for worker in range(4):
        out = game.contribute(FULL, worker)
    for _, frame in out:
        result = Ether(frame)
        stated = result[IP].chksum
        del result[IP].chksum
        assert Ether(bytes(result))[IP].chksum == stated
        assert (result[UDP].chksum, result[UDP].sport, result[IP].ttl) == (0, model.UDP_PORT, 64)


def test_results_keep_the_dscp_of_the_packet_that_closed_the_slot(game: Game) -> None:
    for worker in range(3):
        game.contribute(FULL, worker)
    packet = contribution(FULL, 3, 0, 0, random_payload(game.rng, model.THC))
    out = game.frame(4, udp_frame(HOSTS[3], AGGREGATOR, encoded(packet), dscp_ecn=0xA2))
    assert {frame[15] for _, frame in out} == {0xA2}
