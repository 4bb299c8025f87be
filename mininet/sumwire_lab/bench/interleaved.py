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
from typing import Any, ClassVar

from sumwire_protocol.ops import CODES

from sumwire_lab.bench.benchmark import BenchCommand, BenchContext, TextColumn
from sumwire_lab.bench.exchange_worker import exchange, exchanges
from sumwire_lab.bench.timing import repeats_of
from sumwire_lab.options.bench_options import LOOPBACK, InterleavedOptions, rate_text
from sumwire_lab.options.run_options import AGGREGATOR, LinkOptions, RunOptions
from sumwire_lab.run.session import open_session
from sumwire_lab.study.workers import on_loopback


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


class InterleavedCommand(BenchCommand[InterleavedOptions, InterleavedCase, InterleavedRow]):
    """All rates and systems. `repeats`: of gloo, and of the system, with each size."""

    name: ClassVar = "turns"
    columns: ClassVar[Sequence[TextColumn[InterleavedRow]]] = (
        TextColumn("links", lambda row: where(row.link_mbit)),
        TextColumn("values", lambda row: str(row.values)),
        TextColumn("system", lambda row: row.system),
        TextColumn("gloo, s", lambda row: f"{row.gloo_s:.4f}"),
        TextColumn("seconds", lambda row: f"{row.seconds:.4f}"),
        TextColumn("gloo / it", lambda row: f"{row.speed_up:.2f}"),
        TextColumn("by the group", lambda row: f"{row.by_group:.0%}"),
    )

    def __init__(self, options: InterleavedOptions) -> None:
        super().__init__(options)
        self.needs_network = any(link is not None for link in options.bw)

    def plan(self) -> list[InterleavedCase]:
        """See BenchCommand."""
        return [InterleavedCase(system, rate) for rate in self.options.bw for system in self.options.systems]

    def measure(self, case: InterleavedCase, context: BenchContext) -> list[InterleavedRow]:
        """See Benchmark."""
        told = {
            "exchange": "in-turn",
            "system": case.system,
            "sizes": self.options.sizes,
            "repeats": 2 * self.options.repeats,
        }
        measured = self._measured(case, context.folder, told)
        rows = turn_rows(case, self.options.sizes, measured)
        for row in rows:
            context.say(f"{case.label}, {row.values} values: {row.seconds:.4f} s, gloo {row.gloo_s:.4f} s")
        return rows

    def _measured(self, case: InterleavedCase, results: Path, told: dict[str, Any]) -> list[dict[str, Any]]:
        if case.link_mbit is None:
            return on_loopback(exchange, {"switches": [], **told}, self.options.workers, ops=list(CODES))
        options = RunOptions(workers=self.options.workers, link=LinkOptions(case.link_mbit), switch=AGGREGATOR)
        with open_session(options, AGGREGATOR, results / f"{case.system}-{case.link_mbit:g}") as session:
            return exchanges(session, told)

    def record(self, rows: Sequence[InterleavedRow]) -> dict[str, Any]:
        """See BenchCommand."""
        return {
            "workers": self.options.workers,
            "repeats": self.options.repeats,
            "results": [_result(row) for row in rows],
        }


def where(link_mbit: float | None) -> str:
    """The links of a case in words."""
    return LOOPBACK if link_mbit is None else rate_text(link_mbit)


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
