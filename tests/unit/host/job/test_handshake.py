# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The handshake: what workers tell each other, and how they find the run's first round."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any
from unittest import mock

import numpy as np
import pytest
from golden import model
from helpers.logs import logged, of
from helpers.transport.processes import Trouble, World, fake_link
from helpers.transport.udp_bridge import TABLE, configs, job_mapping
from numpy.typing import NDArray
from sumwire.config import JobConfig, parse_job
from sumwire.errors import MismatchError, PeerLostError, StaleRunError, SwitchLostError
from sumwire.job import handshake
from sumwire.job.handshake import Greeting, SpoiledError, UnlikeError
from sumwire.transport import udp
from sumwire.transport.buffers import Results
from sumwire.transport.switch_answers import SwitchState
from sumwire_protocol import constants as p4
from sumwire_protocol.events import Event


def leaves(workers: int, **fields: Any) -> list[JobConfig]:
    """Leaves of 20 workers."""
    mapping = {**job_mapping(workers, 8), "ops": ["max32"], **fields}
    for number, entry in enumerate(mapping["addresses"]):
        entry.update(aggregator=f"10.0.{number // 20}.250", seat=number % 20)
    return [parse_job(mapping, worker) for worker in range(workers)]


def maximum(payloads: list[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    return np.max([payload.view(">u4") for payload in payloads], axis=0).astype(">u4").view(np.uint8)


def exchange_nonces(greetings: list[Greeting], senders: list[Greeting] | None = None) -> None:
    """All of them take in the sums of the ``senders``' nonces; all send if none are named."""
    for group in greetings[0].groups:
        for block in greetings[0].blocks:
            everyone = senders or greetings
            words = maximum([everyone[worker].nonce(block) for worker in group])
            for greeting in greetings:
                greeting.take_nonces(block, group, words)


@pytest.mark.parametrize("workers", [1, 2, 32, 33, 100])
def test_all_workers_recognise_each_other(workers: int) -> None:
    greetings = [Greeting(config, {}) for config in leaves(workers)]
    exchange_nonces(greetings)
    words = maximum([greeting.digests() for greeting in greetings])
    for greeting in greetings:
        greeting.check_digests(words)
        assert greeting.nonces == greetings[0].nonces
    assert all(greetings[0].nonces)


@pytest.mark.parametrize("place", [0, 39])
def test_a_dead_processs_nonce_is_noticed_by_its_successor_and_by_all(place: int) -> None:
    greetings = [Greeting(config, {}) for config in leaves(40)]
    before = list(greetings)
    before[place] = Greeting(leaves(40)[place], {})
    others = [greeting for worker, greeting in enumerate(greetings) if worker != place]
    exchange_nonces(others, before)
    block = place // 32
    with pytest.raises(SpoiledError, match="not those of this run"):
        greetings[place].take_nonces(block, greetings[0].groups[0], maximum([one.nonce(block) for one in before]))
    # The successor has seen its own nonce elsewhere, so its digest is another one.
    greetings[place].take_nonces(1 - block, greetings[0].groups[0], maximum([one.nonce(1 - block) for one in before]))
    words = maximum([greeting.digests() for greeting in greetings])
    for greeting in greetings:
        with pytest.raises(SpoiledError, match="not all seen the same"):
            greeting.check_digests(words)


@pytest.mark.parametrize("element", [1, 2, 31])
def test_a_nonce_that_is_missing_and_one_of_nobody(element: int) -> None:
    greetings = [Greeting(config, {}) for config in leaves(2)]
    words = maximum([greeting.nonce(0) for greeting in greetings])
    words.reshape(-1).view(">u4")[element] = 0 if element < 2 else 9
    with pytest.raises(SpoiledError):
        greetings[0].take_nonces(0, [0, 1], words)


def test_other_settings_of_one_of_many_are_told_to_all() -> None:
    greetings = [Greeting(config, {"block": 1 if config.worker == 37 else 2}) for config in leaves(40)]
    exchange_nonces(greetings)
    words = maximum([greeting.digests() for greeting in greetings])
    for greeting in greetings:
        with pytest.raises(UnlikeError):
            greeting.check_digests(words)


@pytest.mark.parametrize(("workers", "quorum"), [(5, 2), (4, 3), (3, 1), (4, 4), (6, 3)])
def test_groups_have_a_quorum_each_and_all_workers_together(workers: int, quorum: int) -> None:
    greeting = Greeting(leaves(workers, quorum=quorum)[0], {})
    assert all(len(group) == quorum for group in greeting.groups)
    assert {worker for group in greeting.groups for worker in group} == set(range(workers))
    assert greeting.announces == (quorum < workers)


def sums(config: JobConfig, table: tuple[int, ...], without: int | None = None) -> Results:
    """The switch's sum of all workers' known indices by this table, as the wire has it."""
    inside = [worker for worker in range(config.workers) if worker != without]
    planes = [Greeting(replace(config, worker=worker), {}).indices() for worker in inside]
    values = np.sum([np.array(table)[model.from_planes(one.tobytes())] for one in planes], axis=0)
    words = np.frombuffer(model.to_planes(values, 8), np.uint8).reshape(1, 8, 128)
    one = np.ones(1, np.uint8)
    bitmap = np.array([sum(1 << worker for worker in inside)], np.uint32)
    return Results(words, one * len(inside), bitmap, one * 0, one * 0)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_the_switchs_table_is_the_job_files(workers: int) -> None:
    everyone = leaves(workers, ops=["max32", "thc"])
    for config in everyone:
        Greeting(config, {}).check_table(sums(config, TABLE))


@pytest.mark.parametrize("index", range(1, 16))
@pytest.mark.parametrize("workers", [1, 3])
def test_every_entry_of_the_table_is_tried(workers: int, index: int) -> None:
    config = leaves(workers, ops=["max32", "thc"])[0]
    other = [*TABLE[:index], TABLE[index] - 1, *TABLE[index + 1 :]]
    with pytest.raises(MismatchError, match=r"value \d+, indices \[.*: the sum is \d+, by the job file \d+; apply"):
        Greeting(config, {}).check_table(sums(config, tuple(other)))


def test_a_sum_without_one_worker_is_right_too_if_it_says_so() -> None:
    config = leaves(3, ops=["max32", "thc"], quorum=2)[0]
    results = sums(config, TABLE, without=1)
    Greeting(config, {}).check_table(results)
    with pytest.raises(MismatchError):
        Greeting(config, {}).check_table(replace(results, contributors=np.array([0b110], np.uint32)))


def test_sums_that_an_experiment_has_changed_say_nothing_about_the_table() -> None:
    config = leaves(3, ops=["max32", "thc"])[0]
    results = sums(config, TABLE, without=1)
    Greeting(config, {}).check_table(replace(results, flags=np.array([p4.FLAG_MISSING], np.uint8)))
    Greeting(config, {}).check_table(replace(results, cuts=np.array([2], np.uint8)))


class OvertakenTransport:
    """Its switch always has a newer round than the greeting."""

    silence_s = 3.0
    newest_round = None

    def __init__(self, digest: int) -> None:
        self.round, self.digest, self.next_sequence = 0, digest, 0

    def hello(self, timeout_s: float) -> SwitchState:
        return SwitchState(self.round, 0, False, self.digest, p4.PROGRAM_REVISION, 1)

    def exchange(self, *_: Any) -> Any:
        self.round += handshake.ROUNDS_APART
        raise StaleRunError("overtaken", slot=0, round_=self.round)

    def restart(self) -> None:
        """Nothing is under way."""

    def rebase(self, first_round: int) -> None:
        """No packet is sent."""

    def enter_run(self, token: int) -> None:
        """No packet is sent."""


class AnsweringTransport(OvertakenTransport):
    """Its switch answers once for every state, and its greetings are overtaken in the round of ``stale``."""

    def __init__(self, digest: int, states: list[tuple[int, int, bool]], stale: tuple[int, int] = (0, 0)) -> None:
        super().__init__(digest)
        self.states, self.stale = states, stale
        self.begun: list[int] = []

    def hello(self, timeout_s: float) -> SwitchState:
        if not self.states:
            raise PeerLostError("enough; start all workers again")
        round_, contributors, closed = self.states.pop(0)
        return SwitchState(round_, contributors, closed, self.digest, p4.PROGRAM_REVISION, 1)

    def rebase(self, first_round: int) -> None:
        self.begun.append(first_round)

    def exchange(self, *_: Any) -> Any:
        slot, round_ = self.stale
        raise StaleRunError("overtaken", slot=slot, round_=round_)


class Group:
    """The time-out policy of a group that one rank leaves after three questions."""

    def __init__(self) -> None:
        self.asked = 0

    def waiting(self, waited_s: float, missing: Collection[int] | None) -> None:
        self.asked += 1
        if self.asked == 3:
            raise PeerLostError("worker 1 has ended; start all workers again")

    def switch_lost(self, error: SwitchLostError) -> None:
        raise error


def test_a_worker_whose_greetings_are_always_overtaken_learns_that_another_has_gone() -> None:
    config = configs(job_mapping(2, 8))[0]
    with logged() as lines, pytest.raises(PeerLostError):
        handshake.join(OvertakenTransport(config.digest), config, {}, timeout_policy=Group())  # type: ignore[arg-type]
    assert [line["round"] for line in of(lines, Event.GREETING_REPEATED)] == [
        0,
        handshake.ROUNDS_APART,
        2 * handshake.ROUNDS_APART,
    ]


LAST = 2**32 - 16


@pytest.mark.parametrize(
    ("round_", "contributors", "closed", "first"),
    [
        (0, 0, False, 0),  # nobody has used it
        (48, 0b10, False, 48),  # worker 1 waits there
        (48, 0b01, False, 64),  # a packet of this worker's earlier process does
        (48, 0b11, True, 64),
        (57, 0b11, True, 80),
        (57, 0b10, False, 80),  # worker 1 was killed in the middle of a run
        (LAST, 0b11, True, 0),
        (LAST + 1, 0b11, True, 16),
    ],
)
def test_a_run_begins_in_a_multiple_of_16_rounds(round_: int, contributors: int, closed: bool, first: int) -> None:
    config = configs(job_mapping(2, 8))[0]
    transport = AnsweringTransport(config.digest, [(round_, contributors, closed)])
    with pytest.raises(PeerLostError):
        handshake.join(transport, config, {}, timeout_policy=Group())  # type: ignore[arg-type]
    assert transport.begun == [first]


@pytest.mark.parametrize(("stale", "first"), [((0, 32), 32), ((0, 35), 64), ((3, 33), 16)])
def test_so_does_one_that_has_been_overtaken(stale: tuple[int, int], first: int) -> None:
    """The answer to the second question was sent before."""
    config = configs(job_mapping(2, 8))[0]
    transport = AnsweringTransport(config.digest, [(0, 0, False), (0, 0b01, False)], stale)
    with pytest.raises(PeerLostError):
        handshake.join(transport, config, {}, timeout_policy=Group())  # type: ignore[arg-type]
    assert transport.begun == [0, first]


BAD = Trouble(drop=0.03, duplicate=0.05, late=0.03, replay=0.05)


@pytest.fixture(autouse=True)
def _in_the_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transports use the link of the process that is running, and nonces are the seed's."""
    rng = random.Random(1)
    monkeypatch.setattr(udp, "Link", fake_link)
    monkeypatch.setattr(handshake.secrets, "randbelow", rng.randrange)


def mapping_of(workers: int, slots: int) -> dict[str, Any]:
    return {**job_mapping(workers, slots), "ops": ["thc", "max32", "sum32"]}


def play(
    seed: int,
    mapping: dict[str, Any],
    trouble: Trouble,
    *,
    apart_s: float,
    kills: int,
    kill_s: float,
) -> World:
    """Workers start within ``apart_s`` seconds; ``kills`` times in ``kill_s`` seconds one or all of them are killed.

    Ends when all are together and have had three more sums after the last kill.
    """
    world = World(seed, mapping, trouble)
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
@pytest.mark.few(8)
def test_one_switch(slots: int, seed: int) -> None:
    mapping = mapping_of(random.Random(seed).randint(1, 4), slots)
    world = play(seed, mapping, BAD, apart_s=2.0, kills=6, kill_s=8.0)
    assert world.killed > 0


@pytest.mark.parametrize("seed", range(4))
def test_one_worker_that_starts_again_and_again(seed: int) -> None:
    mapping = mapping_of(3, 3)
    world = World(seed, mapping, BAD)
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
    world = World(seed, mapping, Trouble())
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
        monkeypatch.setattr(handshake, "_SPOILED_MOST", 0)
    mapping = mapping_of(2, 8)
    world = LateNonce(1, mapping, Trouble())
    for worker in range(2):
        world.at(0.02 * worker, partial(world.start, worker))
    try:
        world.play(lambda: world.together(3), limit_s=100.0)
    finally:
        world.end()
    assert world.killed == 1
    # Without the rule processes end with an error, and somebody must start them again.
    assert (world.started == 3) == again


def test_nobody_greets_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Byzantine switch let greetings of ranks overtake each other."""
    greetings = iter(range(1000))

    def overtaken(_: object) -> None:
        assert next(greetings, None) is not None, "for ever"
        raise StaleRunError("a later run", slot=1, round_=16)

    monkeypatch.setattr(handshake._Joining, "_greet", overtaken)
    monkeypatch.setattr(handshake._Joining, "_choose", lambda *_: 0)
    transport, timeout_policy = mock.Mock(newest_round=None), mock.Mock()
    with pytest.raises(StaleRunError, match="200 greetings were begun"):
        handshake.join(transport, leaves(2)[0], {}, timeout_policy=timeout_policy)


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
        monkeypatch.setattr(handshake, "_later", lambda round_: round_ + handshake.ROUNDS_APART)
        monkeypatch.setattr(handshake, "_first_from", lambda round_: round_)
    mapping = mapping_of(2, 8)
    world = DeadInBetween(1, mapping, Trouble())
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
