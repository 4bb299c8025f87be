# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Options of a run. They are checked here once; all other modules rely on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from math import inf
from typing import Any, Final

from sumwire_protocol.ops import BY_NAME

from sumwire_lab.errors import OptionError
from sumwire_lab.options.conditions import BACKGROUND_MAX, Conditions
from sumwire_lab.options.layout import Layout
from sumwire_lab.options.priority_lanes import BOUNDED, FLAGS, LanedOptions
from sumwire_lab.options.recipes import DEFAULT_SYSTEMS, INNER, PLAIN, SYSTEMS, Chosen, parse
from sumwire_lab.options.shapes import TOPOLOGIES, leaves_of
from sumwire_lab.options.tasks import DEFAULT_TASK, TASKS, Task
from sumwire_lab.options.thc_variants import THC, Variant

# Bits in a job's contributors bitmap, which limits the workers of one switch.
WORKERS_MAX: Final = 32
AGGREGATOR: Final = "aggregator"
SWITCHES: Final = ("auto", "soft", "bmv2", AGGREGATOR)
"""`auto` is bmv2 where it is on PATH, else soft; `aggregator` is a server's process instead of a switch."""
ENGINES: Final = ("auto", "native", "python")
"""Engines of the soft switch; `auto` is native if there is a compiler, else python."""


# Ops of the systems that a blind job serves.
_MASKED: Final = frozenset({"thc", "max32", "sum32"})

BUFFER_MB: Final = 25.0
"""Of DDP's and ACP-SGD's buffers. It is DDP's default, but also for the first one, whose default of 1 MB would split
a model of 1.2 MB into a large buffer and a tail that costs only latency."""

UNLIMITED: Final = inf
"""Rate of a link without a limit, for the benchmarks of one all-reduce. A run of trainings needs a limit."""


@dataclass(frozen=True)
class LinkOptions:
    """A host's link. It has the same rate in both directions, and a queue at each end."""

    mbit: float = 100.0
    """Rate in Mbit/s, or UNLIMITED."""
    queue_packets: int = 256
    trunk_mbit: float | None = None
    """Rate of the links between switches; None: that of the hosts' links."""
    priorities: bool = False
    """Eight queues at each end, served in strict order of the packets' priority (DSCP)."""

    def __post_init__(self) -> None:
        for name, mbit in (("bw", self.mbit), ("trunk-bw", self.trunk_mbit)):
            if mbit is not None and mbit != UNLIMITED and not 0.1 <= mbit <= 10_000:
                raise OptionError(f"{name}={mbit}: a link has 0.1 to 10000 Mbit/s")
        if not 2 <= self.queue_packets <= 100_000:
            raise OptionError(f"queue={self.queue_packets}: a queue holds 2 to 100000 packets")

    @property
    def known_mbit(self) -> float | None:
        """The rate; None without a limit."""
        return None if self.mbit == UNLIMITED else self.mbit

    def slowest_mbit(self) -> float:
        """Rate of the slower ones of the hosts' links and those between switches."""
        return min(self.mbit, self.trunk().mbit)

    def trunk(self) -> LinkOptions:
        """Options of a link between switches."""
        return self if self.trunk_mbit is None else replace(self, mbit=self.trunk_mbit, trunk_mbit=None)


@dataclass(frozen=True)
class TrainOptions:
    """The training itself; equal for every system of a run. The defaults are those of the task `digits`."""

    task: str = DEFAULT_TASK
    epochs: int = TASKS[DEFAULT_TASK].epochs
    batch: int = TASKS[DEFAULT_TASK].batch
    """Samples per worker and step."""
    hidden: int = TASKS[DEFAULT_TASK].hidden
    """Units of a hidden layer; of the transformer, its width."""
    learning_rate: float = TASKS[DEFAULT_TASK].learning_rate
    """Learning rate of the systems that aggregate the mean gradient."""
    weight_decay: float = TASKS[DEFAULT_TASK].weight_decay
    seed: int = 1
    max_steps: int | None = None
    """Ends the training early; the learning-rate schedule then has this many steps."""
    nmse_samples: int = 4
    """Steps at which the aggregated gradient is compared with the true mean."""
    rank: int = TASKS[DEFAULT_TASK].rank
    """Rank of the low-rank systems."""
    share: float = 0.01
    """Share of the values that Top-k sends."""
    bits: int = THC.bits
    """Of an index of THC's."""
    granularity: int | None = THC.granularity
    """Of THC's table; None: the best one for the workers."""
    clip: float = THC.p
    """Share of values that THC clips."""
    feedback: bool = THC.feedback
    """Whether systems that have error feedback use it."""
    reuse: bool = True
    """Whether ACP-SGD takes its basis from the last result, instead of drawing it."""
    buffer_mb: float | None = None
    """Gradient that shares a buffer, in units of 2^20 bytes; 0: each tensor has its own. None: BUFFER_MB."""
    late: bool = False
    """Whether nothing is sent before the backward pass has ended."""
    full_precision_every: int | None = None
    """Marsit's K; None: as the system's name says. 0: never."""
    inner: str = PLAIN
    """Marsit's local optimizer, one of INNER."""

    @classmethod
    def of(cls, task: str, **given: Any) -> TrainOptions:
        """The task's defaults, replaced by whatever is `given` and not None. Raises OptionError."""
        if task not in TASKS:
            raise OptionError(f"task={task}: known are {', '.join(TASKS)}")
        known = {f.name for f in fields(cls)} & {f.name for f in fields(Task)}
        defaults = {name: getattr(TASKS[task], name) for name in known}
        return cls(**{"task": task, **defaults, **{name: one for name, one in given.items() if one is not None}})

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise OptionError(f"task={self.task}: known are {', '.join(TASKS)}")
        positive = {"epochs": self.epochs, "batch": self.batch, "hidden": self.hidden, "rank": self.rank}
        if self.max_steps is not None:
            positive["steps"] = self.max_steps
        for name, value in positive.items():
            if value < 1:
                raise OptionError(f"{name}={value}: must be at least 1")
        if self.seed < 0:
            raise OptionError(f"seed={self.seed}: must not be negative")
        Variant(bits=self.bits, granularity=self.granularity, p=self.clip)
        if not 0 < self.share <= 1:
            raise OptionError(f"share={self.share}: must be above 0 and at most 1")
        if self.buffer_mb is not None and not 0 <= self.buffer_mb < inf:
            raise OptionError(f"buffer-mb={self.buffer_mb}: must be 0, for a buffer per tensor, or more")
        if self.full_precision_every is not None and self.full_precision_every < 0:
            raise OptionError(f"full-precision-every={self.full_precision_every}: must be at least 1, or 0 for never")
        if self.inner not in INNER:
            raise OptionError(f"inner={self.inner}: known are {', '.join(INNER)}")


@dataclass(frozen=True)
class RunOptions:
    """One run: the same training with each system in turn, on equal links."""

    workers: int = 4
    link: LinkOptions = LinkOptions()
    train: TrainOptions = TrainOptions()
    systems: tuple[str, ...] = DEFAULT_SYSTEMS
    topology: str = "star"
    layout: Layout | None = None
    """A topology from a file, in the place of a known one."""
    switch: str = "soft"
    engine: str = "auto"
    server: bool = False
    """Whether P4 switches only forward, to a software aggregator at one of their ports: a parameter server."""
    impair: str | None = None
    """Impairment of the soft switch's ports, in its own notation (drop=0.01,dup=0.01,...)."""
    malformed: int = 0
    """Number of malformed packets sent to the switch while a system that uses it trains."""
    blind: bool = False
    """Whether workers mask what they send to a switch."""
    conditions: Conditions = field(default_factory=Conditions)
    laned: LanedOptions = field(default_factory=LanedOptions)
    """Options of the system dlcp, some also of thc-bounded, dlcp-ring and udp-ring."""
    deadline_s: float = 1800.0
    metrics: str | None = None
    """File for the list of the programs' metrics, in the form of Prometheus' file_sd_configs; None: no metrics."""
    trace: bool = False
    """Whether the workers of systems with a job write what they do, as one trace."""

    def __post_init__(self) -> None:
        self._check_network()
        self._check_systems()
        self.conditions.check_hosts(self.workers)
        self._check_laned()
        if self.malformed < 0:
            raise OptionError(f"malformed={self.malformed}: must not be negative")
        if self.malformed and self.switch == AGGREGATOR:
            raise OptionError(f"malformed={self.malformed}: only with a P4 switch, not switch={AGGREGATOR}")
        if self.malformed and self.topology != "star":
            raise OptionError(f"malformed={self.malformed}: only with topology=star, where one switch counts them all")
        self._check_server()
        if self.deadline_s <= 0:
            raise OptionError(f"deadline={self.deadline_s}: must be above 0 seconds")

    def _check_server(self) -> None:
        if self.server and (self.switch == AGGREGATOR or self.topology != "star"):
            raise OptionError("server: only behind a P4 switch in topology=star")
        if self.server and self.malformed:
            raise OptionError(f"malformed={self.malformed}: not with a server, whose switch has no jobs")
        if not self.server and self.conditions.background > BACKGROUND_MAX:
            rule = f"a share of every link, 0 to {BACKGROUND_MAX}"
            raise OptionError(f"background={self.conditions.background}: {rule}; more only with a server")

    def _check_laned(self) -> None:
        self.laned.check(self.workers, self.topology)
        chosen = [parse(name) for name in self.systems]
        for option in self.laned.given():
            self._check_laned_option(option, chosen)
        if self.laned.degrade is not None and (self.topology != "star" or self.switch == AGGREGATOR or self.server):
            raise OptionError(f"degrade={self.laned.degrade.mode}: only with a P4 switch in topology=star")
        if self.malformed and any(one.recipe.laned for one in chosen):
            raise OptionError(f"malformed={self.malformed}: not with system dlcp, whose lanes need the other jobs' ids")
        if self.malformed and any(one.bounded for one in chosen):
            rule = "not with system thc-bounded, whose switch has not the jobs for such packets: name thc instead"
            raise OptionError(f"malformed={self.malformed}: {rule}")

    def _check_laned_option(self, option: str, chosen: Sequence[Chosen]) -> None:
        """Some system must have it, and `thc-bounded` over a group must not seem to have it."""
        takers = ", ".join(name for name in SYSTEMS if option in parse(name).laned_options)
        rule = f"{FLAGS[option]} is only for {takers}: leave it out, or name one of these"
        if not any(option in one.laned_options for one in chosen):
            raise OptionError(f"systems={','.join(self.systems)}: {rule}")
        for one in chosen:
            if option in BOUNDED and one.recipe.bounded and not one.bounded:
                raise OptionError(f"systems={one.name}: {rule}")

    @property
    def needs_barrier(self) -> bool:
        """Whether workers wait for each other at a barrier outside the network, which costs no time on the links."""
        recipes = [parse(name).recipe for name in self.systems]
        return self.conditions.any or any(recipe.laned or recipe.bounded for recipe in recipes)

    def _check_systems(self) -> None:
        if not self.systems:
            raise OptionError("systems: name at least one")
        chosen = [parse(name) for name in self.systems]
        if len({one.name for one in chosen}) != len(chosen):
            raise OptionError(f"systems={','.join(self.systems)}: each at most once")
        for one in chosen:
            most = min((min(BY_NAME[op].workers_max, WORKERS_MAX) for op in one.ops), default=WORKERS_MAX)
            if self.workers > most:
                raise OptionError(f"workers={self.workers}: system {one.name} takes at most {most}")
            if self.blind and one.switched and not _MASKED.issuperset(one.ops):
                raise OptionError(
                    f"blind: not with system {one.name}; masks are for {', '.join(sorted(_MASKED))} alone"
                )
            if self.blind and one.bounded:
                raise OptionError(
                    f"blind: not with system {one.name}, whose sums may lack contributions: name thc instead"
                )
            if self.blind and (one.recipe.laned or self.workers < 2):
                raise OptionError("blind: not with system dlcp, whose packets have priorities, nor with one worker")

    def _check_topology(self) -> None:
        if self.layout is not None:
            if self.workers != len(self.layout.hosts):
                raise OptionError(f"workers={self.workers}: {self.topology} has {len(self.layout.hosts)} hosts")
            return
        if self.topology not in TOPOLOGIES:
            raise OptionError(f"topology={self.topology}: known are {', '.join(TOPOLOGIES)}, or a YAML file")
        leaves = len(leaves_of(self.topology))
        if self.workers < leaves:
            raise OptionError(f"workers={self.workers}: topology {self.topology} has {leaves} leaves, each needs one")

    def _check_network(self) -> None:
        if not 1 <= self.workers <= WORKERS_MAX:
            raise OptionError(f"workers={self.workers}: a run has 1 to {WORKERS_MAX} workers")
        self._check_topology()
        if self.switch not in SWITCHES:
            raise OptionError(f"switch={self.switch}: known are {', '.join(SWITCHES)}")
        if self.switch == AGGREGATOR and self.topology != "star":
            raise OptionError(f"topology={self.topology}: switch={AGGREGATOR} is a single level, a star")
        if self.engine not in ENGINES:
            raise OptionError(f"engine={self.engine}: known are {', '.join(ENGINES)}")
        other = self.switch in ("bmv2", AGGREGATOR)
        if self.engine != "auto" and other:
            raise OptionError(f"engine={self.engine}: only the soft switch has engines, not switch={self.switch}")
        if self.impair is not None and other:
            rule = f"only the soft switch can impair its ports, not switch={self.switch}"
            raise OptionError(f"impair={self.impair}: {rule}")
        if self.impair is not None:
            _check_impairment(self.impair)


def _check_impairment(text: str) -> None:
    """Apply the soft switch's rules now, rather than after the baseline has run for minutes."""
    from softswitch.runtime.impair import ImpairmentError, parse_impairment

    try:
        parse_impairment(text)
    except ImpairmentError as error:
        raise OptionError(f"impair={text}: {error}") from error
