# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Packets one by one and as trains, through both engines: frames, registers, counters and tables are equal."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator

import pytest
from differential.comparison import EngineRunner
from differential.events import event
from differential.star_state import Frames, star_switch, writes
from helpers.softswitch.trains import PLAIN, Told, as_from_a_train, cut, join, segment, train_of
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from softswitch.switch import EngineChoice, SoftSwitch

Burst = list[tuple[Told, bytes]]
"""Frames, most of them trains, that one port receives together."""

pytestmark = pytest.mark.cc


@pytest.fixture(scope="module")
def star() -> tuple[SoftSwitch, Frames]:
    return star_switch()


def trains_of(frames: list[bytes], rng: random.Random) -> Iterator[tuple[Told, bytes]]:
    """Datagrams of one host as its kernel sends them: neighbours of the same kind and size together."""
    while frames:
        first = Ether(frames[0])
        if IP not in first or UDP not in first or not first[UDP].payload:
            yield Told(), frames.pop(0)
            continue
        payloads = [bytes(first[UDP].payload)]
        frames.pop(0)
        most = rng.randrange(1, 12)
        while frames and len(payloads) < most and _continues(first, other := Ether(frames[0])):
            payloads.append(bytes(other[UDP].payload))
            frames.pop(0)
        first[IP].flags, first[IP].id = "DF", rng.randrange(65536)
        first[UDP].remove_payload()
        for layer, name in ((IP, "len"), (IP, "chksum"), (UDP, "len"), (UDP, "chksum")):
            delattr(first[layer], name)
        yield train_of(first / Raw(b"".join(payloads)), len(payloads[0]))


def _continues(first: Ether, other: Ether) -> bool:
    if IP not in other or UDP not in other:
        return False
    same = all(
        getattr(first[layer], name) == getattr(other[layer], name)
        for layer, names in (
            (Ether, ("src", "dst")),
            (IP, ("src", "dst", "tos", "ttl")),
            (UDP, ("sport", "dport", "len")),
        )
        for name in names
    )
    return same and len(first) == len(other)


def bursts(frames: Frames, seed: int) -> list[tuple[int, Burst]]:
    """Of a few packets of each port in turn, so that rounds begin, go on and end within trains."""
    rng = random.Random(seed)
    waiting: dict[int, list[bytes]] = defaultdict(list)
    for port, frame in frames:
        waiting[port].append(frame)
    made = []
    while any(waiting.values()):
        port = rng.choice([port for port, left in waiting.items() if left])
        count = rng.randrange(1, 30)
        mine, waiting[port] = waiting[port][:count], waiting[port][count:]
        made.append((port, list(trains_of(mine, rng))))
    return made


def packets_of(burst: Burst) -> list[bytes]:
    """By the rules written down once more, in Python."""
    made = []
    for told, frame in burst:
        if told.kind == PLAIN and told.flags == 0:
            made.append(frame)
        else:
            made += segment(Ether(frame), told.size or len(frame))
    return made


class OneByOne:
    def __init__(self, switch: SoftSwitch, engine: EngineChoice) -> None:
        self.runner = EngineRunner(switch.loaded.program, engine)
        for write in writes(switch):
            assert not self.runner.apply(write).error

    def process(self, port: int, frame: bytes) -> Frames:
        return self.runner.apply(event("process", port, frame)).frames

    def receive(self, port: int, packets: list[bytes]) -> dict[int, list[bytes]]:
        left: dict[int, list[bytes]] = defaultdict(list)
        for packet in packets:
            for out, sent in self.process(port, packet):
                left[out].append(sent)
        return left


class AsTrains(OneByOne):
    """Cuts what comes and joins what leaves as the native engine's ports do."""

    longest = 0

    def receive_trains(self, port: int, burst: Burst) -> dict[int, list[bytes]]:
        left = self.receive(port, [packet for told, frame in burst for packet in cut(told, frame)])
        return {out: self._sent(packets) for out, packets in left.items()}

    def _sent(self, packets: list[bytes]) -> list[bytes]:
        made = []
        for parcel in join(packets):
            self.longest = max(self.longest, parcel.packets)
            made += segment(Ether(parcel.frame), parcel.told.size) if parcel.packets > 1 else [parcel.frame]
        return made


@pytest.mark.parametrize("seed", range(2))
def test_trains_and_single_packets_do_the_same(star: tuple[SoftSwitch, Frames], seed: int) -> None:
    switch, frames = star
    engines: list[EngineChoice] = ["python", "native"]
    singles = [OneByOne(switch, engine) for engine in engines]
    trains = [AsTrains(switch, engine) for engine in engines]
    cut_trains = results = 0
    for port, burst in bursts(frames, seed):
        cut_trains += sum(told.kind != PLAIN for told, _ in burst)
        packets = packets_of(burst)
        expected, other = [runner.receive(port, packets) for runner in singles]
        assert other == expected
        alike = {out: [as_from_a_train(packet) for packet in left] for out, left in expected.items()}
        for runner in trains:
            received = runner.receive_trains(port, burst)
            assert {out: [as_from_a_train(packet) for packet in left] for out, left in received.items()} == alike
        results += sum(map(len, expected.values()))
    assert cut_trains > 20
    assert results > 100
    assert min(runner.longest for runner in trains) > 1
    first, *rest = [runner.runner.state() for runner in [*singles, *trains]]
    assert rest == [first] * 3
