# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Plays one schedule: workers train, faults happen, runs that fail are begun again, and all results are checked."""

from __future__ import annotations

import contextlib
import gc
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from sumwire.codec.thc import BLOCK_VALUES
from sumwire.delivery import Delivery
from sumwire.dlcp.lanes import Lanes
from sumwire.errors import SumwireError
from sumwire.job.job import Job

from simulate.adversary import Adversary
from simulate.aggregator import LOOK_S, AggregatorSwitch
from simulate.company import Company, LaneCompany
from simulate.doubles import instead_of_the_system
from simulate.groups import Groups
from simulate.machine import Machine
from simulate.network import Network, job_of
from simulate.preempt import Preempter
from simulate.schedule import Fault, Schedule, Step
from simulate.witness import Witness
from simulate.workload import Got, exchanged, given, wrong
from simulate.world import Process, World

# A schedule that is not over by then hangs, in seconds of its own time.
LIMIT_S: Final = 1000.0
# Runs after which one must have ended well: faults are over by then.
_RUNS_MOST: Final = 12
# A process whose threads were preempted for so long has been slow enough for an error without any other fault.
_HELD_S: Final = 1.0
_REST_S: Final = 2.0
# The controller looks at switches that have come back so much later.
_CONTROLLER_S: Final = 0.5
# The longest that nothing can come through, after which an error is right.
_DEADLINE_S: Final = 10.0
# The same while workers greet: they start within 3 seconds of each other.
_JOIN_S: Final = 12.0


@dataclass
class Rank:
    """One process of a worker in one run. ``number``: of its values, which are others in each process. ``runs``: the
    tokens with which it has got its results. ``error``: what it ended with. ``closed``: by another thread."""

    process: Process
    number: int
    got: list[Got] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)
    error: SumwireError | None = None
    finished: bool = False
    job: Job | Lanes | None = None
    closed: bool = False

    @property
    def over(self) -> bool:
        return self.finished or self.error is not None or self.process.dead


@dataclass
class Outcome:
    """``violations``: empty if all went well. ``digest``: of everything that happened."""

    violations: list[str]
    virtual_s: float
    frames: int
    turns: int
    runs: int
    errors: list[str]
    trace: list[str]


class Play:
    """One schedule under way."""

    def __init__(self, schedule: Schedule, *, traced: bool = False) -> None:
        self.schedule = schedule
        self.world = world = World(schedule.seed, traced=traced)
        if schedule.preemption is not None:
            world.tracer = Preempter(world, schedule.preemption).trace
        self.network = Network(world, schedule.terms, schedule.weather)
        if schedule.aggregator:
            config, network = job_of(schedule.terms, 0), self.network
            network.switches = {
                name: AggregatorSwitch(config, network.aggregators[name], network.ways(name), lambda: world.now)
                for name in network.switches
            }
        self.network.trains, self.network.fills = schedule.trains, schedule.fills
        self.network.native, self.network.fast = schedule.native, schedule.fast
        self.machine = self.network.machine = Machine(world, self.network)
        self.groups = Groups(world, schedule.workers) if schedule.group else None
        if schedule.byzantine:
            self.network.adversary = Adversary(schedule.seed, schedule.byzantine)
        else:
            self.witness = Witness(self.network)
        self.ranks: list[Rank] = []
        # Processes of this run that were killed and have a successor, by worker.
        self.former: list[tuple[int, Rank]] = []
        self.runs = 0
        self.errors: list[str] = []
        self.faults_over_at = 0.0
        self.over = False
        # Whether an earlier run may have used later slots than slot 0 since the switches forgot all.
        self._mixed = False

    def _look_above(self) -> None:
        """Aggregators below others ask them, now and then."""
        for name, node in self.network.switches.items():
            if isinstance(node, AggregatorSwitch) and name not in self.network.dead:
                self.network.leave(name, node.look())
        self.world.after(LOOK_S, self._look_above)

    def play(self) -> Outcome:
        world, machine = self.world, self.machine
        with instead_of_the_system(machine, self.groups):
            for fault in self.schedule.faults:
                self._plan(fault)
            self._begin()
            if self.schedule.terms.branches:
                self._look_above()
            try:
                world.run(LIMIT_S, lambda: self.over)
            finally:
                world.end()
        violations = world.violations
        if not violations and (left := [file for process in world.processes for file in process.files]):
            violations.append(f"{len(left)} sockets and pipes are still open")
        return Outcome(
            violations, world.now, self.network.frames, world.turns, self.runs, self.errors, world.trace or []
        )

    # -- runs --------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """All workers start."""
        self.runs += 1
        self._faultless = self.world.now > self.faults_over_at
        self._generation = self.network.generation
        if self.groups is not None:
            self.groups.begin()
        self.ranks, self.former = [], []
        for worker in range(self.schedule.workers):
            self.ranks.append(self._new_rank(f"run {self.runs} worker {worker}", self.runs))
            if self.groups is not None:
                self.groups.add(self.ranks[-1].process, worker)
        for rank in self.ranks:
            rank.process.on_death.append(partial(self.machine.close_all, rank.process))
            rank.process.on_death.append(self._look)
        for worker, rank in enumerate(self.ranks):
            skew = self.schedule.skew_s[worker] if self.runs == 1 else 0.0
            self.world.after(skew, partial(self._start, worker, rank))

    def _new_rank(self, name: str, number: int) -> Rank:
        return Rank(Process(self.world, name), number)

    def _start(self, worker: int, rank: Rank) -> None:
        if not rank.process.dead:
            rank.process.start("main", partial(self._work, worker, rank))

    def _work(self, worker: int, rank: Rank) -> None:
        """What a worker's program does."""
        schedule = self.schedule
        try:
            rank.job = job = self._job(worker)
            company = Company(self.world, schedule, job) if isinstance(job, Job) else LaneCompany(job)
            with job, company.there():
                for got in self._calls(worker, rank, company):
                    rank.got.append(got)
                    rank.runs.append(rank.process.token)
            rank.finished = True
        except SumwireError as error:
            rank.error = error
            self.errors.append(f"{self.world.now:.3f} {rank.process.name}: {type(error).__name__}: {error}")
            self.world.note(self.errors[-1])
        if rank.process.files:
            self.world.violate(f"{rank.process.name} has closed its job, but not {len(rank.process.files)} files")
        self._look()

    def _calls(self, worker: int, rank: Rank, company: Company | LaneCompany) -> Iterator[Got]:
        """The results of the calls, in their order. In lanes all calls begin before the first result is waited for."""
        pending: deque[Callable[[], Got]] = deque()
        for number, step in enumerate(self.schedule.steps):
            if step.gap_s:
                self.world.sleep(self.world.now + self.world.rng.uniform(0, step.gap_s))
            pending.append(company.begin(number, step, self._given(rank.number, number, worker, step)))
            if self.schedule.terms.lanes == 1:
                yield pending.popleft()()
        for awaited in pending:
            yield awaited()

    def _given(self, run: int, number: int, worker: int, step: Step) -> NDArray[Any]:
        """A worker's values. In world "b" workers 0 and 1 have some of each other's."""
        seed, own = self.schedule.seed, given(self.schedule.seed, run, number, worker, step)
        if self.schedule.world != "b" or worker > 1:
            return own
        other = given(seed, run, number, 1 - worker, step)
        return np.where(exchanged(seed, run, number, step, self._block), other, own)

    @property
    def _block(self) -> int:
        """Values of a block. Where sums lack some chunks, each must be a block of its own to be told from the others;
        and where blocks are exchanged, there must be more than one."""
        schedule = self.schedule
        whole = schedule.complete and not schedule.world and not schedule.terms.degrade
        return BLOCK_VALUES if whole else 1024

    def _job(self, worker: int) -> Job | Lanes:
        schedule = self.schedule
        delivery = None if schedule.loss_bound is None else Delivery(loss_bound=schedule.loss_bound)
        options: dict[str, Any] = {"deadline_s": _DEADLINE_S, "join_s": _JOIN_S, "kept_chunks": schedule.kept_chunks,
                                   "one_trip": schedule.one_trip, "block": self._block}  # fmt: skip
        config = job_of(schedule.terms, worker)
        if schedule.terms.lanes > 1:
            return Lanes(config, delivery=delivery or Delivery(), **options)
        return Job(config, delivery=delivery, **options)

    def _look(self) -> None:
        """Whether all workers of the run have ended."""
        if not self.ranks or not all(rank.over for rank in self.ranks) or self.over:
            return
        ranks, self.ranks = self.ranks, []
        self._check(ranks)
        well = all(rank.finished for rank in ranks)
        calm = all(process.dead or not process.paused for process in self.world.processes)
        if well or self.schedule.byzantine:
            # Where switches do what they like, one run says all: it has the right sums, or errors.
            self.over = True
            return
        # As one that was stopped.
        held = any(rank.process.held_s >= _HELD_S for rank in ranks)
        if self._faultless and calm and not held and not self._may_fail() and not self._left_behind(ranks):
            names = {type(rank.error).__name__ for rank in ranks if rank.error}
            self.world.violate(f"a run without any fault failed: {sorted(names)} {self.errors[-4:]}")
        if self._must_fall_back(ranks) and not self._mixed:
            self.world.violate(f"the group did not take the network's place: {self.errors[-4:]}")
        if self.runs >= _RUNS_MOST:
            self.over = True
            if not self._left_behind(ranks):
                self.world.violate(f"no run of {self.runs} ends well: {self.errors[-4:]}")
            return
        self.world.after(_REST_S, partial(self._again, ranks))

    def _may_fail(self) -> bool:
        """Whether even without a fault a run may end with an error: packets are lost again and again, or a packet of
        an earlier run comes so late that it spoils this one, or its slots hold an earlier run's."""
        weather = self.schedule.weather
        return self._mixed or weather.drop >= 0.2 or (weather.late > 0 and weather.late_s >= 1.0)

    def _must_fall_back(self, ranks: list[Rank]) -> bool:
        """Whether there is a process group whose ranks have all met the switch and live: whatever happens to the
        network, the run goes on."""
        least = min(self.schedule.terms.lanes, len(self.schedule.steps))
        return self.groups is not None and all(
            len(rank.got) >= least and not rank.process.dead and not rank.closed for rank in ranks
        )

    def _left_behind(self, ranks: list[Rank]) -> bool:
        """Whether those that closed sums without the others have ended: nobody is there who still has their results."""
        return not self.schedule.complete and self.groups is None and any(rank.finished for rank in ranks)

    def _again(self, ranks: list[Rank]) -> None:
        for rank in ranks:
            rank.process.kill()
        self._mixed = self.network.generation != self._generation
        if self._mixed and self.schedule.renews:
            self._mixed = False
            self.network.apply(renew=True)
        self._begin()

    def _check(self, ranks: list[Rank]) -> None:
        schedule = self.schedule
        processes = [*self.former, *enumerate(ranks)]
        for number, step in enumerate(schedule.steps):
            for members in self._of_one_run(processes, number):
                got = {worker: rank.got[number] for worker, rank in members.items()}
                problems = []
                for numbers in product(*self._numbers(processes, members)):
                    inputs: list[NDArray[Any]] = [
                        self._given(own, number, worker, step) for worker, own in enumerate(numbers)
                    ]
                    problems.append(wrong(schedule, step, inputs, got))
                if all(problems):
                    text = f"run {self.runs}, step {number} ({step.op} of {step.values}): {problems[0]}"
                    self.world.violate(text, of_sums=True)

    def _of_one_run(self, processes: list[tuple[int, Rank]], number: int) -> list[dict[int, Rank]]:
        """Those that have a result of a step. A worker that was started again is in another run of the job."""
        found: dict[int, dict[int, Rank]] = {}
        for worker, rank in processes:
            if len(rank.got) > number:
                found.setdefault(rank.runs[number] if self.former else 0, {})[worker] = rank
        return list(found.values())

    def _numbers(self, processes: list[tuple[int, Rank]], members: dict[int, Rank]) -> list[list[int]]:
        """By worker, whose values may be in a result: who has it has given its own, others any that a process had."""
        return [
            [members[worker].number] if worker in members else [rank.number for who, rank in processes if who == worker]
            for worker in range(self.schedule.workers)
        ]

    # -- faults ------------------------------------------------------------------------------------------

    def _plan(self, fault: Fault) -> None:
        begin = partial(self._happen, fault)
        self.faults_over_at = max(self.faults_over_at, fault.at_s)
        if fault.frame:
            self.network.on_count.setdefault(fault.frame, []).append(begin)
        else:
            self.world.at(fault.at_s, begin)

    def _happen(self, fault: Fault) -> None:
        if self.over:
            return
        self.world.note(f"fault {fault}")
        self._faultless = False
        self.faults_over_at = max(self.faults_over_at, self.world.now + fault.for_s + 2 * _CONTROLLER_S)
        getattr(self, f"_{fault.kind}")(fault)

    def _processes(self, fault: Fault) -> list[Process]:
        return [self.ranks[fault.who % len(self.ranks)].process] if self.ranks else []

    def _crash(self, fault: Fault) -> None:
        for process in self._processes(fault):
            process.kill()

    def _restart(self, fault: Fault) -> None:
        """A worker is killed, and started again while the others go on."""
        if not self.ranks or self.groups is not None:
            return
        worker = fault.who % len(self.ranks)
        before = self.ranks[worker]
        if before.over:
            return
        times = len(self.former) + 1
        again = self._new_rank(f"run {self.runs} worker {worker} again {times}", self.runs + _RUNS_MOST * times)
        again.process.on_death += [partial(self.machine.close_all, again.process), self._look]
        self.former.append((worker, before))
        self.ranks[worker] = again
        before.process.kill()
        self.world.after(fault.for_s, partial(self._start, worker, again))

    def _close(self, fault: Fault) -> None:
        rank = self.ranks[fault.who % len(self.ranks)] if self.ranks else None
        if rank is None or rank.job is None or rank.over:
            return
        rank.closed = True
        rank.process.start("closer", partial(rank.job.close, agree=not fault.empty))

    def _sends(self, fault: Fault) -> None:
        for process in self._processes(fault):
            process.sends_left = int(fault.for_s * 100) % 37

    def _pause(self, fault: Fault) -> None:
        for process in self._processes(fault):
            process.pause()
            self.world.after(fault.for_s, process.resume)

    def _clock(self, fault: Fault) -> None:
        for process in self._processes(fault):
            process.skew_s += fault.for_s

    def _link(self, fault: Fault) -> None:
        network = self.network
        wires = network.shape.wires()
        if fault.who < self.schedule.workers:
            places = {network.place_of(fault.who)}
        elif wires:
            places = set(wires[(fault.who - self.schedule.workers) % len(wires)])
        else:
            return
        network.down |= places
        self.world.after(fault.for_s, lambda: network.down.difference_update(places))

    def _switch(self, fault: Fault) -> None:
        network = self.network
        name = list(network.switches)[fault.who % len(network.switches)]
        if name in network.dead:
            return
        network.fail(name)

        def recover() -> None:
            network.recover(name, empty=fault.empty)
            # Also for another one, which came back empty while this one was down.
            self.world.after(_CONTROLLER_S, network.apply)

        self.world.after(fault.for_s, recover)

    def _renew(self, fault: Fault) -> None:
        self.network.apply(renew=True)


def play(schedule: Schedule, *, traced: bool = False) -> Outcome:
    """Play a schedule to its end."""
    with contextlib.ExitStack() as stack:
        if gc.isenabled():
            gc.disable()
            stack.callback(gc.enable)
        torch.set_num_threads(1)
        return Play(schedule, traced=traced).play()
