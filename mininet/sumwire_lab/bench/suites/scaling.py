# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One all-reduce with more workers, and with more levels of switches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from sumwire_lab.bench.benchmark import Context
from sumwire_lab.bench.suite import Chart, Presentation, Series, Suite, Table
from sumwire_lab.bench.suites import allreduce
from sumwire_lab.bench.suites.allreduce import Case, Row, megabytes
from sumwire_lab.options.bench_options import BenchOptions
from sumwire_lab.options.recipes import BASELINE
from sumwire_lab.options.run_options import AGGREGATOR

WORKERS: Final = (2, 4, 8, 16)
QUICK_WORKERS: Final = (2, 4)
LEVELS: Final = {"star": 1, "leaf-spine": 2, "three-level": 3}
QUICK_TOPOLOGIES: Final = ("star", "leaf-spine")
SYSTEMS: Final = (BASELINE, "fp16", "thc", "sum32", "marsit", "acp")
QUICK_SYSTEMS: Final = (BASELINE, "thc")
# Workers of the runs with several levels.
TREE_WORKERS: Final = 8
QUICK_TREE_WORKERS: Final = 4
LINK_MBIT: Final = 100.0
VALUES: Final = 1_000_000
QUICK_VALUES: Final = 100_000


class Scaling(Suite[Case, Row]):
    """Cases and rows of the suite AllReduce, for one size."""

    name: ClassVar = "scaling"
    title: ClassVar = "More workers, more switches"
    question: ClassVar = "Does the time grow with the number of workers, and with levels of switches between them?"
    how: ClassVar = (
        "One all-reduce of one size, measured as above, at 100 Mbit/s. The first series has 2 to 16 workers at "
        "one switch. The second has a fixed number of workers at one switch, below a spine with two leaves, and "
        "in a tree of three levels (seven switches). With a switch that sums, a worker's link carries the same "
        "bytes for any number of workers; in a ring it carries up to twice the tensor. All workers and switches "
        "share the processors of one machine, so many workers take longer here than they would on machines of "
        "their own. With more workers THC's table becomes coarser, because sums have 8 bits."
    )

    def plan(self, options: BenchOptions) -> list[Case]:
        values = QUICK_VALUES if options.quick else VALUES
        counts = QUICK_WORKERS if options.quick else WORKERS
        tree_workers = QUICK_TREE_WORKERS if options.quick else TREE_WORKERS
        topologies = _topologies(options)
        shapes = [(workers, "star") for workers in counts] + [(tree_workers, topology) for topology in topologies]
        systems = QUICK_SYSTEMS if options.quick else SYSTEMS
        # The star of the second series is one of the first.
        return [
            Case(LINK_MBIT, system, (values,), workers, topology)
            for workers, topology in dict.fromkeys(shapes)
            for system in systems
        ]

    def left_out(self, options: BenchOptions) -> list[str]:
        if options.switch != AGGREGATOR:
            return []
        return ["Levels of switches: a software aggregator is the only one."]

    def measure(self, case: Case, context: Context) -> list[Row]:
        return allreduce.measure(case, context)

    def present(self, rows: Sequence[Row]) -> Presentation:
        trees = [row for row in rows if row.workers in {one.workers for one in rows if one.topology != "star"}]
        by_workers = _series([(row.system, row.workers, row.seconds) for row in rows if row.topology == "star"])
        by_levels = _series([(row.system, LEVELS[row.topology], row.seconds) for row in trees])
        values = rows[0].values
        size = f"{megabytes(values)}, {LINK_MBIT:g} Mbit/s"
        charts = [Chart(f"One all-reduce over the number of workers, {size}", "workers", "time, s", by_workers)]
        if trees:
            title = f"One all-reduce over levels of switches, {trees[0].workers} workers, {size}"
            charts.append(Chart(title, "levels of switches", "time, s", by_levels))
        return Presentation((_table(rows),), tuple(charts), (*_slower(rows), *_growing(rows)))


def _topologies(options: BenchOptions) -> tuple[str, ...]:
    if options.switch == AGGREGATOR:
        return ("star",)
    return QUICK_TOPOLOGIES if options.quick else tuple(LEVELS)


def _series(points: Sequence[tuple[str, int, float]]) -> tuple[Series, ...]:
    lines: dict[str, list[tuple[float, float]]] = {}
    for system, x, seconds in points:
        lines.setdefault(system, []).append((float(x), seconds))
    return tuple(Series(system, tuple(sorted(line))) for system, line in lines.items())


def _gloo(rows: Sequence[Row]) -> dict[tuple[int, str], float]:
    return {(row.workers, row.topology): row.seconds for row in rows if row.system == BASELINE}


def _table(rows: Sequence[Row]) -> Table:
    gloo = _gloo(rows)
    cells = []
    for row in rows:
        theirs = gloo.get((row.workers, row.topology))
        ratio = "-" if theirs is None else f"{theirs / row.seconds:.2f}"
        measured = (f"{row.seconds:.4f}", f"{row.bound_s:.4f}", str(row.retransmissions), ratio)
        cells.append((row.topology, str(row.workers), row.system, *measured))
    head = ("topology", "workers", "system", "seconds", "bound, s", "sent again, packets", "gloo / it")
    return Table("Every measurement", head, tuple(cells))


def _slower(rows: Sequence[Row]) -> list[str]:
    """Sentences on cases in which gloo is faster."""
    gloo = _gloo(rows)
    return [
        f"{row.workers} workers, {row.topology}: {row.system} takes {row.seconds:.3f} s, gloo {theirs:.3f} s."
        for row in rows
        if (theirs := gloo.get((row.workers, row.topology))) is not None and row.seconds > theirs
    ]


def _growing(rows: Sequence[Row]) -> list[str]:
    """Sentences on systems whose time grows more than gloo's from the fewest to the most workers."""
    growth = {}
    for series in _series([(row.system, row.workers, row.seconds) for row in rows if row.topology == "star"]):
        (fewest, first), (most, last) = series.points[0], series.points[-1]
        growth[series.name] = (fewest, most, last / first)
    if BASELINE not in growth:
        return []
    fewest, most, theirs = growth[BASELINE]
    return [
        f"From {fewest:g} to {most:g} workers the time of {name} grows {factor:.1f} times, "
        f"that of gloo {theirs:.1f} times."
        for name, (low, high, factor) in growth.items()
        if name != BASELINE and (low, high) == (fewest, most) and factor > theirs
    ]
