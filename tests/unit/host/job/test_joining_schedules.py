# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Workers join a run whatever happened before and meanwhile: random schedules of starts, kills and bad networks.

Property of every schedule: all live workers end in one run, with the same nonces, and every sum that any process ever
gets is that of exactly the processes of its run.
"""

from __future__ import annotations

import random
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from golden import model
from helpers.transport.processes import Node, Trouble, World, fake_link, star, tree
from helpers.transport.udp_bridge import job_mapping
from sumwire.job import greeting, joining
from sumwire.transport import udp

BAD = Trouble(drop=0.03, duplicate=0.05, late=0.03, replay=0.05)
TREES = [[1, 1], [2, 1], [2, 2], [1, 2, 1]]


@pytest.fixture(autouse=True)
def _in_the_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transports use the link of the process that is running, and nonces are the seed's."""
    rng = random.Random(1)
    monkeypatch.setattr(udp, "Link", fake_link)
    monkeypatch.setattr(greeting.secrets, "randbelow", rng.randrange)


def mapping_of(workers: int, slots: int) -> dict[str, Any]:
    return {**job_mapping(workers, slots), "ops": ["thc", "max32", "sum32"]}


def play(
    seed: int,
    mapping: dict[str, Any],
    nodes: list[Node],
    trouble: Trouble,
    *,
    apart_s: float,
    kills: int,
    kill_s: float,
    pause_s: float = 0.1,
) -> World:
    """Workers start within ``apart_s`` seconds; ``kills`` times in ``kill_s`` seconds one or all of them are killed.

    Ends when all are together and have had three more sums after the last kill.
    """
    world = World(seed, mapping, nodes, trouble)
    world.pause_s = pause_s
    rng, workers = world.rng, range(len(world.configs))
    for worker in workers:
        world.at(rng.uniform(0, apart_s), partial(world.start, worker))
    last = 0.0
    for _ in range(kills):
        at = rng.uniform(0, kill_s)
        last = max(last, at)
        everyone = rng.random() < 0.3
        for worker in workers if everyone else [rng.choice(workers)]:
            world.at(at, partial(world.kill, worker, rng.uniform(0, 3)))
    try:
        world.play(lambda: world.now > max(last, apart_s), limit_s=last + apart_s + 1000)
        world.play(lambda: world.together(3), limit_s=world.now + 300)
    finally:
        world.end()
    return world


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("slots", [2, 3, 5, 8, 64])
def test_one_switch(slots: int, seed: int) -> None:
    mapping = mapping_of(random.Random(seed).randint(1, 4), slots)
    world = play(seed, mapping, star(mapping), BAD, apart_s=2.0, kills=6, kill_s=8.0)
    assert world.killed > 0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("leaves", TREES)
def test_a_tree_of_switches(leaves: list[int], seed: int) -> None:
    mapping, nodes = tree(mapping_of(sum(leaves), [2, 3, 8][seed]), leaves)
    play(seed, mapping, nodes, BAD, apart_s=2.0, kills=6, kill_s=8.0)


@pytest.mark.parametrize("seed", range(3))
def test_workers_that_start_minutes_apart(seed: int) -> None:
    mapping = mapping_of(3, 8)
    play(seed, mapping, star(mapping), BAD, apart_s=150.0, kills=3, kill_s=150.0, pause_s=3.0)


@pytest.mark.parametrize("seed", range(4))
def test_one_worker_that_starts_again_and_again(seed: int) -> None:
    mapping = mapping_of(3, 3)
    world = World(seed, mapping, star(mapping), BAD)
    for worker in range(3):
        world.at(0.0, partial(world.start, worker))
    for number in range(40):
        world.at(0.3 * number, partial(world.kill, 1, 0.05))
    try:
        world.play(lambda: world.now > 12.0 and world.together(3), limit_s=300.0)
    finally:
        world.end()
    assert world.killed > 20


@pytest.mark.parametrize("seed", range(4))
def test_a_quiet_network_needs_one_greeting_for_each_run(seed: int) -> None:
    """Five runs one after the other, all killed in the middle of it."""
    mapping = mapping_of(3, 5)
    world = World(seed, mapping, star(mapping), Trouble())
    firsts = []
    try:
        for number in range(5):
            for worker in range(3):
                world.at(world.now + world.rng.uniform(0, 1), partial(world.start, worker))
            world.play(lambda: world.together(2), limit_s=100.0 * (number + 1))
            firsts.append({process.run.first_round for process in world.processes.values() if process.run})
            world.end()
    finally:
        world.end()
    assert [len(first) for first in firsts] == [1] * 5
    rounds = [first.pop() for first in firsts]
    assert rounds[0] == 0
    assert all(later - earlier >= 16 for earlier, later in pairwise(rounds))


class LateNonce(World):
    """Spin's schedule without the rule AGAIN: worker 1 is killed, and its packet reaches the switch just before that of
    its new process, which has been told that it is not in."""

    late: bytes = b""

    def send_up(self, worker: int, datagram: bytes) -> None:
        packet = model.decode(datagram)
        if worker == 0 or packet.kind != model.CONTRIBUTE:
            super().send_up(worker, datagram)
        elif self.processes[1].number == 2:
            if not self.late:
                self.at(self.now + 0.001, partial(self.kill, 1, 0.02))
            self.late = self.late or datagram
        else:
            super().send_up(1, self.late or datagram)
            self.late = b""


@pytest.mark.parametrize("again", [True, False])
def test_a_greeting_that_a_late_packet_has_spoiled_begins_again(again: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not again:
        monkeypatch.setattr(joining, "_SPOILED_MOST", 0)
    mapping = mapping_of(2, 8)
    world = LateNonce(1, mapping, star(mapping), Trouble())
    for worker in range(2):
        world.at(0.02 * worker, partial(world.start, worker))
    try:
        world.play(lambda: world.together(3), limit_s=100.0)
    finally:
        world.end()
    assert world.killed == 1
    # Without the rule processes end with an error, and somebody must start them again.
    assert (world.started == 3) == again


class DeadInBetween(World):
    """Spin's schedule without the rule MULTIPLES: worker 0 has been told of round 17. Before its packet arrives, one of
    its earlier process does in round 32, and worker 1 joins there."""

    held: bytes = b""

    def send_up(self, worker: int, datagram: bytes) -> None:
        packet = model.decode(datagram)
        if packet.kind == model.CONTRIBUTE and worker == 0 and not self.held:
            self.held = datagram
            dead = packet._replace(round=32, payload=b"\0\0\0\7" + packet.payload[4:])
            super().send_up(0, dead.encode())
            self.at(self.now + 0.02, partial(self.start, 1))
        elif packet.kind == model.CONTRIBUTE and worker == 0 and 1 not in self.processes:
            return
        elif packet.kind == model.CONTRIBUTE and worker == 1 and packet.slot == 1 and self.held:
            super().send_up(0, self.held)
            super().send_up(1, datagram)
        else:
            super().send_up(worker, datagram)


@pytest.mark.parametrize("multiples", [True, False])
def test_greetings_in_different_rounds_meet(multiples: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not multiples:
        monkeypatch.setattr(joining, "_later", lambda round_: round_ + joining.ROUNDS_APART)
        monkeypatch.setattr(joining, "_first_from", lambda round_: round_)
    mapping = mapping_of(2, 8)
    world = DeadInBetween(1, mapping, star(mapping), Trouble())
    for worker, config in enumerate(world.configs):
        nonces = model.Packet(
            model.CONTRIBUTE, model.MAX32, config.job, 0, worker, 1, 17, 0, 0, 1, 65535, 0, b"\0\0\0\5" * 32
        )
        World.send_up(world, worker, nonces.encode())
    world.at(1.0, partial(world.start, 0))
    try:
        if multiples:
            world.play(lambda: world.together(3), limit_s=100.0)
            assert world.started == 2
        else:
            with pytest.raises(AssertionError, match="no agreement"):
                world.play(lambda: world.together(3), limit_s=100.0)
    finally:
        world.end()
