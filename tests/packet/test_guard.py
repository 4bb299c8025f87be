# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A frame passes only from the port behind which its source is. What others send under that name leaves no trace."""

from __future__ import annotations

import itertools

import pytest
from golden import model
from golden.model import Host, udp_frame
from helpers.packet.layers import encoded
from helpers.packet.play import Game, Rig, contribution, random_payload
from helpers.packet.star import AGGREGATOR, FULL, HOSTS, LEAF, LOWER, PARENT, ROOT
from scapy.layers.l2 import ARP, Ether

H1, H2, H3 = HOSTS[:3]
# What an attacker behind port 3 may write as its source: of the aggregator, of another host, its own in part, nobody's.
FORGED = {
    "the aggregator's addresses": Host(3, AGGREGATOR.mac, AGGREGATOR.ip),
    "the aggregator's address from its own MAC": Host(3, H3.mac, AGGREGATOR.ip),
    "its own address from the aggregator's MAC": Host(3, AGGREGATOR.mac, H3.ip),
    "another host's addresses": Host(3, H1.mac, H1.ip),
    "another host's address": Host(3, H3.mac, H1.ip),
    "the switch above": Host(3, PARENT.mac, PARENT.ip),
    "a lower switch of another port": Host(3, LOWER[0].mac, LOWER[0].ip),
    "nobody": Host(3, bytes.fromhex("02ffffffffff"), bytes([192, 0, 2, 1])),
    "no address yet": Host(3, H3.mac, bytes(4)),
}


def _result(sender: Host) -> bytes:
    """A norm of 0 for slot 0, as the switch would send it to worker 1."""
    packet = contribution(FULL, 1, 0, 0, bytes(model.WORD), model.MAX32, count=4, contributors=0xF)
    return udp_frame(sender, H2, encoded(packet._replace(kind=model.RESULT)))


@pytest.mark.parametrize("what", FORGED)
@pytest.mark.parametrize("form", ["UDP", "a fragment", "options", "ARP request", "ARP reply", "ARP to the aggregator"])
def test_a_forged_source_is_dropped_and_counted(rig: Rig, what: str, form: str) -> None:
    game, forged = Game(rig), FORGED[what]
    assert game.frame(3, _frame(form, forged)) == []
    assert game.golden.rejects == {"SOURCE": 1}
    game.check_counters()


def _frame(form: str, source: Host) -> bytes:
    if form.startswith("ARP"):
        target = AGGREGATOR if "aggregator" in form else H2
        fields = {"hwsrc": source.mac.hex(":"), "psrc": _dotted(source.ip), "pdst": _dotted(target.ip)}
        ether = Ether(src=source.mac.hex(":"), dst=H2.mac.hex(":"))
        return bytes(ether / ARP(op=2 if "reply" in form else 1, **fields))
    frame = bytearray(_result(source))
    if form == "a fragment":
        frame[20:22] = b"\x00\x10"
    elif form == "options":
        frame[14] = 0x46
    return bytes(frame)


def _dotted(ip: bytes) -> str:
    return ".".join(map(str, ip))


@pytest.mark.parametrize("target", [H2.ip, AGGREGATOR.ip], ids=["a host's", "the aggregator's"])
def test_arp_may_not_name_another_sender_than_its_frame(game: Game, target: bytes) -> None:
    """Else a host would tell others that another's address is at its MAC, or the switch to answer there."""
    ether = Ether(src=H3.mac.hex(":"), dst=H2.mac.hex(":"))
    for sha, spa in itertools.product((H1.mac, H3.mac), (H1.ip, H3.ip)):
        out = game.frame(3, bytes(ether / ARP(hwsrc=sha.hex(":"), psrc=_dotted(spa), pdst=_dotted(target))))
        assert bool(out) == ((sha, spa) == (H3.mac, H3.ip))
    assert game.golden.rejects == {"SOURCE": 3}


@pytest.mark.parametrize("forged", FORGED.values(), ids=list(FORGED))
def test_a_forged_contribution_or_result_does_not_reach_a_slot(game: Game, forged: Host) -> None:
    for worker in range(3):
        game.contribute(FULL, worker)
    good = contribution(FULL, 3, 0, 0, random_payload(game.rng, model.THC))
    for packet in (good, good._replace(worker=2), good._replace(worker=2, flags=model.FLUSH)):
        assert game.send(FULL, packet, forged) == []
    down = contribution(LEAF, 3, 0, 0, random_payload(game.rng, model.THC, 8), count=4, contributors=0xF)
    assert game.send(LEAF, down._replace(kind=model.RESULT), forged) == []
    assert len(game.contribute(FULL, 3)) == 4


def test_a_lower_switch_is_not_taken_for_itself_with_another_mac(game: Game) -> None:
    packet = contribution(ROOT, 0, 0, 0, bytes(8 * model.WORD), count=2)
    assert game.send(ROOT, packet, Host(LOWER[0].port, H1.mac, LOWER[0].ip)) == []
    assert game.golden.rejects == {"ADDRESS": 1}


def test_another_program_on_a_workers_host_counts_for_nothing(game: Game) -> None:
    """A user without rights cannot take the worker's UDP port, and has the host's port, MAC and address."""
    other = Host(H1.port, H1.mac, H1.ip, udp_port=50000)
    packet = contribution(FULL, 0, 0, 0, random_payload(game.rng, model.THC))
    far = (1, 2, 16, 2**31 - 1, 2**31, 2**32 - 1)
    hostile = [packet, *(packet._replace(round=r) for r in far), packet._replace(flags=model.FLUSH)]
    for one in hostile:
        game.send(FULL, one, other)
        game.send(FULL, one._replace(kind=model.PROBE, words=0, payload=b"", flags=0), other)
        game.later(model.GAP_US)
    assert game.golden.rejects == {"UDP_PORT": 2 * len(hostile)}
    for worker in range(4):
        out = game.contribute(FULL, worker)
    assert len(out) == 4
