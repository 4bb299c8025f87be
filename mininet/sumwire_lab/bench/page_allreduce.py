# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Measures the seconds of one all-reduce beside the bound of the wire: over size, system and link rate, and with more
workers and more levels of switches. Two suites of the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from sumwire.systems.cost import Gradient

from sumwire_lab.bench.benchmark import Chart, PageTable, Presentation, Row, Rows, Series, Suite
from sumwire_lab.bench.exchange_worker import exchanges
from sumwire_lab.bench.timing import all_reduce_bytes, retransmissions, sides, timing, wire_bytes
from sumwire_lab.network import control_plane, switches
from sumwire_lab.network.topology import require_tools
from sumwire_lab.options.bench_options import BenchOptions
from sumwire_lab.options.recipes import BASELINE, BENCHED, parse
from sumwire_lab.options.run_options import AGGREGATOR, LinkOptions, RunOptions
from sumwire_lab.run.session import open_session
from sumwire_lab.study.study import Context, Study
from sumwire_lab.system import leftovers

VALUE_BYTES: Final = 4
# 4 KB to 100 MB.
SIZES: Final = (1_000, 10_000, 100_000, 1_000_000, 5_000_000, 25_000_000)
QUICK_SIZES: Final = (1_000, 100_000, 500_000)
RATES: Final = (10.0, 100.0, 1000.0)
QUICK_RATES: Final = (10.0, 100.0)
# Rounds in full precision are those of sum32.
SYSTEMS: Final = (*(name for name in BENCHED if name != "marsit100"), "acp@group", "thc@group")
QUICK_SYSTEMS: Final = (BASELINE, "fp16", "powersgd", "thc", "sum32", "marsit", "acp")
# Options of the low-rank and the sparse systems.
RANK: Final = 4
SHARE: Final = 0.01
OPTIONS: Final = {"rank": RANK, "k": SHARE}
WORKERS: Final = 4
# Sizes for which one repeat takes longer even at the bound are left out; there are four repeats.
BOUND_MAX_S: Final = 30.0


@dataclass(frozen=True)
class AllReduceCase:
    """One system at one rate, whose sizes are measured one after the other in the same session."""

    link_mbit: float
    system: str
    sizes: tuple[int, ...]
    workers: int = WORKERS
    topology: str = "star"


ALL_REDUCE_HOW: Final = (
    "Each worker has a gradient: one matrix, as nearly square as its size allows. All workers start after a "
    "barrier, and end when they have applied the aggregate. The time therefore covers compression, exchange, "
    "decompression and the optimizer. It is that of the slowest worker, the median of three repeats. Links "
    "are veth pairs, limited to the stated rate in both directions. The dashed bound is the time that a link "
    "needs for the bytes in its busier direction, headers included, acknowledgements not. No implementation "
    "of the same system can be faster, however fast the host. In the ring of gloo a value is sent 2 (n-1)/n "
    "times; with Sumwire it is sent once and received once. The switch is software on the same machine, and "
    f"its processor time is part of the result. Low-rank systems have rank {RANK}; topk sends {SHARE:.0%} of "
    "the values."
)


def all_reduce_cases(options: BenchOptions) -> list[AllReduceCase]:
    """Return the cases: all-reduce over size, system and link rate."""
    sizes, rates = (QUICK_SIZES, QUICK_RATES) if options.quick else (SIZES, RATES)
    systems = QUICK_SYSTEMS if options.quick else SYSTEMS
    cases = [AllReduceCase(rate, system, feasible(sizes, rate)) for rate in rates for system in systems]
    return [case for case in cases if case.sizes]


def sizes_left_out(options: BenchOptions) -> list[str]:
    """Return the sizes that are left out because gloo's bound is too long."""
    sizes, rates = (QUICK_SIZES, QUICK_RATES) if options.quick else (SIZES, RATES)
    return [
        f"{megabytes(size)} at {rate:g} Mbit/s: gloo's bound alone is over {BOUND_MAX_S:g} s."
        for rate in rates
        for size in sorted(set(sizes) - set(feasible(sizes, rate)))
    ]


def present_all_reduce(rows: Rows) -> Presentation:
    """Present a table and a chart for each rate."""
    rates = sorted({row["link_mbit"] for row in rows})
    return Presentation(
        tables=tuple(_table(rate, rows) for rate in rates),
        charts=tuple(_chart(rate, rows) for rate in rates),
        behind=tuple(sentence for rate in rates for sentence in [*_slower(rate, rows), *_idle(rate, rows)]),
    )


def _study(name: str, cases: Sequence[AllReduceCase], options: BenchOptions) -> Study:
    """All sizes of a case are measured one after the other in one session."""

    def measure(case: AllReduceCase, context: Context) -> list[dict[str, Any]]:
        require_tools()
        leftovers.clean()
        chosen = parse(case.system)
        run = RunOptions(
            workers=case.workers,
            link=LinkOptions(case.link_mbit),
            systems=(case.system,),
            topology=case.topology,
            switch=options.switch,
            engine=options.engine,
        )
        kind = switches.choose_for(run) if chosen.switched else None
        jobs = partial(control_plane.training_job, recipe=chosen.recipe)
        told = {"exchange": "steps", "system": case.system, "sizes": case.sizes, "options": OPTIONS}
        with open_session(run, kind, context.folder, jobs) as session:
            measured = exchanges(session, told)
            offloads = session.network.offloads
        return [
            row(case, size, [worker["sizes"][k] for worker in measured], retransmissions(measured), offloads=offloads)
            for k, size in enumerate(case.sizes)
        ]

    return Study(name, "seconds of one all-reduce", cases, measure)


def row(
    case: AllReduceCase, size: int, measured: Sequence[Mapping[str, Any]], sent_again: int, *, offloads: bool
) -> dict[str, Any]:
    """Return the row of one size from the workers' measurements. `retransmissions`: in the whole session, all sizes
    together. `offloads`: whether the hosts kept their segmentation offloads."""
    on_wire = wire_bytes(case.system, Gradient(*sides(size), RANK, SHARE), case.workers)
    about = {"workers": case.workers, "topology": case.topology, "retransmissions": sent_again, "offloads": offloads}
    return {**timing(case.link_mbit, size, case.system, on_wire, measured), **about}


def feasible(sizes: Iterable[int], link_mbit: float) -> tuple[int, ...]:
    """Return the sizes for which gloo's bound at this rate is not too long."""
    bits = {size: 8 * all_reduce_bytes(BASELINE, size, WORKERS) for size in sizes}
    return tuple(size for size in sizes if bits[size] / (link_mbit * 1e6) <= BOUND_MAX_S)


def megabytes(values: int) -> str:
    """Return the size of `values` float32 values, with a unit."""
    size = VALUE_BYTES * values
    return f"{size / 1e6:g} MB" if size >= 1e6 else f"{size / 1e3:g} KB"


Times = Mapping[str, Mapping[int, Row]]


def _of(rate: float, rows: Rows) -> Times:
    """Rows at one link rate, by system and number of values."""
    found: dict[str, dict[int, Row]] = {}
    for row in rows:
        if row["link_mbit"] == rate:
            found.setdefault(row["system"], {})[row["values"]] = row
    return found


def _table(rate: float, rows: Rows) -> PageTable:
    times = _of(rate, rows)
    gloo = times.get(BASELINE, {})
    cells = []
    for row in sorted((row for of in times.values() for row in of.values()), key=lambda one: one["values"]):
        ratio = f"{gloo[row['values']]['seconds'] / row['seconds']:.2f}" if row["values"] in gloo else "-"
        measured = (f"{row['seconds']:.4f}", f"{row['bound_s']:.4f}", f"{row['link_share']:.0%}")
        offloads = "on" if row["offloads"] else "off"
        cells.append((megabytes(row["values"]), row["system"], *measured, f"{row['host_cpu_s']:.4f}", ratio, offloads))
    head = (
        *("tensor", "system", "seconds", "bound, s", "link used", "CPU s of a host, a million values", "gloo / it"),
        "hosts' offloads",
    )
    return PageTable(f"{rate:g} Mbit/s", head, tuple(cells))


def _chart(rate: float, rows: Rows) -> Chart:
    series = []
    for system, of in _of(rate, rows).items():
        ordered = [of[values] for values in sorted(of)]
        series.append(Series(system, tuple((VALUE_BYTES * row["values"], row["seconds"]) for row in ordered)))
        bound = tuple((VALUE_BYTES * row["values"], row["bound_s"]) for row in ordered)
        series.append(Series(f"{system}, bound", bound, bound=True))
    title = f"One all-reduce, {rate:g} Mbit/s"
    return Chart(title, "size of the tensor, bytes", "time, s", tuple(series), log_x=True, log_y=True)


def _slower(rate: float, rows: Rows) -> list[str]:
    """Sentences on sizes for which a system takes longer than gloo."""
    times = _of(rate, rows)
    gloo = times.get(BASELINE, {})
    sentences = []
    for system, of in times.items():
        ratios = {
            values: row["seconds"] / gloo[values]["seconds"]
            for values, row in sorted(of.items())
            if system != BASELINE and values in gloo and row["seconds"] > gloo[values]["seconds"]
        }
        if ratios:
            sizes = ", ".join(map(megabytes, ratios))
            sentences.append(
                f"At {rate:g} Mbit/s {system} is slower than gloo for {sizes} (up to {max(ratios.values()):.1f} times)."
            )
    return sentences


def _idle(rate: float, rows: Rows) -> list[str]:
    """Sentences on systems that use less of their links than gloo at the largest size: they are limited by
    processors."""
    times = _of(rate, rows)
    sentences = []
    for system, of in times.items():
        both = of.keys() & times.get(BASELINE, {}).keys()
        if system == BASELINE or not both:
            continue
        largest = max(both)
        mine, theirs = of[largest]["link_share"], times[BASELINE][largest]["link_share"]
        if mine < theirs:
            sentences.append(
                f"At {rate:g} Mbit/s and {megabytes(largest)} {system} keeps its link {mine:.0%} busy, "
                f"gloo {theirs:.0%}: it has fewer bytes to send, but hosts and switch do not keep up with the link."
            )
    return sentences


SCALED_WORKERS: Final = (2, 4, 8, 16)
QUICK_SCALED_WORKERS: Final = (2, 4)
LEVELS: Final = {"star": 1, "leaf-spine": 2, "three-level": 3}
QUICK_TOPOLOGIES: Final = ("star", "leaf-spine")
SCALED_SYSTEMS: Final = (BASELINE, "fp16", "thc", "sum32", "marsit", "acp")
QUICK_SCALED_SYSTEMS: Final = (BASELINE, "thc")
# Workers of the runs with several levels.
TREE_WORKERS: Final = 8
QUICK_TREE_WORKERS: Final = 4
LINK_MBIT: Final = 100.0
VALUES: Final = 1_000_000
QUICK_VALUES: Final = 100_000
SCALING_HOW: Final = (
    "One all-reduce of one size, measured as above, at 100 Mbit/s. The first series has 2 to 16 workers at "
    "one switch. The second has a fixed number of workers at one switch, below a spine with two leaves, and "
    "in a tree of three levels (seven switches). With a switch that sums, a worker's link carries the same "
    "bytes for any number of workers; in a ring it carries up to twice the tensor. All workers and switches "
    "share the processors of one machine, so many workers take longer here than they would on machines of "
    "their own. With more workers THC's table becomes coarser, because sums have 8 bits."
)


def scaling_cases(options: BenchOptions) -> list[AllReduceCase]:
    """Return the cases: one size, over numbers of workers and levels of switches."""
    values = QUICK_VALUES if options.quick else VALUES
    counts = QUICK_SCALED_WORKERS if options.quick else SCALED_WORKERS
    tree_workers = QUICK_TREE_WORKERS if options.quick else TREE_WORKERS
    topologies = _topologies(options)
    shapes = [(workers, "star") for workers in counts] + [(tree_workers, topology) for topology in topologies]
    systems = QUICK_SCALED_SYSTEMS if options.quick else SCALED_SYSTEMS
    # The star of the second series is one of the first.
    return [
        AllReduceCase(LINK_MBIT, system, (values,), workers, topology)
        for workers, topology in dict.fromkeys(shapes)
        for system in systems
    ]


def levels_left_out(options: BenchOptions) -> list[str]:
    """Return a note that levels are left out if the switch is a software aggregator."""
    levels = "Levels of switches: a software aggregator is the only one."
    return [levels] if options.switch == AGGREGATOR else []


def present_scaling(rows: Rows) -> Presentation:
    """Present a chart over workers, one over levels, and all rows."""
    trees = [row for row in rows if row["workers"] in {one["workers"] for one in rows if one["topology"] != "star"}]
    by_workers = _series(_in_stars(rows))
    by_levels = _series([(row["system"], LEVELS[row["topology"]], row["seconds"]) for row in trees])
    size = f"{megabytes(rows[0]['values'])}, {LINK_MBIT:g} Mbit/s"
    charts = [Chart(f"One all-reduce over the number of workers, {size}", "workers", "time, s", by_workers)]
    if trees:
        title = f"One all-reduce over levels of switches, {trees[0]['workers']} workers, {size}"
        charts.append(Chart(title, "levels of switches", "time, s", by_levels))
    return Presentation((_scaling_table(rows),), tuple(charts), (*_slower_than_gloo(rows), *_growing(rows)))


def _topologies(options: BenchOptions) -> tuple[str, ...]:
    if options.switch == AGGREGATOR:
        return ("star",)
    return QUICK_TOPOLOGIES if options.quick else tuple(LEVELS)


def _in_stars(rows: Rows) -> list[tuple[str, int, float]]:
    return [(row["system"], row["workers"], row["seconds"]) for row in rows if row["topology"] == "star"]


def _series(points: Sequence[tuple[str, int, float]]) -> tuple[Series, ...]:
    lines: dict[str, list[tuple[float, float]]] = {}
    for system, x, seconds in points:
        lines.setdefault(system, []).append((float(x), seconds))
    return tuple(Series(system, tuple(sorted(line))) for system, line in lines.items())


def _gloo(rows: Rows) -> dict[tuple[int, str], float]:
    return {(row["workers"], row["topology"]): row["seconds"] for row in rows if row["system"] == BASELINE}


def _scaling_table(rows: Rows) -> PageTable:
    gloo = _gloo(rows)
    cells = []
    for row in rows:
        theirs = gloo.get((row["workers"], row["topology"]))
        ratio = "-" if theirs is None else f"{theirs / row['seconds']:.2f}"
        measured = (f"{row['seconds']:.4f}", f"{row['bound_s']:.4f}", str(row["retransmissions"]), ratio)
        cells.append((row["topology"], str(row["workers"]), row["system"], *measured))
    head = ("topology", "workers", "system", "seconds", "bound, s", "sent again, packets", "gloo / it")
    return PageTable("Every measurement", head, tuple(cells))


def _slower_than_gloo(rows: Rows) -> list[str]:
    """Sentences on cases in which gloo is faster."""
    gloo = _gloo(rows)
    return [
        f"{row['workers']} workers, {row['topology']}: {row['system']} takes {row['seconds']:.3f} s, "
        f"gloo {theirs:.3f} s."
        for row in rows
        if (theirs := gloo.get((row["workers"], row["topology"]))) is not None and row["seconds"] > theirs
    ]


def _growing(rows: Rows) -> list[str]:
    """Sentences on systems whose time grows more than gloo's from the fewest to the most workers."""
    growth = {}
    for series in _series(_in_stars(rows)):
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


ALL_REDUCE: Final = Suite(
    "allreduce",
    "Time of one all-reduce",
    "How long do four workers take to sum one gradient, small or large, on slow or fast links?",
    ALL_REDUCE_HOW,
    lambda options: _study("allreduce", all_reduce_cases(options), options),
    present_all_reduce,
    sizes_left_out,
)
SCALING: Final = Suite(
    "scaling",
    "More workers, more switches",
    "Does the time grow with the number of workers, and with levels of switches between them?",
    SCALING_HOW,
    lambda options: _study("scaling", scaling_cases(options), options),
    present_scaling,
    levels_left_out,
)
