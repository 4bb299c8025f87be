# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Ranks of a job in one thread, with a drawn schedule: their calls, a switch that comes and goes, links that fail,
ranks that are stopped or killed, and rounds whose parts reach each rank at another time.

Every result has a value that tells how it was made. Equal lists of values on all ranks mean equal replicas.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sumwire.job.coordination import Coordinator, Decision, FallBack, OwnRank, Return
from sumwire.job.heartbeat import Failure, RankStatus

# Ticks without an answer after which a rank has lost the switch, and ticks without a result after which it stalls.
SILENT, STALLED = 8, 60
PEER_LOST = Failure("PeerLostError", "a rank has died")


@dataclass
class Network:
    """The switch: what it has of every operation since its latest start. ``links``: by rank, up or down."""

    ranks: int
    quorum: int
    up: bool = True
    starts: int = 0
    links: list[bool] = field(default_factory=list)
    contributions: dict[tuple[int, int], set[int]] = field(default_factory=dict)
    calls: dict[tuple[int, int], str] = field(default_factory=dict)
    sums: dict[tuple[int, int], Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.links = [True] * self.ranks

    def answers(self, rank: int) -> bool:
        return self.up and self.links[rank]

    def restart(self) -> None:
        self.up = True
        self.starts += 1
        self.contributions.clear()
        self.calls.clear()
        self.sums.clear()

    def give(self, rank: int, run: int, operation: int, call: str, *, greeting: bool) -> Any:
        """A contribution. Returns the sum if it is there. Another call than the first one's is refused."""
        place = (run, operation)
        if self.calls.setdefault(place, call) != call:
            return None
        given = self.contributions.setdefault(place, set())
        given.add(rank)
        if len(given) >= (self.ranks if greeting else self.quorum):
            self.sums.setdefault(place, ("switch", self.starts, run, operation, tuple(sorted(given))))
        return self.sums.get(place)


class SimulatedRank:
    """One rank: its calls, its control thread, and what it has got."""

    def __init__(self, number: int, world: World) -> None:
        self.number = number
        self.world = world
        self.member = OwnRank(number)
        self.agreement = Coordinator("sim", world.network.quorum)
        self.results: list[Any] = []
        self.decisions: list[Decision] = []
        self.inbox: list[list[RankStatus]] = []
        self.sent = False
        self.handed: dict[int, Any] = {}
        self.run = 0
        self.first_of_run = 0
        self.silent = self.waited = 0
        self.busy_until = 0
        self.stopped_until = 0
        self.dead = False

    @property
    def finished(self) -> bool:
        return self.dead or self.member.ended

    def tick(self, now: int) -> None:
        """One step of one of the rank's two threads."""
        if self.finished or now < self.stopped_until:
            return
        if self.world.rng.random() < 0.5:
            self.control()
        elif not self.member.working:
            self.between(now)
        elif self.member.users:
            self.exchange()
        elif not self.member.network:
            self.without_switch()

    def between(self, now: int) -> None:
        member = self.member
        if now < self.busy_until:
            return
        if member.completed == self.world.operations[self.number]:
            member.closing = True
        elif member.may_begin:
            call = self.world.calls.get((self.number, member.completed), "mean of 10 values")
            self.silent = self.waited = 0
            member.begin(call)

    def exchange(self) -> None:
        member, network = self.member, self.world.network
        if member.halting:
            member.leave_network()
        elif not network.answers(self.number):
            self.silent += 1
            if self.silent >= SILENT:
                member.lost = "the switch does not answer"
                member.leave_network()
        elif self.world.rng.random() < 0.5:
            self.silent = 0
            self.waited += 1
            member.stalled = self.waited > STALLED
            greeting = not member.greeted or member.completed == self.first_of_run
            found = network.give(self.number, self.run, member.completed, member.call, greeting=greeting)
            if found is not None and self.world.rng.random() < 0.7:
                member.greeted = True
                member.leave_network()
                self.finish(found)

    def without_switch(self) -> None:
        member = self.member
        if member.handed_out:
            self.finish(self.handed[member.completed])
        else:
            entered = self.world.ordinary.setdefault(member.completed, {})
            entered[self.number] = member.call
            if len(entered) == len(self.world.ranks) and len({*entered.values()}) == 1:
                self.finish(("group", member.completed))

    def finish(self, result: Any) -> None:
        assert self.member.completed == len(self.results)
        self.results.append(result)
        self.member.finish(by_network=False)
        if self.world.rng.random() < 0.3:
            self.busy_until = self.world.now + self.world.rng.randrange(200)

    def control(self) -> None:
        """A part of a round: send the own standing, or take the vector."""
        if self.world.died:
            self.member.failure = PEER_LOST
        elif not self.sent:
            member = self.member
            member.sees_switch = not member.network and self.world.network.answers(self.number)
            self.world.send(RankStatus.decode(member.status(kept_from=0).encode()))
            self.sent = True
        elif self.inbox:
            self.sent = False
            self.follow(self.inbox.pop(0))

    def follow(self, vector: list[RankStatus]) -> None:
        decision = self.agreement.step(vector)
        if decision is None:
            return
        self.decisions.append(decision)
        if isinstance(decision, FallBack):
            for hand_out in decision.hand_outs:
                self.handed[hand_out.operation] = self.world.ranks[hand_out.giver].results[hand_out.operation]
        if isinstance(decision, Return):
            self.run += 1
            self.first_of_run = decision.operation
        self.member.apply(decision)


class World:
    """``operations``: calls that each rank makes before it closes."""

    def __init__(self, seed: int, ranks: int, quorum: int, operations: list[int]) -> None:
        self.rng = random.Random(seed)
        self.network = Network(ranks, quorum)
        self.operations = operations
        self.calls: dict[tuple[int, int], str] = {}
        self.ordinary: dict[int, dict[int, str]] = {}
        self.now = 0
        self.ranks = [SimulatedRank(number, self) for number in range(ranks)]
        self._sent: dict[int, RankStatus] = {}

    @property
    def died(self) -> bool:
        return any(rank.dead for rank in self.ranks)

    def send(self, standing: RankStatus) -> None:
        self._sent[standing.worker] = standing
        if len(self._sent) == len(self.ranks):
            vector = [self._sent[number] for number in range(len(self.ranks))]
            self._sent = {}
            for rank in self.ranks:
                rank.inbox.append(vector)

    def run(self, events: Iterator[None] | None = None, most: int = 30_000) -> None:
        """Until every rank has ended. Fails if one hangs. ``events`` goes on once a tick."""
        while not all(rank.finished for rank in self.ranks):
            assert self.now < most, [vars(rank.member) for rank in self.ranks if not rank.finished]
            self.now += 1
            next(events or iter(()), None)
            for rank in self.rng.sample(self.ranks, len(self.ranks)):
                rank.tick(self.now)
