# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Time to accuracy at several link rates, the papers' picture: `bench-rates`."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, ClassVar

from sumwire_lab.bench import charts
from sumwire_lab.bench.benchmark import Context
from sumwire_lab.bench.command import Command
from sumwire_lab.bench.suite import Chart, Series
from sumwire_lab.bench.suites.accuracy import Accuracy, Case, Row
from sumwire_lab.options.bench_options import BenchOptions

PICTURE = "bench-rates.svg"


class RatesCommand(Command[Case, Row]):
    """Each system in turn at each rate, for every seed. The picture is drawn anew after each training."""

    name: ClassVar = "bench-rates"

    def __init__(
        self,
        task: str,
        systems: Sequence[str],
        rates: Sequence[float],
        seeds: Sequence[int],
        options: BenchOptions,
    ) -> None:
        self._options = options
        self._cases = [
            Case(task, system, rate, seed, options.quick) for rate in rates for seed in seeds for system in systems
        ]
        self._rows: list[Row] = []

    def plan(self) -> list[Case]:
        """See Command."""
        return self._cases

    def measure(self, case: Case, context: Context) -> list[Row]:
        """See Benchmark."""
        rows = Accuracy().measure(case, replace(context, options=self._options))
        self._rows += rows
        (context.folder / PICTURE).write_text(charts.svg(chart(self._rows)))
        return rows

    def record(self, rows: Sequence[Row]) -> dict[str, Any]:
        """All rows, with their curves."""
        return {"rows": [asdict(row) for row in rows]}

    def text(self, rows: Sequence[Row]) -> str:
        """Seconds to the target by system and rate, the median of the seeds."""
        found = times(rows)
        rates = sorted({rate for _, rate in found})
        lines = [f"{'seconds to the target':<24}" + "".join(f"{f'{rate:g} Mbit/s':>14}" for rate in rates)]
        for system in dict.fromkeys(row.system for row in rows):
            cells = [_cell(found.get((system, rate))) for rate in rates]
            lines.append(f"{system:<24}" + "".join(f"{cell:>14}" for cell in cells))
        return "\n".join(lines)


def times(rows: Sequence[Row]) -> dict[tuple[str, float], float | None]:
    """By system and rate: median seconds to the target; None if some seed never reached it."""
    found: dict[tuple[str, float], list[float | None]] = {}
    for row in rows:
        found.setdefault((row.system, row.link_mbit), []).append(row.time_to_target_s)
    return {
        key: None if None in seconds else statistics.median(one for one in seconds if one is not None)
        for key, seconds in found.items()
    }


def chart(rows: Sequence[Row]) -> Chart:
    """Seconds to the target over the link rate, a line for each system."""
    found = times(rows)
    series = []
    for system in dict.fromkeys(row.system for row in rows):
        points = sorted((rate, time) for (name, rate), time in found.items() if name == system and time is not None)
        series.append(Series(system, tuple(points)))
    title = f"Time to {rows[0].target:.0%} accuracy, {rows[0].task}"
    return Chart(title, "link rate, Mbit/s", "training time, s", tuple(series), log_x=True, log_y=True)


def _cell(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.1f}"
