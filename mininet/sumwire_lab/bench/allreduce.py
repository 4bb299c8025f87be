# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One plain all-reduce with gloo, THC, SIGN and others: `make bench-allreduce`.

For several sizes and link rates: seconds beside the bound of the wire, CPU seconds of hosts and switch, and packets
lost inside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from sumwire_lab.bench.benchmark import BenchCommand, BenchContext
from sumwire_lab.bench.exchange_worker import exchanges
from sumwire_lab.bench.timing import (
    Timing,
    all_reduce_bytes,
    millions,
    retransmissions,
    timing,
)
from sumwire_lab.network import switches
from sumwire_lab.options.bench_options import BY_CHOICE, AllReduceOptions, rate_text
from sumwire_lab.options.recipes import BASELINE
from sumwire_lab.options.run_options import UNLIMITED, LinkOptions, RunOptions
from sumwire_lab.run.session import open_session
from sumwire_lab.system import counters
from sumwire_lab.system.counters import Losses


def in_json(mbit: float) -> float | None:
    """A link's rate in a record, which has null for a link without a limit."""
    return None if mbit == UNLIMITED else mbit


@dataclass(frozen=True)
class PlainCase:
    """One system at one link rate; its sizes one after the other in the same session."""

    system: str
    link_mbit: float

    @property
    def label(self) -> str:
        return f"{self.system}, {rate_text(self.link_mbit)}"


@dataclass(frozen=True)
class SizeRow(Timing):
    """One size of a row."""

    switch_cpu_s: float | None
    """CPU seconds of all switches per million values; None for kernel bridges, whose work no process is charged for."""


@dataclass(frozen=True)
class PlainRow:
    """One case: a row per size, and packets lost and sent again in the whole session."""

    system: str
    link_mbit: float
    rows: tuple[SizeRow, ...]
    lost: Losses
    retransmissions: int
    offloads: bool
    """Whether the hosts kept their segmentation offloads."""


class AllReduceCommand(BenchCommand[AllReduceOptions, PlainCase, PlainRow]):
    """All rates, systems and sizes."""

    name: ClassVar = "allreduce"

    def __init__(self, options: AllReduceOptions) -> None:
        super().__init__(options)
        self._run = RunOptions(workers=options.workers, switch=options.switch, engine=options.engine)

    def plan(self) -> list[PlainCase]:
        """See BenchCommand."""
        switches.choose_for(self._run)
        return [PlainCase(system, rate) for rate in self.options.bw for system in self.options.systems]

    def measure(self, case: PlainCase, context: BenchContext) -> list[PlainRow]:
        """See Benchmark."""
        options = replace(self._run, link=LinkOptions(case.link_mbit))
        kind = None if case.system == BASELINE else switches.choose_for(options)
        backlog = counters.backlog()
        sizes, repeats = self.options.sizes, self.options.repeats
        told = {"exchange": "all-reduce", "system": case.system, "sizes": sizes, "repeats": repeats}
        with open_session(options, kind, context.folder / f"{case.system}-{case.link_mbit:g}") as session:
            measured = exchanges(session, told)
            counted = session.counted()
            offloads = session.network.offloads
        sockets = sum(worker["host_sockets"] for worker in measured)
        lost = counters.gather(counted, backlog_before=backlog, sockets=sockets)
        rows = tuple(
            size_row(
                case.link_mbit,
                size,
                case.system,
                [worker["sizes"][k] for worker in measured],
                switched=kind is not None,
            )
            for k, size in enumerate(sizes)
        )
        for row in rows:
            context.say(f"{rate_text(case.link_mbit)}, {row.values} values, {case.system}: {row.seconds:.4f} s")
        return [PlainRow(case.system, case.link_mbit, rows, lost, retransmissions(measured), offloads)]

    def record(self, rows: Sequence[PlainRow]) -> dict[str, Any]:
        """See BenchCommand."""
        kind = switches.choose_for(self._run)
        return {
            "workers": self._run.workers,
            "switch": kind,
            "engine": switches.choose_engine(self._run.engine) if kind == "soft" else None,
            "results": [_entry(row) for row in rows],
        }

    def text(self, rows: Sequence[PlainRow]) -> str:
        """One line per size, with the speed-up over gloo, then what each case lost."""
        sizes = [size for row in rows for size in row.rows]
        lines = ["Mbit/s     values  system   seconds     bound  link used  CPU s/M: host  switch  gloo / it"]
        base = {(one.link_mbit, one.values): one.seconds for one in sizes if one.system == BASELINE}
        for one in sizes:
            gloo = base.get((one.link_mbit, one.values))
            faster = "" if gloo is None or one.system == BASELINE else f"{gloo / one.seconds:9.2f}"
            switch = "-" if one.switch_cpu_s is None else f"{one.switch_cpu_s:.4f}"
            lines.append(
                f"{one.link_mbit:6g} {one.values:>10} {one.system:>7} {one.seconds:9.4f} {one.bound_s:9.4f} "
                f"{one.link_share:9.1%} {one.host_cpu_s:14.4f} {switch:>7}  {faster}"
            )
        for row in rows:
            lost = ", ".join(f"{place} {_count(n)}" for place, n in row.lost.as_dict().items())
            offloads = "on" if row.offloads else "off"
            lines.append(
                f"{rate_text(row.link_mbit)}, {row.system}: hosts' offloads {offloads}; sent again "
                f"{row.retransmissions}; lost: {lost}"
            )
        return "\n".join(lines)


def size_row(
    link_mbit: float, values: int, system: str, measured: Sequence[Mapping[str, Any]], *, switched: bool = True
) -> SizeRow:
    """A row out of what each worker measured of one size, the first worker first."""
    wire_bytes = all_reduce_bytes("thc" if system in BY_CHOICE else system, values, len(measured))
    return SizeRow(
        **timing(link_mbit, values, system, wire_bytes, measured),
        switch_cpu_s=measured[0]["switch_cpu_s"] / millions(values, measured) if switched else None,
    )


def _entry(row: PlainRow) -> dict[str, Any]:
    entry = asdict(row) | {"link_mbit": in_json(row.link_mbit)}
    return entry | {"rows": [{**one, "link_mbit": in_json(one["link_mbit"])} for one in entry["rows"]]}


def _count(number: int | None) -> str:
    return "unknown" if number is None else str(number)
