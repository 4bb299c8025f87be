# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The process group of simulated ranks: collectives over a network of its own, which only the end of a rank breaks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import torch
import torch.distributed as dist
from sumwire.errors import GroupError

from simulate.world import Process, Thread, World

# How often a rank that waits looks around.
_LOOK_S: Final = 0.25
_DELAYS_S: Final = (0.0002, 0.003)
# A lost connection is noticed so late.
_NOTICED_S: Final = 0.005

Tensors = list[torch.Tensor]


@dataclass
class Collective:
    """One collective: what each rank gives, and where its result goes."""

    given: dict[int, tuple[str, Any, Tensors]] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)
    waiters: list[Thread] = field(default_factory=list)


class Group:
    """A group as all ranks share it."""

    def __init__(self, world: World, ranks: int) -> None:
        self.ranks = ranks
        self.broken = False
        self.collectives: list[Collective] = []
        self._world = world

    def enter(self, rank: int, number: int, name: str, options: Any, tensors: Tensors) -> Collective:
        """A rank begins its collective of this number."""
        while len(self.collectives) <= number:
            self.collectives.append(Collective())
        collective = self.collectives[number]
        if self.broken:
            raise RuntimeError("Connection closed by peer")
        collective.given[rank] = name, options, tensors
        if len(collective.given) == self.ranks:
            for one in range(self.ranks):
                self._world.after(self._world.rng.uniform(*_DELAYS_S), partial(self._finish, collective, one))
            _carry_out(self._world, collective)
        return collective

    def _finish(self, collective: Collective, rank: int) -> None:
        collective.done.add(rank)
        self._tell(collective)

    def break_up(self) -> None:
        """A rank has left it."""
        if not self.broken:
            self._world.after(_NOTICED_S, self._break)

    def _break(self) -> None:
        self.broken = True
        for collective in self.collectives:
            self._tell(collective)

    def _tell(self, collective: Collective) -> None:
        waiters, collective.waiters = collective.waiters, []
        for thread in waiters:
            self._world.wake(thread)


@dataclass
class _Run:
    """The groups of one run of all ranks. ``incomplete``: a rank has ended, so that no group can be whole any more."""

    groups: list[Group] = field(default_factory=list)
    incomplete: bool = False

    def lose(self) -> None:
        self.incomplete = True
        for group in self.groups:
            group.break_up()


class Groups:
    """All groups of a job's ranks: each rank makes its own in the same order."""

    def __init__(self, world: World, ranks: int) -> None:
        self.world = world
        self.ranks = ranks
        self._run = _Run()
        self._rank_of: dict[Process, int] = {}
        self._made: dict[Process, int] = {}

    def begin(self) -> None:
        """All ranks start: they meet in groups that are new."""
        self._run, self._rank_of, self._made = _Run(), {}, {}

    def add(self, process: Process, rank: int) -> None:
        self._rank_of[process] = rank
        self._made[process] = 0
        process.on_death.append(self._run.lose)

    def rank(self) -> int:
        return self._rank_of[self.world.process]

    def join(self) -> Group:
        """The next group of the rank that runs."""
        process, run = self.world.process, self._run
        number = self._made[process]
        self._made[process] += 1
        while len(run.groups) <= number:
            run.groups.append(Group(self.world, self.ranks))
            if run.incomplete:
                run.groups[-1].break_up()
        return run.groups[number]


class GlooGroup:
    """sumwire.job.gloo.GlooGroup, of all ranks."""

    def __init__(self, groups: Groups | None, ranks: None = None) -> None:
        assert groups is not None and ranks is None
        self.rank, self.ranks = groups.rank(), groups.ranks
        self._world = groups.world
        self._group = groups.join()
        self._number = 0
        self._under_way = False

    def close(self) -> None:
        # One that everybody has left is not waited in any more.
        self._group.break_up()

    def run(self, start: Callable[[Any], Collective], check: Callable[[], None]) -> None:
        if self._under_way:
            raise GroupError("an earlier collective was left: the group cannot be used any more; make a new Job")
        self._under_way = True
        world = self._world
        try:
            collective = start(self)
            while self.rank not in collective.done:
                if self._group.broken:
                    raise RuntimeError("Connection closed by peer")
                assert world.current is not None
                collective.waiters.append(world.current)
                world.sleep(world.now + _LOOK_S)
                check()
            self._under_way = False
        except RuntimeError as error:
            raise GroupError(str(error)) from error

    def _enter(self, name: str, options: Any, *tensors: torch.Tensor) -> Collective:
        self._number += 1
        return self._group.enter(self.rank, self._number - 1, name, options, list(tensors))

    def alltoall_base(self, received: torch.Tensor, sent: torch.Tensor, *_: list[int]) -> Collective:
        return self._enter("alltoall", None, received, sent.clone())

    def broadcast(self, tensors: Tensors, options: Any) -> Collective:
        return self._enter("broadcast", options.rootRank, *tensors)

    def allgather(self, everyone: list[Tensors], own: Tensors) -> Collective:
        return self._enter("allgather", None, own[0].clone(), *everyone[0])

    def allreduce(self, tensors: Tensors, op: Any) -> Collective:
        return self._enter("allreduce", op, *tensors)


def _carry_out(world: World, collective: Collective) -> None:
    names = {(name, tensors[0].numel()) for name, _, tensors in collective.given.values()}
    if len(names) != 1:
        world.violate(f"the ranks are in different collectives: {sorted(names)}")
        return
    [(name, _)] = names
    given = [collective.given[rank] for rank in range(len(collective.given))]
    tensors = [each for _, _, each in given]
    if name == "alltoall":
        for rank, (received, _) in enumerate(tensors):
            parts = [sent.view(len(given), -1)[rank] for _, sent in tensors]
            received.copy_(torch.cat(parts))
    elif name == "broadcast":
        roots = {root for _, root, _ in given}
        if len(roots) != 1:
            world.violate(f"the ranks broadcast from different ones: {roots}")
        for each in tensors:
            each[0].copy_(tensors[min(roots)][0])
    elif name == "allgather":
        for each in tensors:
            for place, other in zip(each[1:], tensors, strict=True):
                place.copy_(other[0])
    else:
        total = torch.stack([each[0] for each in tensors])
        op = given[0][1]
        reduce: dict[Any, Callable[..., torch.Tensor]] = {
            dist.ReduceOp.SUM: partial(torch.sum, dtype=total.dtype),
            dist.ReduceOp.MAX: torch.amax,
            dist.ReduceOp.MIN: torch.amin,
        }
        reduced = reduce[op](total, 0)
        for each in tensors:
            each[0].copy_(reduced)
