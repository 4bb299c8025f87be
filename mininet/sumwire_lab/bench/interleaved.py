# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Interleaved A/B: one plain all-reduce by gloo and by Sumwire in turn, `python -m sumwire_lab bench interleaved --bw
loopback`.

Both are done by the same processes on the same links, one exchange after the other. So they share what disturbs them,
and a small difference shows. Between hosts the links end at a kernel bridge, where gloo is at its best, and Sumwire
has its software aggregator. On loopback all of them are processes of this machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, ClassVar, Final

from sumwire_protocol.ops import CODES

from sumwire_lab.bench import allreduce
from sumwire_lab.bench.benchmark import BenchCommand, BenchContext
from sumwire_lab.bench.exchange_worker import exchange, exchanges
from sumwire_lab.bench.timing import repeats_of
from sumwire_lab.errors import OptionError
from sumwire_lab.options.recipes import BASELINE
from sumwire_lab.options.run_options import AGGREGATOR, LinkOptions, RunOptions
from sumwire_lab.run.session import open_session
from sumwire_lab.study.workers import on_loopback

WORKERS: Final = 4
REPEATS: Final = 30
LOOPBACK: Final = "loopback"
SYSTEMS: Final = tuple(name for name in allreduce.KNOWN if name != BASELINE)


def parse_links(text: str) -> tuple[float | None, ...]:
    """`loopback,100` as Mbit/s, None for loopback. Raises OptionError."""
    return tuple(None if word == LOOPBACK else allreduce.parse_rates(word)[0] for word in text.split(","))


def parse_systems(text: str) -> tuple[str, ...]:
    """`thc,auto` as names. Raises OptionError."""
    return allreduce.parse_systems(text, SYSTEMS)


@dataclass(frozen=True)
class InterleavedCase:
    """One system, in turn with gloo, between hosts or on loopback; its sizes one after the other."""

    system: str
    link_mbit: float | None
    """None: on loopback."""

    @property
    def label(self) -> str:
        return f"{self.system}, {where(self.link_mbit)}"


@dataclass(frozen=True)
class InterleavedRow:
    """One size of a case. Seconds are those of the slowest worker, median of the repeats."""

    system: str
    link_mbit: float | None
    values: int
    gloo_s: float
    seconds: float
    by_group: float
    """Share of the system's exchanges that it left to the process group, which is gloo."""

    @property
    def speed_up(self) -> float:
        """gloo's time over that of the system."""
        return self.gloo_s / self.seconds


class TurnsCommand(BenchCommand[InterleavedCase, InterleavedRow]):
    """All rates and systems. `repeats`: of gloo, and of the system, with each size."""

    name: ClassVar = "turns"

    def __init__(
        self,
        sizes: Sequence[int],
        rates: Sequence[float | None],
        systems: Sequence[str],
        repeats: int = REPEATS,
        workers: int = WORKERS,
    ) -> None:
        self._sizes = sizes
        self._rates = rates
        self._systems = systems
        self._repeats = repeats
        self._workers = workers

    def plan(self) -> list[InterleavedCase]:
        """See BenchCommand. Raises OptionError."""
        if self._repeats < 1:
            raise OptionError(f"repeats={self._repeats}: must be at least 1")
        return [InterleavedCase(system, rate) for rate in self._rates for system in self._systems]

    def measure(self, case: InterleavedCase, context: BenchContext) -> list[InterleavedRow]:
        """See Benchmark."""
        told = {"exchange": "in-turn", "system": case.system, "sizes": self._sizes, "repeats": 2 * self._repeats}
        measured = self._measured(case, context.folder, told)
        rows = turn_rows(case, self._sizes, measured)
        for row in rows:
            context.say(f"{case.label}, {row.values} values: {row.seconds:.4f} s, gloo {row.gloo_s:.4f} s")
        return rows

    def _measured(self, case: InterleavedCase, results: Path, told: dict[str, Any]) -> list[dict[str, Any]]:
        if case.link_mbit is None:
            return on_loopback(exchange, {"switches": [], **told}, self._workers, ops=list(CODES))
        options = RunOptions(workers=self._workers, link=LinkOptions(case.link_mbit), switch=AGGREGATOR)
        with open_session(options, AGGREGATOR, results / f"{case.system}-{case.link_mbit:g}") as session:
            return exchanges(session, told)

    def record(self, rows: Sequence[InterleavedRow]) -> dict[str, Any]:
        """See BenchCommand."""
        return {"workers": self._workers, "repeats": self._repeats, "results": [_result(row) for row in rows]}

    def text(self, rows: Sequence[InterleavedRow]) -> str:
        """One line per size."""
        lines = ["links              values  system  gloo, s  seconds  gloo / it  by the group"]
        for row in rows:
            lines.append(
                f"{where(row.link_mbit):<14} {row.values:>10} {row.system:>7} {row.gloo_s:8.4f} {row.seconds:8.4f} "
                f"{row.speed_up:10.2f} {row.by_group:13.0%}"
            )
        return "\n".join(lines)


def where(link_mbit: float | None) -> str:
    """The links of a case in words."""
    return LOOPBACK if link_mbit is None else allreduce.rate_text(link_mbit)


def _result(row: InterleavedRow) -> dict[str, Any]:
    numbers = asdict(row)
    return {"links": where(numbers.pop("link_mbit")), **numbers}


def turn_rows(
    case: InterleavedCase, sizes: Sequence[int], measured: Sequence[Mapping[str, Any]]
) -> list[InterleavedRow]:
    """Rows out of the workers' records: exchanges 0, 2, 4 ... are gloo's, the others the system's."""
    rows = []
    for k, size in enumerate(sizes):
        slowest = [max(repeat) for repeat in repeats_of([worker["sizes"][k] for worker in measured])]
        by_group = measured[0]["stats"]["by_group"][k]
        rows.append(
            InterleavedRow(case.system, case.link_mbit, size, median(slowest[::2]), median(slowest[1::2]), by_group)
        )
    return rows
