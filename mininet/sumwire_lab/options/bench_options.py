# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Options of the benchmarks, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Final

from sumwire_protocol import constants as p4
from sumwire_protocol.ops import CODES

from sumwire_lab.errors import OptionError
from sumwire_lab.options.run_options import SWITCHES

SUITES: Final = ("allreduce", "accuracy", "scaling", "codec-cost", "codec-error", "sizes")
"""In the page's order."""
DEVICES: Final = ("cpu", "cuda")
CODECS: Final = ("thc", "thc-wide", "vote", "ef-sign", "ssdm", "sum32")
"""What bench-codec can time."""
AGGREGATOR_SLOTS: Final = 512
"""Slots of bench-aggregator's job."""


@dataclass(frozen=True)
class BenchOptions:
    """One run of the benchmark. `quick`: minutes instead of hours, with fewer sizes, rates, systems and steps."""

    quick: bool = False
    suites: tuple[str, ...] = SUITES
    switch: str = "soft"
    engine: str = "auto"
    seed: int = 1

    def __post_init__(self) -> None:
        if not self.suites:
            raise OptionError("suites: name at least one")
        for name in self.suites:
            if name not in SUITES:
                raise OptionError(f"suites={name}: known are {', '.join(SUITES)}")
        if len(set(self.suites)) != len(self.suites):
            raise OptionError(f"suites={','.join(self.suites)}: each at most once")
        if self.switch not in SWITCHES:
            raise OptionError(f"switch={self.switch}: known are {', '.join(SWITCHES)}")
        if self.seed < 0:
            raise OptionError(f"seed={self.seed}: must not be negative")


def parse_suites(text: str) -> tuple[str, ...]:
    """`sizes,codec-cost` as names, in the page's order; `all` for every one. Raises OptionError."""
    names = SUITES if text == "all" else tuple(text.split(","))
    unknown = tuple(name for name in names if name not in SUITES)
    return (*(name for name in SUITES if name in names), *unknown)


@dataclass(frozen=True)
class CodecOptions:
    """What bench-codec times."""

    codec: str = "thc"
    values: int = 1_000_000
    block: int | None = None
    """THC: rotation length, 0 for the full tensor; None: the library's own."""
    rounds: int = 30
    warmup: int = 5
    """Rounds before those that are timed."""
    device: str = "cpu"
    """Where the tensor is: cpu, or cuda."""

    def __post_init__(self) -> None:
        if self.codec not in CODECS:
            raise OptionError(f"codec={self.codec}: known are {', '.join(CODECS)}")
        if self.device not in DEVICES:
            raise OptionError(f"device={self.device}: known are {', '.join(DEVICES)}")
        for name, value, least in (("values", self.values, 1), ("rounds", self.rounds, 1), ("warmup", self.warmup, 0)):
            if value < least:
                raise OptionError(f"{name}={value}: must be at least {least}")


@dataclass(frozen=True)
class AggregatorOptions:
    """What bench-aggregator measures: a job of one op, and the load that is put on it."""

    op: str = "thc"
    workers: int = 4
    processes: int = 1
    """Of the aggregator."""
    rate: float = inf
    """Contributions per second, at most."""
    piece: int = 16
    """Slots that are summed before the next ones begin."""
    priority: int = 0
    """Of all packets."""
    seconds: float = 1.0
    """Of a run."""
    runs: int = 3
    limit_us: float = inf
    """CPU time of a contribution, at most."""

    def __post_init__(self) -> None:
        if self.op not in CODES:
            raise OptionError(f"op={self.op}: known are {', '.join(CODES)}")
        if self.piece < 1 or AGGREGATOR_SLOTS % self.piece:
            raise OptionError(f"piece={self.piece}: must divide {AGGREGATOR_SLOTS}")
        if not 0 <= self.priority < p4.PRIORITIES:
            raise OptionError(f"priority={self.priority}: 0 to {p4.PRIORITIES - 1}")
        for name, value in (("workers", self.workers), ("processes", self.processes), ("runs", self.runs)):
            if value < 1:
                raise OptionError(f"{name}={value}: must be at least 1")
