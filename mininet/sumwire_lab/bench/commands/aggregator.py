# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a packet costs the software aggregator: `python -m sumwire_lab bench-aggregator --rate 44000`.

Real sockets on loopback. This process plays all workers: it sends contributions slot by slot and waits for the results,
at most at the given rate. Measured is the CPU time of the aggregator's processes per contribution, the kernel's part
included. On loopback the sender's CPU also does the kernel's receiving work: the number includes what results cost
their receivers, and lacks what contributions cost the driver of a network card.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Final

from sumwire.aggregator.processes import Fleet, signals_held
from sumwire.config import parse_job
from sumwire.native import SWITCH
from sumwire_protocol import constants as p4
from sumwire_protocol.ops import CODES

from sumwire_lab.bench.aggregator_load import AGGREGATOR, Workers, job_mapping
from sumwire_lab.bench.benchmark import Context
from sumwire_lab.bench.command import Command
from sumwire_lab.options.bench_options import AggregatorOptions
from sumwire_lab.system.processes import cpu_clock, cpu_seconds

# Position of the priority within a TOS byte.
_PRIORITY_SHIFT: Final = 5


@dataclass(frozen=True)
class Case:
    """One aggregator; all runs with it."""

    op: str
    processes: int

    @property
    def label(self) -> str:
        return f"{self.op}, {self.processes} processes"


@dataclass(frozen=True)
class Row:
    """One run: contributions, results that came, seconds of wall clock and of the aggregator's CPU time."""

    contributions: int
    results: int
    wall_s: float
    cpu_s: float

    @property
    def cpu_us(self) -> float:
        """CPU microseconds per contribution."""
        return self.cpu_s / self.contributions * 1e6


class AggregatorCommand(Command[Case, Row]):
    """One row per run."""

    name: ClassVar = "bench-aggregator"

    def __init__(self, options: AggregatorOptions) -> None:
        self._options = options

    def plan(self) -> list[Case]:
        """See Command."""
        return [Case(self._options.op, self._options.processes)]

    def measure(self, case: Case, context: Context) -> list[Row]:
        """See Benchmark. A run that is not counted comes first."""
        options = self._options
        job = parse_job(job_mapping(options.workers), 0)
        rows = []
        with signals_held(), Fleet((job,), AGGREGATOR, p4.SUMWIRE_PORT, case.processes) as fleet:
            load = Workers(job, CODES[case.op], tos=options.priority << _PRIORITY_SHIFT)
            clocks = [cpu_clock(pid) for pid in fleet.pids]
            try:
                load.run(options.seconds / 4, options.rate, options.piece)
                for _ in range(options.runs):
                    before, began = cpu_seconds(clocks), time.monotonic()
                    sent, results = load.run(options.seconds, options.rate, options.piece)
                    cpu, wall = cpu_seconds(clocks) - before, time.monotonic() - began
                    rows.append(Row(sent, results, wall, cpu))
            finally:
                load.close()
        return rows

    def record(self, rows: Sequence[Row]) -> dict[str, Any]:
        """See Command."""
        return {"op": self._options.op, "cpu_us": self._median(rows), "runs": [asdict(row) for row in rows]}

    def text(self, rows: Sequence[Row]) -> str:
        """One line per run, then the median."""
        form = "numpy" if os.environ.get(SWITCH) == "0" else "native where there is a compiler"
        lines = [
            f"{self._options.op}, {form}: {row.contributions / row.wall_s:,.0f} contributions/s, "
            f"{row.results / row.contributions:.1%} of results came, {row.cpu_us:.2f} us of CPU each, "
            f"{row.cpu_s / row.wall_s:.0%} of a core"
            for row in rows
        ]
        return "\n".join([*lines, f"median: {self._median(rows):.2f} us of CPU a contribution"])

    def holds(self, rows: Sequence[Row]) -> bool:
        """Whether a contribution costs at most the limit."""
        return self._median(rows) <= self._options.limit_us

    @staticmethod
    def _median(rows: Sequence[Row]) -> float:
        return statistics.median(row.cpu_us for row in rows)
