# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What happens in one schedule: drawn from a seed, and made smaller to find out what of it matters."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, NamedTuple, TypeVar

from simulate.network import QUEUES, SHAPES, Terms, Weather
from simulate.preempt import Preemption

T = TypeVar("T")

_STARS: Final = ("star2", "star2", "star3", "star3", "star4")
_OPS: Final = ("reduce", "reduce", "mean", "max32", "min32", "sum32", "vote", "sign_merge")
# Lines between two times that a thread is held, and for how long: all of it together is some seconds at most.
_PACES: Final = ((5, 3e-4), (30, 0.03), (300, 0.3), (3000, 3.0))
_AGGREGATORS: Final = ("tree11", "tree21", "tree22", "three")
_TREES: Final = ("tree11", "tree21", "tree22", "spines21", "three")


@dataclass(frozen=True)
class Step:
    """One call of all workers. ``op``: a method of Job. ``gap_s``: how long a worker computes before, at most."""

    op: str
    values: int
    bucket: int
    gap_s: float = 0.0


@dataclass(frozen=True)
class Fault:
    """Something that happens at a time, or with frame number ``frame`` (0: at a time).

    ``kind``: crash, restart (of one worker alone), sends (crash after so many datagrams more), pause, clock, link,
    switch, renew, close (of a job by another thread).
    ``who``: a worker, a link's number or a switch's. ``for_s``: how long. ``empty``: the switch forgets all; the job is
    closed without an agreement.
    """

    kind: str
    at_s: float
    frame: int = 0
    who: int = 0
    for_s: float = 0.0
    empty: bool = False


@dataclass(frozen=True)
class Schedule:
    """``seed``: of all that the world draws while it plays. ``renews``: whether a job whose generation has changed
    under its workers gets a new one before they start again. ``world``: "a" or "b" where :mod:`simulate.flow` compares
    two. ``byzantine``: the share of frames to which switches do what they like. ``threads``: further ones of each rank
    (:mod:`simulate.company`). ``fast``: C makes exchanges alone."""

    seed: int
    terms: Terms
    weather: Weather
    steps: tuple[Step, ...]
    faults: tuple[Fault, ...] = ()
    group: bool = False
    aggregator: bool = False
    loss_bound: float | None = None
    trains: bool = False
    fills: float = 0.0
    one_trip: bool = True
    kept_chunks: int = 1 << 8
    skew_s: tuple[float, ...] = field(default_factory=tuple)
    renews: bool = True
    native: bool = False
    world: str = ""
    byzantine: float = 0.0
    preemption: Preemption | None = None
    threads: tuple[str, ...] = ()
    fast: bool = False

    @property
    def workers(self) -> int:
        return SHAPES[self.terms.shape].workers

    @property
    def complete(self) -> bool:
        """Whether every sum has all workers."""
        return self.terms.quorum == self.workers and not self.loss_bound


def drawn(seed: int) -> Schedule:
    """The schedule of a seed."""
    rng = random.Random(seed)
    aggregator = rng.random() < 0.2
    shape = rng.choice(_STARS if aggregator or rng.random() < 0.6 else _TREES)
    workers = SHAPES[shape].workers
    star = shape in _STARS
    quorum = rng.randrange(1, workers) if star and workers > 2 and rng.random() < 0.2 else workers
    terms = Terms(shape, rng.choice((2, 4, 4, 6, 8, 16)), quorum, spray=shape == "spines21" and rng.random() < 0.5)
    bound = rng.choice((None, None, 0.0, 0.02, 0.1, 0.3)) if star else rng.choice((None, None, 0.0, 0.1))
    group = rng.random() < 0.4
    whole = quorum == workers and not bound
    # The same calls come again: only then are scales carried over.
    kinds = [_step(rng, whole) for _ in range(rng.randrange(1, 3))]
    steps = tuple(rng.choice(kinds) for _ in range(rng.randrange(1, 5)))
    faults = [_fault(rng, workers, shape) for _ in range(rng.choice((0, 0, 1, 1, 2, 3)))]
    if group and rng.random() < 0.6:
        faults.append(_outage(rng, workers, shape))
        if rng.random() < 0.4:
            # Calls go on for so long that the ranks return to the switch, each in the midst of something else.
            steps = tuple(replace(rng.choice(kinds), gap_s=1.5) for _ in range(rng.randrange(6, 14)))
    return Schedule(
        seed=rng.randrange(1 << 62),
        terms=terms,
        weather=_weather(rng),
        steps=steps,
        faults=tuple(faults),
        group=group,
        aggregator=aggregator,
        loss_bound=bound,
        trains=rng.random() < 0.5,
        fills=rng.choice((0.0, 0.0, 0.05)),
        one_trip=rng.random() < 0.7,
        kept_chunks=rng.choice((1, 64, 256)) if whole else 256,
        skew_s=_starts(rng, workers),
        renews=rng.random() < 0.5,
        native=rng.random() < 0.5,
    )


def with_key(schedule: Schedule) -> Schedule:
    """A schedule with authentication tags, where bits of packets change on the way."""
    rng = random.Random(schedule.seed)
    weather = replace(schedule.weather, flip=rng.choice((0.0, 0.01, 0.05)))
    return replace(schedule, terms=replace(schedule.terms, keyed=True), weather=weather)


def with_masks(schedule: Schedule) -> Schedule:
    """A schedule of a blind job, whose workers need a process group. Merged signs are no operation of it."""
    terms = replace(schedule.terms, quorum=schedule.workers, blind=True)
    steps = tuple(replace(step, op="vote") if step.op == "sign_merge" else step for step in schedule.steps)
    return replace(schedule, terms=terms, steps=steps, group=True, loss_bound=None)


def with_adversary(schedule: Schedule) -> Schedule:
    """A schedule with switches that do what they like."""
    return replace(schedule, byzantine=random.Random(schedule.seed).choice((0.01, 0.05, 0.2, 1.0)))


def with_restarts(schedule: Schedule) -> Schedule:
    """A schedule without a process group in which workers, one at a time, are killed and started again at once."""
    rng = random.Random(schedule.seed)
    restarts = tuple(
        Fault("restart", _log_uniform(rng, 0.001, 4.0), _frame(rng), rng.randrange(schedule.workers), for_s)
        for for_s in (_log_uniform(rng, 0.001, 3.0) for _ in range(rng.randrange(1, 4)))
    )
    return replace(schedule, faults=(*schedule.faults, *restarts), group=False)


def with_fast_path(schedule: Schedule) -> Schedule:
    """A schedule whose calls are so long that C makes most of them alone."""
    rng = random.Random(f"fast path {schedule.seed}")
    terms = replace(schedule.terms, slots=rng.choice((8, 16, 32, 64)))
    ops = ("reduce", "sum32", "vote") if terms.quorum == schedule.workers else ("reduce",)
    kinds = [replace(step, op=rng.choice(ops), values=rng.randrange(10_000, 60_000)) for step in schedule.steps[:2]]
    steps = tuple(rng.choice(kinds) for _ in schedule.steps)
    return replace(schedule, terms=terms, steps=steps, native=True, fast=True)


def with_long_packets(schedule: Schedule) -> Schedule:
    """A schedule whose tensors fill packets of 8192 values, and of which some are too short for one."""
    rng = random.Random(f"long packets {schedule.seed}")
    steps = tuple(
        replace(step, values=rng.randrange(6_000, 40_000)) if step.op == "reduce" else step for step in schedule.steps
    )
    return replace(schedule, terms=replace(schedule.terms, long_packets=True), steps=steps, aggregator=False)


def with_lanes(schedule: Schedule) -> Schedule:
    """A schedule of a job in lanes, whose calls are under way at the same time."""
    rng = random.Random(f"lanes {schedule.seed}")
    return replace(schedule, terms=replace(schedule.terms, lanes=rng.choice((2, 2, 3, 4))))


def with_queues(schedule: Schedule) -> Schedule:
    """A schedule whose packets meet virtual queues, and a switch that loses or cuts some on purpose."""
    rng = random.Random(f"queues {schedule.seed}")
    terms = schedule.terms
    degrade = rng.choice(("", "trim", "drop", "trim-results")) if terms.shape in _STARS else ""
    terms = replace(terms, slots=rng.choice((4, 16)), queue=rng.choice(sorted(QUEUES)), degrade=degrade)
    return replace(schedule, terms=terms, aggregator=False)


def with_aggregators(schedule: Schedule) -> Schedule:
    """A schedule of a tree of software aggregators, in one process each."""
    rng = random.Random(f"aggregators {schedule.seed}")
    shape = rng.choice(_AGGREGATORS)
    workers = SHAPES[shape].workers
    terms = replace(schedule.terms, shape=shape, quorum=workers, spray=False, branches=True)
    faults = tuple(
        replace(fault, who=rng.randrange(workers + len(SHAPES[shape].wires())))
        for fault in schedule.faults
        if fault.kind != "renew"
    )
    skew_s = (schedule.skew_s * workers)[:workers]
    return replace(schedule, terms=terms, faults=faults, skew_s=skew_s, aggregator=True, loss_bound=None)


def with_preemption(schedule: Schedule, modules: tuple[str, ...]) -> Schedule:
    """A schedule whose threads change places at any line of these modules, and whose ranks have more of them."""
    rng = random.Random(f"preemption {schedule.seed}")
    lines, held_s = rng.choice(_PACES)
    threads = tuple(name for name in ("comm", "twin", "watcher") if rng.random() < 0.4)
    faults = schedule.faults
    if rng.random() < 0.2:
        who, at_s = rng.randrange(schedule.workers), _log_uniform(rng, 0.001, 4.0)
        faults += (Fault("close", at_s, _frame(rng), who, empty=rng.random() < 0.5),)
    return replace(schedule, faults=faults, preemption=Preemption(modules, lines, held_s), threads=threads)


def _frame(rng: random.Random) -> int:
    return rng.randrange(1, 300) if rng.random() < 0.6 else 0


class Variant(NamedTuple):
    """What else the schedule of a seed has."""

    keys: bool = False
    blind: bool = False
    restarts: bool = False
    byzantine: bool = False
    flow: bool = False
    fast: bool = False
    lanes: bool = False
    aggregators: bool = False
    queues: bool = False
    long: bool = False
    preempt: tuple[str, ...] = ()

    def of(self, seed: int) -> Schedule:
        schedule = drawn(seed)
        changes = (
            (self.aggregators, with_aggregators),
            (self.keys, with_key),
            (self.blind or self.flow, with_masks),
            (self.restarts, with_restarts),
            (self.byzantine, with_adversary),
            (self.fast, with_fast_path),
            (self.lanes, with_lanes),
            (self.queues, with_queues),
            (self.long, with_long_packets),
            (self.preempt, partial(with_preemption, modules=self.preempt)),
        )
        for wanted, change in changes:
            schedule = change(schedule) if wanted else schedule
        return schedule

    @property
    def flags(self) -> list[str]:
        asked = {name: wanted for name, wanted in self._asdict().items() if wanted}
        preempt = asked.pop("preempt", ())
        return [f"--{name}" for name in asked] + [f"--preempt={','.join(preempt)}"] * bool(preempt)


def _starts(rng: random.Random, workers: int) -> tuple[float, ...]:
    """When each worker is started: whoever is early sends again and again."""
    latest = rng.choice((0.0, 0.01, 0.1, 0.5, 3.0))
    return tuple(rng.choice((0.0, rng.uniform(0, latest))) for _ in range(workers))


def _step(rng: random.Random, whole: bool) -> Step:
    op = rng.choice(_OPS) if whole else "reduce"
    chunks = rng.choice((1, 1, 1, 2, 2, 3, 5, 8))
    values = max(1, chunks * {"max32": 32, "min32": 32, "sum32": 256, "mean": 256}.get(op, 1024) - rng.randrange(30))
    return Step(op, values, rng.randrange(1 << 16), rng.choice((0.0, 0.001, 0.05, 0.5)))


def _weather(rng: random.Random) -> Weather:
    drop = rng.choice((0.0, 0.0, 0.01, 0.05, 0.1, 0.2))
    late = rng.choice((0.0, 0.0, 0.02, 0.1, 0.3))
    late_s = rng.choice((0.001, 0.01, 0.1, 1.0, 5.0))
    least = rng.choice((0.00005, 0.0005, 0.005))
    spread = rng.choice((1.0, 2.0, 5.0))
    return Weather(drop, rng.choice((0.0, 0.02, 0.1)), late, late_s, (least, least * spread))


def _fault(rng: random.Random, workers: int, shape: str) -> Fault:
    kind = rng.choice(("crash", "sends", "pause", "pause", "clock", "link", "link", "switch", "switch", "renew"))
    wires = len(SHAPES[shape].wires())
    who = rng.randrange({"link": workers + wires, "switch": len(SHAPES[shape].switches)}.get(kind, workers))
    seconds = _log_uniform(rng, 0.005, 15.0)
    frame = rng.randrange(1, 300) if rng.random() < 0.4 else 0
    return Fault(kind, _log_uniform(rng, 0.001, 4.0), frame, who, seconds, rng.random() < 0.5)


def _outage(rng: random.Random, workers: int, shape: str) -> Fault:
    """In the midst of a run the switch, or one worker's way to it, is gone for so long that the ranks fall back."""
    kind = rng.choice(("switch", "link", "renew"))
    who = rng.randrange(len(SHAPES[shape].switches) if kind == "switch" else workers)
    frame = rng.randrange(6 * workers, 30 * workers)
    return Fault(kind, 0.0, frame, who, _log_uniform(rng, 2.0, 8.0), rng.random() < 0.5)


def _log_uniform(rng: random.Random, low: float, high: float) -> float:
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def smaller(schedule: Schedule) -> Iterator[Schedule]:
    """Schedules with less in them, those first that leave most out."""
    for k in range(len(schedule.faults)):
        yield replace(schedule, faults=_without(schedule.faults, k))
    if len(schedule.steps) > 1:
        for k in range(len(schedule.steps)):
            yield replace(schedule, steps=_without(schedule.steps, k))
    yield from _with_fewer_workers(schedule)
    for k, step in enumerate(schedule.steps):
        if step.values > 1024:
            steps = (*schedule.steps[:k], replace(step, values=step.values // 2), *schedule.steps[k + 1 :])
            yield replace(schedule, steps=steps)
    weather = schedule.weather
    for calmer in (
        replace(weather, flip=0.0),
        replace(weather, drop=0.0),
        replace(weather, duplicate=0.0),
        replace(weather, late=0.0),
    ):
        if calmer != weather:
            yield replace(schedule, weather=calmer)
    for plain in (
        {"trains": False},
        {"fills": 0.0},
        {"group": False},
        {"loss_bound": None},
        {"one_trip": False},
        {"native": False},
        {"fast": False},
        {"byzantine": 0.0},
        {"threads": ()},
    ):
        if any(getattr(schedule, name) != value for name, value in plain.items()):
            yield replace(schedule, **plain)
    if any(schedule.skew_s):
        yield replace(schedule, skew_s=(0.0,) * len(schedule.skew_s))


def _with_fewer_workers(schedule: Schedule) -> Iterator[Schedule]:
    """On a smaller star, and a tree as a star."""
    workers = schedule.workers
    for fewer in (workers - 1, workers):
        shape = f"star{fewer}"
        if fewer >= 2 and shape != schedule.terms.shape:
            quorum = fewer if schedule.terms.quorum == workers else min(schedule.terms.quorum, fewer)
            terms = replace(schedule.terms, shape=shape, quorum=quorum, spray=False)
            yield replace(schedule, terms=terms, skew_s=schedule.skew_s[:fewer])


def _without(items: tuple[T, ...], k: int) -> tuple[T, ...]:
    return (*items[:k], *items[k + 1 :])
