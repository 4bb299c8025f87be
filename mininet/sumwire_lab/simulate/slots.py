# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Many jobs on one switch, whose slots are the scarce thing: rules that divide them, and what becomes of the jobs.

A job that may use s slots has s/2 chunks under way, so its exchanges are slower than its links by s over what these can
use, its *need*: twice the chunks that pass in a round trip. A job computes as well, and exchanges that are hidden
behind the backward pass may be slower without harm. Jobs have links of their own, and where a rule needs it a server.

Example: on links of 100 Gbit/s and with round trips of 20 us, a THC job's need is 2 x 20 us / 87.8 ns = 456 slots. Of
4096 slots, 20 equal shares are 204 each, which is 45 % of a link, also for a job that is alone.

Rules are functions: they get the jobs that are there, in order of arrival, and return for each the share of its links'
pace that it has, 0 to 1. They are asked whenever a job comes or ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from sumwire_protocol import constants as p4

from sumwire_lab.errors import OptionError
from sumwire_lab.options.fabric import Fabric
from sumwire_lab.options.fields import Checked, Rule, at_least, one_of, option
from sumwire_lab.simulate.costs import Costs
from sumwire_lab.simulate.flows import Step, pace_of, step
from sumwire_lab.simulate.systems import exchanges_of, system_of
from sumwire_lab.simulate.workloads import workload_of

CHANGE_S: Final = 0.13
"""In which the controller gives a job other slots: as long as it takes to give a dead root's slots to the others
(records/switch.json)."""
_PLENTY: Final = 1 << 20


@dataclass(frozen=True)
class Pool(Checked):
    """The switch, and what its jobs have in common. ``jobs``: how many static shares there are."""

    slots: int = option(p4.SLOTS_TOTAL, "slots of the switch", rule=at_least(2))
    jobs: int = option(20, "jobs that static shares are made for", rule=at_least(1))
    system: str = option("thc", "what the jobs send")
    rate_bit_s: float = option(1e11, "rate of a worker's link in bit/s", rule=at_least(1e3))
    delay_s: float = option(1e-6, "delay of a link, one way, in seconds", rule=at_least(0))
    server_bit_s: float = option(
        1e11, "rate of the link of a job's server, to which chunks without a slot go", rule=at_least(1e3)
    )
    change_s: float = option(CHANGE_S, "seconds that a job stands still when it gets other slots", rule=at_least(0))


@dataclass(frozen=True)
class SlotJob:
    """A training. ``arrives_s``: seconds after the beginning; ``steps``: its length."""

    arrives_s: float
    workload: str
    workers: int
    steps: int


@dataclass
class Running:
    """A job on the switch. ``need``: the slots that its links can use. ``server``: how many times as long its chunks
    would take if all went to its server. ``left``: steps still to do. ``pace``: what it has now. ``still_s``: seconds
    until it moves again. ``held``: the slots that it keeps."""

    number: int
    job: SlotJob
    need: int
    server: float
    full: Step
    left: float
    pace: float = 0.0
    still_s: float = 0.0
    held: int = 0
    began_s: float = math.inf
    times: dict[float, float] = field(default_factory=dict)

    def step_s(self, pace: float) -> float:
        """Return the seconds of a step whose exchanges have this share of the links' pace; infinity for 0."""
        if pace not in self.times:
            self.times[pace] = self.full.at_pace(pace).seconds if pace > 0 else math.inf
        return self.times[pace]

    @property
    def left_s(self) -> float:
        """Seconds that it would still take alone."""
        return self.left * self.step_s(1.0)


Allocate = Callable[[Sequence[Running], Pool], Sequence[float]]


# -- rules ----------------------------------------------------------------------------------------------


def static(jobs: Sequence[Running], pool: Pool) -> Sequence[float]:
    """Every job has an equal part of the slots, as many parts as there may be jobs; others wait for one."""
    part = pool.slots // pool.jobs
    return [_share(part, job) if index < pool.jobs else 0.0 for index, job in enumerate(jobs)]


def quota(jobs: Sequence[Running], pool: Pool) -> Sequence[float]:
    """A job gets its whole need when that is free, in order of arrival, and keeps it. Until then it waits."""
    free, paces = pool.slots, []
    waits = False
    for job in sorted(jobs, key=lambda one: (one.pace == 0, one.number)):
        asked = min(job.need, pool.slots)
        waits = waits or asked > free
        paces.append((job.number, 0.0 if waits else _share(asked, job)))
        free -= 0 if waits else asked
    by_number = dict(paces)
    return [by_number[job.number] for job in jobs]


def free_on_arrival(jobs: Sequence[Running], pool: Pool) -> Sequence[float]:
    """A job gets what is free when it comes, at most its need, and keeps it. If nothing is free, it waits. The
    controller's `slots: {most: N}` does this."""
    left, paces = pool.slots, {}
    for job in sorted(jobs, key=lambda one: (one.pace == 0, one.number)):
        got = job.held or min(job.need, left)
        left -= got
        job.held = got if got >= _SLOTS_LEAST else 0
        paces[job.number] = _share(job.held, job)
    return [paces[job.number] for job in jobs]


def shared(jobs: Sequence[Running], pool: Pool) -> Sequence[float]:
    """All jobs use all slots, and a chunk whose slot is busy goes to the job's server, as in ATP (NSDI '21).

    A chunk's slot is drawn at random. With A chunks under way and S slots, a slot is busy with probability A / (A + S).
    A job is as fast as its server takes that share of its chunks.
    """

    def paces(busy: float) -> list[float]:
        return [min(1.0, 1 / (busy * job.server)) for job in jobs]

    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        busy = (low + high) / 2
        asked = sum(pace * job.need / 2 for pace, job in zip(paces(busy), jobs, strict=True))
        low, high = (busy, high) if busy < asked / (asked + pool.slots) else (low, busy)
    return paces(high)


def preempted(jobs: Sequence[Running], pool: Pool) -> Sequence[float]:
    """As `shared`, but slots go to the jobs with the least left, as in ESA (arXiv 2201.06398); only the others' chunks
    go to their servers."""
    paces, free = {}, pool.slots
    for job in sorted(jobs, key=lambda one: (one.left_s, one.number)):
        got = min(job.need, free)
        free -= got
        here = _share(got, job)
        paces[job.number] = here + min(1 - here, 1 / job.server)
    return [paces[job.number] for job in jobs]


def useful(jobs: Sequence[Running], pool: Pool) -> Sequence[float]:
    """Slots are divided equally among the jobs that are there, and none gets more than its need."""
    paces, free = {}, pool.slots
    for left, job in zip(range(len(jobs), 0, -1), sorted(jobs, key=lambda one: one.need), strict=True):
        got = min(job.need, free // left)
        free -= got
        paces[job.number] = _share(got, job)
    return [paces[job.number] for job in jobs]


def least_left(jobs: Sequence[Running], pool: Pool) -> Sequence[float]:
    """The jobs with the least left get their need, one after the other, and the others wait."""
    paces, free = {}, pool.slots
    for job in sorted(jobs, key=lambda one: (one.left_s, one.number)):
        got = min(job.need, free)
        free -= got
        paces[job.number] = _share(got, job)
    return [paces[job.number] for job in jobs]


def worth(jobs: Sequence[Running], pool: Pool) -> Sequence[float]:
    """Slots go where they are worth most: to the job whose remaining time shrinks by the largest factor per second that
    it has left, part by part. A job whose exchanges are hidden behind its backward pass gets no more."""
    part = max(2, pool.slots // _PARTS)
    got = dict.fromkeys((job.number for job in jobs), 0)

    def gain(job: Running) -> tuple[float, int]:
        """Of the best number of parts, by slot."""
        now, best = _speed(job, got[job.number]), (0.0, 0)
        more = part
        while got[job.number] + more <= job.need + part and more <= free:
            gained = (_speed(job, got[job.number] + more) - now) / more
            best = max(best, (gained, more))
            more *= 2
        return best

    free = pool.slots
    while free >= part:
        (value, more), job = max(((gain(one), one) for one in jobs), key=lambda found: (found[0], -found[1].number))
        if value <= 0:
            break
        got[job.number] += more
        free -= more
    return [_share(got[job.number], job) for job in jobs]


def _speed(job: Running, slots: int) -> float:
    """Of a job's end, 1 being at once after a second."""
    return 1 / (job.left * job.step_s(_share(slots, job))) if slots else 0.0


def _share(slots: int, job: Running) -> float:
    """One chunk needs two slots."""
    return min(1.0, slots / job.need) if slots >= _SLOTS_LEAST else 0.0


_SLOTS_LEAST: Final = 2
_HALVINGS: Final = 60
_PARTS: Final = 128

RULES: Final[Mapping[str, Allocate]] = {
    "static": static, "quota": quota, "free": free_on_arrival, "shared": shared, "preempted": preempted,
    "useful": useful, "least-left": least_left, "worth": worth,
}  # fmt: skip


# -- what becomes of the jobs -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """By job, in the order given: seconds from arrival to end, and how many times as long that is as alone on the
    switch."""

    completion_s: tuple[float, ...]
    slowdown: tuple[float, ...]
    waited_s: tuple[float, ...]

    @property
    def mean_s(self) -> float:
        """Mean completion time."""
        return math.fsum(self.completion_s) / len(self.completion_s)

    @property
    def mean_slowdown(self) -> float:
        """Mean of the slowdowns."""
        return math.fsum(self.slowdown) / len(self.slowdown)

    @property
    def fairness(self) -> float:
        """Jain's index of the jobs' speeds, each relative to alone: 1 where all are slowed alike, 1/n at worst."""
        speeds = [1 / one for one in self.slowdown]
        return math.fsum(speeds) ** 2 / (len(speeds) * math.fsum(one * one for one in speeds))


def play(jobs: Sequence[SlotJob], rule: str, pool: Pool) -> Outcome:
    """Return what becomes of jobs under a rule. Raises OptionError for no jobs and an unknown rule or system."""
    one_of(tuple(RULES)).check("rule", rule)
    if not jobs:
        raise OptionError("jobs=0: must be at least one")
    allocate = RULES[rule]
    waiting = [_entered(number, job, pool) for number, job in enumerate(jobs)]
    alone = [one.left_s for one in waiting]
    waiting.sort(key=lambda one: (one.job.arrives_s, one.number))
    there: list[Running] = []
    now, ended, began = 0.0, [0.0] * len(jobs), [0.0] * len(jobs)
    while waiting or there:
        if not there:
            now = max(now, waiting[0].job.arrives_s)
        while waiting and waiting[0].job.arrives_s <= now:
            there.append(waiting.pop(0))
        for one, pace in zip(there, allocate(there, pool), strict=True):
            if pace != one.pace and one.pace > 0:
                one.still_s = pool.change_s
            if pace > 0 and math.isinf(one.began_s):
                one.began_s = now
                began[one.number] = now
            one.pace = pace
        ends = [now + one.still_s + one.left * one.step_s(one.pace) for one in there]
        until = min([*ends, waiting[0].job.arrives_s if waiting else math.inf])
        if math.isinf(until):
            raise OptionError(f"slots={pool.slots}: must be enough for one job with the rule {rule}")
        for one, end in zip(there, ends, strict=True):
            if end <= until:
                one.left, ended[one.number] = 0.0, until
            elif one.pace > 0:
                moved = max(0.0, until - now - one.still_s)
                one.still_s = max(0.0, one.still_s - (until - now))
                one.left -= moved / one.step_s(one.pace)
        there = [one for one in there if one.left > 0]
        now = until
    taken = tuple(end - job.arrives_s for end, job in zip(ended, jobs, strict=True))
    return Outcome(
        taken,
        tuple(one / least for one, least in zip(taken, alone, strict=True)),
        tuple(at - job.arrives_s for at, job in zip(began, jobs, strict=True)),
    )


def _entered(number: int, job: SlotJob, pool: Pool) -> Running:
    fabric = Fabric(
        workers=job.workers, rate_bit_s=pool.rate_bit_s, delay_s=pool.delay_s, server_bit_s=pool.server_bit_s
    )
    system, workload, costs = system_of(pool.system), workload_of(job.workload), Costs()
    packets = exchanges_of(system, fabric, workload.values)[-1]
    pace = pace_of(fabric, system, packets, costs)
    at_server = pace_of(fabric, replace(system, way="server"), packets, costs)
    full = step(fabric, system, workload, costs, _PLENTY)
    need = 2 * math.ceil(pace.first_s / pace.gap_s)
    return Running(number, job, need, at_server.gap_s / pace.gap_s, full, float(job.steps))


_SECONDS: Final = Rule(lambda ends: 0 < ends[0] <= ends[1], "must be two numbers above 0, the smaller one first")


def drawn_jobs(
    seed: int,
    count: int = 20,
    *,
    gap_s: float = 120.0,
    workloads: Sequence[str] = ("resnet50", "resnet152", "bert-base", "bert-large", "gpt2"),
    workers: Sequence[int] = (4, 8, 16),
    lasting_s: tuple[float, float] = (60.0, 3600.0),
) -> tuple[SlotJob, ...]:
    """Return jobs that arrive by chance, ``gap_s`` apart in the mean (Poisson). Each has one of the workloads and
    numbers of workers, and computes for seconds between ``lasting_s``, whose logarithms are equally likely.

    Raises OptionError for fewer than one job, a gap that is negative, and wrong ends.
    """
    at_least(1).check("jobs", count)
    at_least(0).check("gap_s", gap_s)
    _SECONDS.check("lasting_s", lasting_s)
    random = np.random.default_rng(seed)
    arrivals = np.cumsum(random.exponential(gap_s, count)) - gap_s
    made = []
    for at in arrivals - arrivals[0]:
        name = workloads[int(random.integers(len(workloads)))]
        found = workload_of(name)
        seconds = math.exp(random.uniform(math.log(lasting_s[0]), math.log(lasting_s[1])))
        steps = max(1, round(seconds / (found.forward_s + found.backward_s)))
        made.append(SlotJob(float(at), name, workers[int(random.integers(len(workers)))], steps))
    return tuple(made)
