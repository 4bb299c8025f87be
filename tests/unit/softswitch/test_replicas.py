# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Multicast, unicast and drops; every replica passes egress with the state that ingress left."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from softswitch.runtime.entries import CounterValue, Replica
from softswitch.switch import SoftSwitch

NORMAL, REPLICA = 0, 5


@pytest.fixture
def switch(switch_for: Callable[[str], SoftSwitch]) -> SoftSwitch:
    return switch_for("multicast")


def probe(group: int, port: int, note: int) -> bytes:
    return struct.pack(">HHHHII", group, port, note, 0xEEEE, 0xEEEE, 0xEEEE) + b"rest"


def fields(frame: bytes) -> tuple[int, ...]:
    return struct.unpack(">HHHHII", frame[:16])


def test_every_replica_starts_from_the_same_state(switch: SoftSwitch) -> None:
    switch.set_group(7, [Replica(1, 1), Replica(2, 2), Replica(3, 3), Replica(1, 9)])
    out = switch.process(5, probe(7, 0, 40))
    assert [port for port, _ in out] == [1, 2, 3, 1]
    # group, egress port, the note of ingress (41, never 141), rid, instance type, packet length
    assert [fields(frame) for _, frame in out] == [
        (7, 1, 41, 1, REPLICA, 20),
        (7, 2, 41, 2, REPLICA, 20),
        (7, 3, 41, 3, REPLICA, 20),
        (7, 1, 41, 9, REPLICA, 20),
    ]
    # Only the replica with rid 2 carries the extra header, before the payload.
    assert [frame[16:] for _, frame in out] == [b"rest", bytes.fromhex("01020304") + b"rest", b"rest", b"rest"]


def test_a_replica_dropped_in_egress_does_not_drop_the_others(switch: SoftSwitch) -> None:
    switch.set_group(1, [Replica(4, 1), Replica(5, 2), Replica(4, 3), Replica(6, 3)])
    assert [port for port, _ in switch.process(0, probe(1, 0, 0))] == [5, 6]
    counted = [switch.read_counter("egress.copies", port).packets for port in range(8)]
    assert counted == [0, 0, 0, 0, 2, 1, 1, 0]
    assert switch.read_counter("egress.copies", 4) == CounterValue(2, 40)


def test_unicast(switch: SoftSwitch) -> None:
    ((port, frame),) = switch.process(0, probe(0, 6, 1))
    assert port == 6
    assert fields(frame) == (0, 6, 2, 0, NORMAL, 20)


def test_nothing_assigned_is_port_zero(switch: SoftSwitch) -> None:
    assert [port for port, _ in switch.process(3, probe(0, 0, 0))] == [0]


def test_drops(switch: SoftSwitch) -> None:
    switch.set_group(9, [Replica(1, 1)])
    assert switch.process(0, probe(0, 0xFFFF, 0)) == []  # mark_to_drop takes back mcast_grp = 9
    assert switch.process(0, probe(0, 511, 0)) == []  # the drop port
    assert switch.process(0, probe(0, 4, 0)) == []  # dropped in egress
    assert switch.process(0, probe(8, 1, 0)) == []  # a group that does not exist


def test_a_group_wins_over_the_drop_port(switch: SoftSwitch) -> None:
    switch.set_group(2, [Replica(1, 1)])
    assert [port for port, _ in switch.process(0, probe(2, 511, 0))] == [1]


def test_an_empty_group_sends_nothing(switch: SoftSwitch) -> None:
    switch.set_group(2, [])
    assert switch.process(0, probe(2, 1, 0)) == []
