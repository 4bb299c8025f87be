# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Options of a run. They are checked here once; all other modules rely on them."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, Final

from sumwire_protocol import constants as p4
from sumwire_protocol.ops import BY_NAME, JUMBO

from sumwire_lab.errors import OptionError
from sumwire_lab.options import layout as layouts
from sumwire_lab.options.conditions import BACKGROUND_MAX, Conditions
from sumwire_lab.options.fields import (
    Checked,
    Flag,
    Rule,
    at_least,
    between,
    flags_of,
    from_arguments,
    given_flags,
    one_of,
    option,
)
from sumwire_lab.options.layout import TOPOLOGIES, NetworkLayout, leaves_of
from sumwire_lab.options.priority_lanes import BOUNDED, LanedOptions
from sumwire_lab.options.priority_lanes import flags as laned_flags
from sumwire_lab.options.recipes import (
    ALL_SYSTEMS,
    DEFAULT_SYSTEMS,
    DEFAULT_TASK,
    INNER,
    PLAIN,
    SYSTEMS,
    TASKS,
    Chosen,
    TrainingTask,
    check_settings,
    named,
    parse,
    settings_class,
    settings_of,
)

WORKERS_MAX: Final = 32
"""Bits in a job's contributors bitmap, which limits the workers of one switch."""
AGGREGATOR: Final = "aggregator"
SWITCHES: Final = ("auto", "soft", "bmv2", AGGREGATOR)
"""`auto` is bmv2 where it is on PATH, else soft; `aggregator` is a server's process instead of a switch."""
ENGINES: Final = ("auto", "native", "python")
"""Engines of the soft switch; `auto` is native if there is a compiler, else python."""
BUFFER_MB: Final = 25.0
"""Of DDP's and ACP-SGD's buffers. It is DDP's default, but also for the first one, whose default of 1 MB would split
a model of 1.2 MB into a large buffer and a tail that costs only latency."""
MTU: Final = 1500
"""Bytes of the packets on a link, unless an option says otherwise."""
JUMBO_MTU: Final = p4.IPV4_BYTES + p4.UDP_BYTES + p4.SUMWIRE_BYTES + JUMBO.down.words * p4.WORD_BYTES
"""From here on links carry packets of the op jumbo."""
UNLIMITED: Final = inf
"""Rate of a link without a limit, for the benchmarks of one all-reduce. A run of trainings needs a limit."""
_KERNEL_NAME: Final = Rule(
    lambda name: re.fullmatch(r"[a-z][a-z0-9_]{0,14}", name) is not None,
    "a kernel names it with up to 15 small letters, digits and _, as cubic",
)
_RATE: Final = Rule(lambda mbit: mbit == UNLIMITED or 0.1 <= mbit <= 10_000, "a link has 0.1 to 10000 Mbit/s")
# Ops of the systems that a blind job serves.
_MASKED: Final = frozenset({"thc", "max32", "sum32"})


def by_task(name: str, meaning: str, flag: str = "") -> Any:
    """Return an option whose default depends on the task. The field's default is that of the default task."""
    own = {task.name: getattr(task, name) for task in TASKS.values()}
    shown = ", ".join(f"{task} {'-' if value is None else value}" for task, value in own.items())
    return option(own[DEFAULT_TASK], meaning, flag=flag, rule=at_least(1), shown=shown)


@dataclass(frozen=True)
class LinkOptions(Checked):
    """A host's link. It has the same rate in both directions, and a queue at each end."""

    mbit: float = option(100.0, "link rate in Mbit/s", flag="bw", rule=_RATE)
    queue_packets: int = option(
        256, "packets a link's queue holds", flag="queue", rule=between(2, 100_000, "a queue holds 2 to 100000 packets")
    )
    trunk_mbit: float | None = option(
        None, "rate of links between switches in Mbit/s", flag="trunk-bw", rule=_RATE, shown="default: as --bw"
    )
    mtu: int = option(
        MTU,
        f"bytes of the links' packets; from {JUMBO_MTU} on, those of THC through switches have {JUMBO.values} values",
        rule=between(MTU, 9000, "links carry packets of 1500 to 9000 bytes"),
    )
    control: str = option("cubic", "congestion control of TCP between hosts, as the kernel names it", rule=_KERNEL_NAME)
    priorities: bool = False
    """Eight queues at each end, served in strict order of the packets' priority (DSCP)."""

    @property
    def known_mbit(self) -> float | None:
        """Rate of the links; None without a limit."""
        return None if self.mbit == UNLIMITED else self.mbit

    def slowest_mbit(self) -> float:
        """Return the rate of the slower links: those of the hosts or those between switches."""
        return min(self.mbit, self.trunk().mbit)

    def trunk(self) -> LinkOptions:
        """Return the options of a link between switches."""
        return self if self.trunk_mbit is None else replace(self, mbit=self.trunk_mbit, trunk_mbit=None)


# -- the training --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrainOptions(Checked):
    """Options of the training itself, equal for every system of a run. The defaults are those of the task `digits`."""

    task: str = option(DEFAULT_TASK, f"what to train, of {', '.join(TASKS)}", rule=one_of(tuple(TASKS)))
    epochs: int = by_task("epochs", "passes over the data")
    batch: int = by_task("batch", "samples per worker and step")
    hidden: int = by_task("hidden", "units of a hidden layer; of the transformer, its width")
    learning_rate: float = TASKS[DEFAULT_TASK].learning_rate
    """Learning rate of the systems that aggregate the mean gradient."""
    weight_decay: float = TASKS[DEFAULT_TASK].weight_decay
    seed: int = option(1, "of weights, data and random bits", rule=at_least(0, "must not be negative"))
    max_steps: int | None = by_task("max_steps", "end after so many steps, with a schedule of this length", "steps")
    until_target: bool = option(False, "end at the step whose test reaches the task's accuracy")
    nmse_samples: int = 4
    """Steps at which the aggregated gradient is compared with the true mean."""
    buffer_mb: float | None = option(
        None,
        f"gradient that shares a buffer, in units of 2^20 bytes, {BUFFER_MB:g}; 0: each tensor has its own",
        rule=Rule(lambda size: 0 <= size < inf, "must be 0, for a buffer per tensor, or more"),
        shown="",
    )
    late: bool = option(False, "send nothing before the backward pass has ended")
    inner: str = option(PLAIN, f"marsit: its local optimizer, of {', '.join(INNER)}", rule=one_of(tuple(INNER)))
    system: Mapping[str, Any] = field(default_factory=dict)
    """Options of the systems that have them, by the library's names: those that are not the system's own."""

    @classmethod
    def of(cls, task: str, **given: Any) -> TrainOptions:
        """Return the task's defaults, replaced by all values in `given` that are not None. Options of systems may be
        given as well.

        Raises OptionError.
        """
        if task not in TASKS:
            raise OptionError(f"task={task}: known are {', '.join(TASKS)}")
        own = {f.name for f in fields(cls)}
        defaults = {f.name: getattr(TASKS[task], f.name) for f in fields(TrainingTask) if f.name in own}
        named = {name: one for name, one in given.items() if one is not None}
        system = {**named.pop("system", {}), **{name: named.pop(name) for name in set(named) - own}}
        return cls(**{"task": task, **defaults, **named, "system": system})

    def __post_init__(self) -> None:
        super().__post_init__()
        check_settings(self.system)

    @property
    def rank(self) -> int:
        """Rank of the low-rank systems."""
        return int(self.system.get("rank", TASKS[self.task].rank))


# -- a run ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunOptions(Checked):
    """One run: the same training with each system in turn, on equal links."""

    workers: int = option(
        4,
        "hosts",
        rule=between(1, WORKERS_MAX, f"a run has 1 to {WORKERS_MAX} workers"),
        shown="4, or as many as the file of --topology has",
    )
    link: LinkOptions = LinkOptions()
    train: TrainOptions = TrainOptions()
    systems: tuple[str, ...] = option(
        DEFAULT_SYSTEMS,
        f"which to train, in this order, of {', '.join(SYSTEMS)}, with @switch or @group; "
        f"all: {', '.join(ALL_SYSTEMS)}",
        read=named,
    )
    topology: str = option("star", f"one of {', '.join(TOPOLOGIES)}, or a YAML file with switches and hosts")
    layout: NetworkLayout | None = None
    """A topology from a file, in the place of a known one."""
    switch: str = option(
        "soft",
        f"of {', '.join(SWITCHES)}; auto: bmv2 if on PATH, else soft; aggregator: a server's process instead",
        rule=one_of(SWITCHES),
    )
    engine: str = option(
        "auto",
        f"engine of the soft switch, of {', '.join(ENGINES)}; auto: native if there is a compiler",
        rule=one_of(ENGINES),
    )
    server: bool = option(False, "P4 switches only forward, to a software aggregator at one of their ports")
    impair: str | None = option(None, "impair the soft switch's ports, as drop=0.01,dup=0.01,reorder=0.02,seed=7")
    malformed: int = option(
        0, "malformed packets sent at the switch during the run", rule=at_least(0, "must not be negative")
    )
    blind: bool = option(False, "workers mask what they send: the switch sees noise")
    conditions: Conditions = field(default_factory=Conditions)
    laned: LanedOptions = field(default_factory=LanedOptions)
    """Options of the system dlcp, some also of thc-bounded, dlcp-ring and udp-ring."""
    deadline_s: float = option(
        1800.0,
        "seconds the run may take",
        flag="deadline",
        rule=Rule(lambda seconds: seconds > 0, "must be above 0 seconds"),
    )
    metrics: str | None = option(
        None, "serve metrics, and list in FILE where, in the form of Prometheus' file_sd_configs", metavar="FILE"
    )
    trace: bool = option(False, "write workers' timelines to SYSTEM/trace.json, for Perfetto")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_network()
        self._check_systems()
        self.conditions.check_hosts(self.workers)
        self._check_laned()
        if self.malformed and self.switch == AGGREGATOR:
            raise OptionError(f"malformed={self.malformed}: only with a P4 switch, not switch={AGGREGATOR}")
        if self.malformed and self.topology != "star":
            raise OptionError(f"malformed={self.malformed}: only with topology=star, where one switch counts them all")
        self._check_server()

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
        for name in self.laned.given():
            self._check_laned_option(name, chosen)
        if self.laned.degrade is not None and (self.topology != "star" or self.switch == AGGREGATOR or self.server):
            raise OptionError(f"degrade={self.laned.degrade.mode}: only with a P4 switch in topology=star")
        if self.malformed and any(one.recipe.laned for one in chosen):
            raise OptionError(f"malformed={self.malformed}: not with system dlcp, whose lanes need the other jobs' ids")
        if self.malformed and any(one.bounded for one in chosen):
            rule = "not with system thc-bounded, whose switch has not the jobs for such packets: name thc instead"
            raise OptionError(f"malformed={self.malformed}: {rule}")

    def _check_laned_option(self, name: str, chosen: Sequence[Chosen]) -> None:
        """Some system must have it, and `thc-bounded` over a group must not seem to have it."""
        _check_taken(laned_flags()[name], lambda one: name in one.laned_options, chosen)
        for one in chosen:
            if name in BOUNDED and one.recipe.bounded and not one.bounded:
                _check_taken(laned_flags()[name], lambda one: name in one.laned_options, [one])

    @property
    def needs_barrier(self) -> bool:
        """Whether workers wait for each other at a barrier outside the network, which takes no time on the links."""
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
        self._check_topology()
        if self.switch == AGGREGATOR and self.topology != "star":
            raise OptionError(f"topology={self.topology}: switch={AGGREGATOR} is a single level, a star")
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


# -- who takes an option -------------------------------------------------------------------------------


def _check_taken(flag: str, takes: Callable[[Chosen], bool], chosen: Sequence[Chosen]) -> None:
    """Raises OptionError for a flag that none of the chosen systems takes."""
    if any(map(takes, chosen)):
        return
    takers = [name for name, one in _every_system() if takes(one)]
    known = dict.fromkeys(name.partition("@")[0] if name in SYSTEMS else name for name in takers)
    shortest = [name for name in known if name.partition("@")[0] == name or name.partition("@")[0] not in known]
    rule = f"{flag} is only for {', '.join(shortest)}: leave it out, or name one of these"
    raise OptionError(f"systems={','.join(one.name for one in chosen)}: {rule}")


def _every_system() -> Iterator[tuple[str, Chosen]]:
    """Every system over every transport, the preferred ones first."""
    for name in SYSTEMS:
        yield name, parse(name)
    for name in SYSTEMS:
        yield from ((one.name, one) for one in map(parse, (f"{name}@{way}" for way in parse(name).recipe.ops)))


def takers_by_flag() -> dict[str, Callable[[Chosen], bool]]:
    """Return, for each flag of `run` that not every system takes, a function that tells whether a system does."""
    switched = ("switch", "engine", "server", "impair", "malformed", "blind", "metrics", "trace")
    found: dict[str, Callable[[Chosen], bool]] = {name: lambda one: one.switched for name in switched}
    found["buffer-mb"] = lambda one: one.hooked or one.has("threshold_bytes")
    found["late"] = lambda one: one.hooked or one.has("accumulation")
    found["inner"] = lambda one: one.recipe.merges_updates
    for flag in flags_of(settings_class()):
        found[flag.name] = partial(_takes, flag.field.name)
    return found


def _takes(name: str, one: Chosen) -> bool:
    return one.takes(name)


# -- from the command line -----------------------------------------------------------------------------


@dataclass(frozen=True)
class ScriptOptions(Checked):
    """What to run in the lab instead of its own training: a script, Mininet's prompt, or both."""

    script: Path | None = option(
        None,
        "run this script on every host, as torchrun would, instead",
        rule=Rule(lambda path: path.is_file(), "there is no such file"),
    )
    arguments: tuple[str, ...] = ()
    """Arguments of the script."""
    cli: bool = option(False, "Mininet's prompt in the lab, instead or beside the script")
    keep: bool = option(False, "leave the lab standing; `sumwire-lab down` takes it down")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.arguments and self.script is None:
            raise OptionError(f"{' '.join(self.arguments)}: arguments are for a script, name it with --script")

    @property
    def any(self) -> bool:
        """Whether there is anything to run besides the lab's own training."""
        return self.script is not None or self.cli or self.keep


def of_trainings() -> set[str]:
    """Return the attributes of the flags that have no effect without the lab's own training."""
    groups = (TrainOptions, LanedOptions, settings_class())
    own = {flag.attribute for group in groups for flag in flags_of(group)} - {"seed"}
    return own | {"systems", "malformed", "metrics", "trace", "live", "blind", "slow"}


def script_options(arguments: Namespace) -> ScriptOptions:
    """Return what `run` is to do instead of a training. Raises OptionError, also for an option that only a training
    has."""
    chosen = from_arguments(ScriptOptions, arguments, arguments=tuple(arguments.words))
    if chosen.any:
        given = [*given_flags(arguments, RunOptions), *given_flags(arguments, settings_class())]
        names = [flag.name for flag in given if flag.attribute in of_trainings()]
        names += ["live"] if arguments.live is not None else []
        if names:
            named = ", ".join(f"--{name}" for name in names)
            rule = "of the lab's own training, which --script, --cli and --keep replace; leave it out"
            raise OptionError(f"{named}: {rule}")
    return chosen


def run_options(arguments: Namespace) -> RunOptions:
    """Return the options of the command `run`. Raises OptionError, also for an option that no system of the run
    takes."""
    if arguments.bw == UNLIMITED:
        raise OptionError(f"bw={arguments.bw}: a run of trainings needs a limit, 0.1 to 10000 Mbit/s")
    more: dict[str, Any] = {"train": from_arguments(TrainOptions, arguments, system=settings_of(arguments))}
    if arguments.topology.endswith(layouts.SUFFIXES):
        layout = layouts.load(Path(arguments.topology))
        hosts = len(layout.hosts) if arguments.workers is None else arguments.workers
        more |= {"layout": layout, "topology": Path(arguments.topology).name, "workers": hosts}
    laned = from_arguments(LanedOptions, arguments)
    if laned.degrade is not None:
        laned = replace(laned, degrade=replace(laned.degrade, seed=arguments.seed))
    options = from_arguments(RunOptions, arguments, laned=laned, **more)
    check_takers(options.systems, [*given_flags(arguments, RunOptions), *given_flags(arguments, settings_class())])
    return options


def check_takers(systems: Sequence[str], given: Sequence[Flag]) -> None:
    """Raise OptionError for a given flag that none of the systems takes."""
    chosen, takers = [parse(name) for name in systems], takers_by_flag()
    for flag in given:
        if flag.name in takers:
            _check_taken(flag.name, takers[flag.name], chosen)
