# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a run can be told, checked once. Everything later takes these objects as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sumwire_lab.errors import OptionError
from sumwire_lab.recipes import DEFAULT_SYSTEMS, OP_WORKERS_MAX, RECIPES, SYSTEMS
from sumwire_lab.shapes import TOPOLOGIES, leaves_of

# One star is one switch: the contributors bitmap of a job has this many bits.
WORKERS_MAX: Final = 32
SWITCHES: Final = ("auto", "soft", "bmv2")
ENGINES: Final = ("auto", "native", "python")
"""Of the soft switch; `auto` is native where a compiler is there."""
TARGET_ACCURACY: Final = 0.95


@dataclass(frozen=True)
class LinkOptions:
    """One host's link: the same rate in both directions, each end with its own queue."""

    mbit: float = 100.0
    queue_packets: int = 256

    def __post_init__(self) -> None:
        if not 0.1 <= self.mbit <= 10_000:
            raise OptionError(f"bw={self.mbit}: a link has 0.1 to 10000 Mbit/s")
        if not 2 <= self.queue_packets <= 100_000:
            raise OptionError(f"queue={self.queue_packets}: a queue holds 2 to 100000 packets")


@dataclass(frozen=True)
class TrainOptions:
    """The training itself; equal for every system of a run."""

    epochs: int = 10
    batch: int = 32
    """Samples per worker and step."""
    hidden: int = 1024
    learning_rate: float = 0.1
    weight_decay: float = 1e-4
    seed: int = 1
    max_steps: int | None = None
    """Ends the training early, for tests; the learning-rate schedule then has this many steps."""
    nmse_samples: int = 4
    """Steps at which the aggregated gradient is compared with the true mean."""

    def __post_init__(self) -> None:
        positive = {"epochs": self.epochs, "batch": self.batch, "hidden": self.hidden}
        if self.max_steps is not None:
            positive["steps"] = self.max_steps
        for name, value in positive.items():
            if value < 1:
                raise OptionError(f"{name}={value}: must be at least 1")
        if self.seed < 0:
            raise OptionError(f"seed={self.seed}: must not be negative")


@dataclass(frozen=True)
class RunOptions:
    """One run: the same training once per system, one after the other, on the same links."""

    workers: int = 4
    link: LinkOptions = LinkOptions()
    train: TrainOptions = TrainOptions()
    systems: tuple[str, ...] = DEFAULT_SYSTEMS
    topology: str = "star"
    switch: str = "soft"
    """`auto` is bmv2 where it is on PATH."""
    engine: str = "auto"
    impair: str | None = None
    """Impairment of the soft switch's ports, in its own notation (drop=0.01,dup=0.01,...)."""
    malformed: int = 0
    """Malformed packets sent at the switch while the P4 system trains."""
    deadline_s: float = 1800.0

    def __post_init__(self) -> None:
        self._check_network()
        self._check_systems()
        if self.malformed < 0:
            raise OptionError(f"malformed={self.malformed}: must not be negative")
        if self.malformed and self.topology != "star":
            raise OptionError(f"malformed={self.malformed}: only with topology=star, where one switch counts them all")
        if self.deadline_s <= 0:
            raise OptionError(f"deadline={self.deadline_s}: must be above 0 seconds")

    def _check_systems(self) -> None:
        if not self.systems:
            raise OptionError("systems: name at least one")
        for name in self.systems:
            if name not in SYSTEMS:
                raise OptionError(f"systems={name}: known are {', '.join(SYSTEMS)}")
        if len(set(self.systems)) != len(self.systems):
            raise OptionError(f"systems={','.join(self.systems)}: each at most once")
        for name in self.systems:
            most = min((OP_WORKERS_MAX.get(op, WORKERS_MAX) for op in RECIPES[name].ops), default=WORKERS_MAX)
            if self.workers > most:
                raise OptionError(f"workers={self.workers}: system {name} takes at most {most}")

    def _check_network(self) -> None:
        if not 1 <= self.workers <= WORKERS_MAX:
            raise OptionError(f"workers={self.workers}: a run has 1 to {WORKERS_MAX} workers")
        if self.topology not in TOPOLOGIES:
            raise OptionError(f"topology={self.topology}: known are {', '.join(TOPOLOGIES)}")
        leaves = len(leaves_of(self.topology))
        if self.workers < leaves:
            raise OptionError(f"workers={self.workers}: topology {self.topology} has {leaves} leaves, each needs one")
        if self.switch not in SWITCHES:
            raise OptionError(f"switch={self.switch}: known are {', '.join(SWITCHES)}")
        if self.engine not in ENGINES:
            raise OptionError(f"engine={self.engine}: known are {', '.join(ENGINES)}")
        if self.engine != "auto" and self.switch == "bmv2":
            raise OptionError(f"engine={self.engine}: only the soft switch has engines, not switch=bmv2")
        if self.impair is not None and self.switch == "bmv2":
            raise OptionError(f"impair={self.impair}: only the soft switch can impair its ports, not switch=bmv2")
        if self.impair is not None:
            _check_impairment(self.impair)


def _check_impairment(text: str) -> None:
    """The soft switch's own rules, but before a baseline has run for minutes."""
    from softswitch.impair import ImpairmentError, parse_impairment

    try:
        parse_impairment(text)
    except ImpairmentError as error:
        raise OptionError(f"impair={text}: {error}") from error
