# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Seconds of one all-reduce over size, system and link rate, beside the bound of the wire."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final

from sumwire.systems.cost import Gradient

from sumwire_lab.bench.benchmark import Context
from sumwire_lab.bench.exchanges import run_workers
from sumwire_lab.bench.suite import Chart, Presentation, Series, Suite, Table
from sumwire_lab.bench.timing import Timing, retransmissions, timing
from sumwire_lab.bench.wire import all_reduce_bytes, sides, wire_bytes
from sumwire_lab.network import control_plane, switches
from sumwire_lab.network.topology import require_tools
from sumwire_lab.options.bench_options import BenchOptions
from sumwire_lab.options.recipes import BASELINE, BENCHED, parse
from sumwire_lab.options.run_options import LinkOptions, RunOptions
from sumwire_lab.run.session import open_session
from sumwire_lab.study.experiment import interruptible
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
WORKERS: Final = 4
# Sizes for which one repeat takes longer even at the bound are left out; there are four repeats.
BOUND_MAX_S: Final = 30.0
_WORKER: Final = "sumwire_lab.bench.step_worker"


@dataclass(frozen=True)
class Case:
    """One system at one rate; its sizes one after the other in the same session."""

    link_mbit: float
    system: str
    sizes: tuple[int, ...]
    workers: int = WORKERS
    topology: str = "star"

    @property
    def label(self) -> str:
        return f"{self.system}, {self.workers} workers, {self.topology}, {self.link_mbit:g} Mbit/s"


@dataclass(frozen=True)
class Row(Timing):
    """One size of a case."""

    workers: int
    topology: str
    retransmissions: int
    """In the whole session, all sizes together."""
    offloads: bool
    """Whether the hosts kept their segmentation offloads."""


class AllReduce(Suite[Case, Row]):
    """All-reduce over size, system and link rate."""

    name: ClassVar = "allreduce"
    title: ClassVar = "Time of one all-reduce"
    question: ClassVar = "How long do four workers take to sum one gradient, small or large, on slow or fast links?"
    how: ClassVar = (
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

    def plan(self, options: BenchOptions) -> list[Case]:
        sizes, rates = (QUICK_SIZES, QUICK_RATES) if options.quick else (SIZES, RATES)
        systems = QUICK_SYSTEMS if options.quick else SYSTEMS
        cases = [Case(rate, system, feasible(sizes, rate)) for rate in rates for system in systems]
        return [case for case in cases if case.sizes]

    def left_out(self, options: BenchOptions) -> list[str]:
        sizes, rates = (QUICK_SIZES, QUICK_RATES) if options.quick else (SIZES, RATES)
        return [
            f"{megabytes(size)} at {rate:g} Mbit/s: gloo's bound alone is over {BOUND_MAX_S:g} s."
            for rate in rates
            for size in sorted(set(sizes) - set(feasible(sizes, rate)))
        ]

    def measure(self, case: Case, context: Context) -> list[Row]:
        return measure(case, context)

    def present(self, rows: Sequence[Row]) -> Presentation:
        rates = sorted({row.link_mbit for row in rows})
        return Presentation(
            tables=tuple(_table(rate, rows) for rate in rates),
            charts=tuple(_chart(rate, rows) for rate in rates),
            behind=tuple(sentence for rate in rates for sentence in [*_slower(rate, rows), *_idle(rate, rows)]),
        )


def measure(case: Case, context: Context) -> list[Row]:
    """Measure all sizes of a case, one after the other in one session."""
    require_tools()
    leftovers.clean()
    chosen = parse(case.system)
    options = RunOptions(
        workers=case.workers,
        link=LinkOptions(case.link_mbit),
        systems=(case.system,),
        topology=case.topology,
        switch=context.options.switch,
        engine=context.options.engine,
    )
    kind = switches.choose_for(options) if chosen.switched else None
    folder = context.folder / "exchanges" / case.label.replace(", ", "-").replace("/", "-").replace(" ", "-")
    jobs = partial(control_plane.training_job, recipe=chosen.recipe)
    with interruptible(), open_session(options, kind, folder, jobs) as session:
        measured = run_workers(session, _WORKER, case.system, case.sizes, rank=RANK, share=SHARE)
        offloads = session.network.offloads
    return [
        row(case, size, [worker["sizes"][k] for worker in measured], retransmissions(measured), offloads=offloads)
        for k, size in enumerate(case.sizes)
    ]


def row(case: Case, size: int, measured: Sequence[Mapping[str, Any]], sent_again: int, *, offloads: bool) -> Row:
    """A row out of what each worker measured of one size."""
    on_wire = wire_bytes(case.system, Gradient(*sides(size), RANK, SHARE), case.workers)
    return Row(
        **timing(case.link_mbit, size, case.system, on_wire, measured),
        workers=case.workers,
        topology=case.topology,
        retransmissions=sent_again,
        offloads=offloads,
    )


def feasible(sizes: Iterable[int], link_mbit: float) -> tuple[int, ...]:
    """The sizes for which gloo's bound at this rate is not too long."""
    bits = {size: 8 * all_reduce_bytes(BASELINE, size, WORKERS) for size in sizes}
    return tuple(size for size in sizes if bits[size] / (link_mbit * 1e6) <= BOUND_MAX_S)


def megabytes(values: int) -> str:
    """Size of so many float32 values, with a unit."""
    size = VALUE_BYTES * values
    return f"{size / 1e6:g} MB" if size >= 1e6 else f"{size / 1e3:g} KB"


Times = Mapping[str, Mapping[int, Row]]


def _of(rate: float, rows: Sequence[Row]) -> Times:
    """Rows at one link rate, by system and number of values."""
    found: dict[str, dict[int, Row]] = {}
    for row in rows:
        if row.link_mbit == rate:
            found.setdefault(row.system, {})[row.values] = row
    return found


def _table(rate: float, rows: Sequence[Row]) -> Table:
    times = _of(rate, rows)
    gloo = times.get(BASELINE, {})
    cells = []
    for row in sorted((row for of in times.values() for row in of.values()), key=lambda one: one.values):
        ratio = f"{gloo[row.values].seconds / row.seconds:.2f}" if row.values in gloo else "-"
        measured = (f"{row.seconds:.4f}", f"{row.bound_s:.4f}", f"{row.link_share:.0%}")
        offloads = "on" if row.offloads else "off"
        cells.append((megabytes(row.values), row.system, *measured, f"{row.host_cpu_s:.4f}", ratio, offloads))
    head = (
        *("tensor", "system", "seconds", "bound, s", "link used", "CPU s of a host, a million values", "gloo / it"),
        "hosts' offloads",
    )
    return Table(f"{rate:g} Mbit/s", head, tuple(cells))


def _chart(rate: float, rows: Sequence[Row]) -> Chart:
    series = []
    for system, of in _of(rate, rows).items():
        ordered = [of[values] for values in sorted(of)]
        series.append(Series(system, tuple((VALUE_BYTES * row.values, row.seconds) for row in ordered)))
        bound = tuple((VALUE_BYTES * row.values, row.bound_s) for row in ordered)
        series.append(Series(f"{system}, bound", bound, bound=True))
    title = f"One all-reduce, {rate:g} Mbit/s"
    return Chart(title, "size of the tensor, bytes", "time, s", tuple(series), log_x=True, log_y=True)


def _slower(rate: float, rows: Sequence[Row]) -> list[str]:
    """Sentences on sizes for which a system takes longer than gloo."""
    times = _of(rate, rows)
    gloo = times.get(BASELINE, {})
    sentences = []
    for system, of in times.items():
        ratios = {
            values: row.seconds / gloo[values].seconds
            for values, row in sorted(of.items())
            if system != BASELINE and values in gloo and row.seconds > gloo[values].seconds
        }
        if ratios:
            sizes = ", ".join(map(megabytes, ratios))
            sentences.append(
                f"At {rate:g} Mbit/s {system} is slower than gloo for {sizes} (up to {max(ratios.values()):.1f} times)."
            )
    return sentences


def _idle(rate: float, rows: Sequence[Row]) -> list[str]:
    """Sentences on systems that use less of their links than gloo at the largest size: they are limited by
    processors."""
    times = _of(rate, rows)
    sentences = []
    for system, of in times.items():
        both = of.keys() & times.get(BASELINE, {}).keys()
        if system == BASELINE or not both:
            continue
        largest = max(both)
        mine, theirs = of[largest].link_share, times[BASELINE][largest].link_share
        if mine < theirs:
            sentences.append(
                f"At {rate:g} Mbit/s and {megabytes(largest)} {system} keeps its link {mine:.0%} busy, "
                f"gloo {theirs:.0%}: it has fewer bytes to send, but hosts and switch do not keep up with the link."
            )
    return sentences
