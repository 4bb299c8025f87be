# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/p4, with four hosts that send at random, and again what they have sent before."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator

import pytest
from helpers.softswitch.compile_programs import EXAMPLES
from softswitch.runtime.entries import ActionCall, Entry, Exact, Replica
from softswitch.switch import EngineChoice, SoftSwitch

HOSTS = 4
EVERYONE = (1 << HOSTS) - 1
ADDRESSES = bytes(range(12))
TYPE = b"\x88\xb5"

Frames = list[tuple[int, bytes]]


@pytest.fixture
def switch_of(engine: EngineChoice) -> Callable[[str], SoftSwitch]:
    """A program with its hosts at ports 1 to 4, all of them in group 1."""

    def made(name: str) -> SoftSwitch:
        switch = SoftSwitch((EXAMPLES / f"{name}.json").read_text(), engine=engine)
        for host in range(HOSTS):
            call = ActionCall("MyIngress.host", (1 << host, EVERYONE, 1))
            switch.insert("MyIngress.hosts", Entry((Exact(host + 1),), call))
        switch.set_group(1, [Replica(host + 1, host) for host in range(HOSTS)])
        return switch

    return made


def sent(switch: SoftSwitch, host: int, message: bytes) -> Frames:
    """What leaves when a host sends a message, without the Ethernet headers."""
    leaving = switch.process(host + 1, ADDRESSES + TYPE + message)
    assert all(frame.startswith(ADDRESSES + TYPE) for _, frame in leaving)
    return sorted((port, frame[14:]) for port, frame in leaving)


def to_all(message: bytes) -> Frames:
    return [(host + 1, message) for host in range(HOSTS)]


def rounds(draw: random.Random) -> Iterator[tuple[int, list[int]]]:
    """A slot, and who sends to it: every host at least once, and after the last one nobody."""
    for _ in range(50):
        order = draw.sample(range(HOSTS), HOSTS)
        early = [draw.choice(order[:-1]) for _ in range(draw.randrange(4))]
        first = order[:-1] + early
        draw.shuffle(first)
        yield draw.randrange(256), [*first, order[-1]]


def test_sum(switch_of: Callable[[str], SoftSwitch]) -> None:
    switch, draw = switch_of("sum"), random.Random(1)
    for slot, order in rounds(draw):
        numbers = [draw.getrandbits(32) for _ in range(HOSTS)]
        answers = [sent(switch, host, struct.pack(">BI", slot, numbers[host])) for host in order]
        assert not any(answers[:-1])
        assert answers[-1] == to_all(struct.pack(">BI", slot, sum(numbers) % 2**32))


def test_barrier(switch_of: Callable[[str], SoftSwitch]) -> None:
    switch, draw = switch_of("barrier"), random.Random(2)
    for step, (_, order) in enumerate(rounds(draw)):
        here, before, ahead = (struct.pack(">I", number % 2**32) for number in (step, step - 1, step + 1))
        answers = [sent(switch, host, here) for host in order[:-1]]
        assert sent(switch, order[-1], ahead) == []
        if step:
            assert sent(switch, order[-1], before) == [(order[-1] + 1, before)]
        answers.append(sent(switch, order[-1], here))
        assert not any(answers[:-1]) and answers[-1] == to_all(here)


def test_majority(switch_of: Callable[[str], SoftSwitch]) -> None:
    switch, draw = switch_of("majority"), random.Random(3)
    for slot, order in rounds(draw):
        votes = [draw.getrandbits(64) for _ in range(HOSTS)]
        most = sum(1 << bit for bit in range(64) if 2 * sum(vote >> bit & 1 for vote in votes) >= HOSTS)
        answers = [sent(switch, host, struct.pack(">BQ", slot, votes[host])) for host in order]
        assert not any(answers[:-1]) and answers[-1] == to_all(struct.pack(">BQ", slot, most))


def test_largest(switch_of: Callable[[str], SoftSwitch]) -> None:
    switch, draw = switch_of("largest"), random.Random(4)
    for slot, order in rounds(draw):
        numbers = [draw.choice([0, 7, 2**31, 2**32 - 1]) for _ in range(HOSTS)]
        answers = [sent(switch, host, struct.pack(">BII", slot, numbers[host], 0)) for host in order]
        whose = next(host for host in order if numbers[host] == max(numbers))
        assert not any(answers[:-1])
        assert answers[-1] == to_all(struct.pack(">BII", slot, max(numbers), 1 << whose))


def test_histogram(engine: EngineChoice) -> None:
    switch, draw = SoftSwitch((EXAMPLES / "histogram.json").read_text(), engine=engine), random.Random(5)
    numbers = [draw.getrandbits(16) >> draw.randrange(17) for _ in range(300)]
    assert not any(sent(switch, 0, struct.pack(">H", number)) for number in numbers)
    assert switch.process(1, ADDRESSES + b"\x08\x00" + bytes(46)) == []
    counted = [sum(number.bit_length() == bits for number in numbers) for bits in range(17)]
    assert switch.registers("MyIngress.buckets") == counted


@pytest.mark.parametrize("name", ["sum", "barrier", "majority", "largest"])
def test_others_are_not_answered(switch_of: Callable[[str], SoftSwitch], name: str) -> None:
    """Neither frames of another type or too short for a message, nor ports without a host."""
    switch = switch_of(name)
    for port, frame in [
        (1, ADDRESSES + b"\x08\x00" + bytes(46)),
        (1, ADDRESSES + TYPE),
        (5, ADDRESSES + TYPE + bytes(46)),
    ]:
        assert switch.process(port, frame) == []
