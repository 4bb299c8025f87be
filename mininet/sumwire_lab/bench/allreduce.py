# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`make bench-allreduce`: measures one plain all-reduce with gloo, THC, SIGN and others. For several sizes and link
rates it measures seconds beside the bound of the wire, CPU seconds of hosts and switch, and packets lost inside
them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sumwire_lab.bench.benchmark import Bench, Row, Rows
from sumwire_lab.bench.exchange_worker import exchanges
from sumwire_lab.bench.timing import all_reduce_bytes, millions, retransmissions, timing
from sumwire_lab.network import switches
from sumwire_lab.options.bench_options import BY_CHOICE, AllReduceOptions, rate_text
from sumwire_lab.options.recipes import BASELINE
from sumwire_lab.options.run_options import UNLIMITED, LinkOptions, RunOptions
from sumwire_lab.run.session import open_session
from sumwire_lab.study.study import Context, Study
from sumwire_lab.system import counters


def bench(options: AllReduceOptions) -> Bench:
    """Measure all systems at all rates. A case has one system at one link rate, with its sizes one after the other in a
    session. Its row contains a row for each size, and the packets lost and sent again in the whole session."""
    link = LinkOptions(mtu=options.mtu)
    base = RunOptions(workers=options.workers, link=link, switch=options.switch, engine=options.engine)
    kind = switches.choose_for(base)

    def measure(case: Row, context: Context) -> dict[str, Any]:
        return _measured(case["system"], replace(base, link=replace(link, mbit=case["link_mbit"])), options, context)

    def record(rows: Rows) -> dict[str, Any]:
        engine = switches.choose_engine(base.engine) if kind == "soft" else None
        return {"workers": base.workers, "switch": kind, "engine": engine, "results": [_entry(row) for row in rows]}

    cases = [{"system": system, "link_mbit": rate} for rate in options.bw for system in options.systems]
    study = Study("allreduce", "one all-reduce by each system", cases, measure, stops=True)
    return Bench(study, record, text)


def _measured(system: str, run: RunOptions, options: AllReduceOptions, context: Context) -> dict[str, Any]:
    kind = None if system == BASELINE else switches.choose_for(run)
    backlog = counters.backlog()
    told = {"exchange": "all-reduce", "system": system, "sizes": options.sizes, "repeats": options.repeats}
    with open_session(run, kind, context.folder) as session:
        measured = exchanges(session, told)
        counted = session.counted()
        offloads = session.network.offloads
    sockets = sum(worker["host_sockets"] for worker in measured)
    lost = counters.gather(counted, backlog_before=backlog, sockets=sockets)
    workers = [[worker["sizes"][k] for worker in measured] for k in range(len(options.sizes))]
    rows = [
        size_row(run.link.mbit, size, system, of, switched=kind is not None)
        for size, of in zip(options.sizes, workers, strict=True)
    ]
    for row in rows:
        context.say(f"{rate_text(run.link.mbit)}, {row['values']} values, {system}: {row['seconds']:.4f} s")
    return {"rows": rows, "lost": lost, "retransmissions": retransmissions(measured), "offloads": offloads}


def text(rows: Rows) -> str:
    """Return one line per size, with the speed-up over gloo, then what each case lost."""
    sizes = [size for row in rows for size in row["rows"]]
    lines = ["Mbit/s     values  system   seconds     bound  link used  CPU s/M: host  switch  gloo / it"]
    base = {(one["link_mbit"], one["values"]): one["seconds"] for one in sizes if one["system"] == BASELINE}
    for one in sizes:
        gloo = base.get((one["link_mbit"], one["values"]))
        faster = "" if gloo is None or one["system"] == BASELINE else f"{gloo / one['seconds']:9.2f}"
        switch = "-" if one["switch_cpu_s"] is None else f"{one['switch_cpu_s']:.4f}"
        lines.append(
            f"{one['link_mbit']:6g} {one['values']:>10} {one['system']:>7} {one['seconds']:9.4f} "
            f"{one['bound_s']:9.4f} {one['link_share']:9.1%} {one['host_cpu_s']:14.4f} {switch:>7}  {faster}"
        )
    for row in rows:
        lost = ", ".join(f"{place} {_count(n)}" for place, n in row["lost"].items())
        offloads = "on" if row["offloads"] else "off"
        lines.append(
            f"{rate_text(row['link_mbit'])}, {row['system']}: hosts' offloads {offloads}; sent again "
            f"{row['retransmissions']}; lost: {lost}"
        )
    return "\n".join(lines)


def size_row(
    link_mbit: float, values: int, system: str, measured: Sequence[Mapping[str, Any]], *, switched: bool = True
) -> dict[str, Any]:
    """Return the row of one size from the workers' measurements, the first worker first. `switch_cpu_s`: CPU seconds of
    all switches per million values; None for kernel bridges, whose work is not charged to a process."""
    wire_bytes = all_reduce_bytes("thc" if system in BY_CHOICE else system, values, len(measured))
    switch_cpu_s = measured[0]["switch_cpu_s"] / millions(values, measured) if switched else None
    return {**timing(link_mbit, values, system, wire_bytes, measured), "switch_cpu_s": switch_cpu_s}


def _entry(row: Row) -> dict[str, Any]:
    """For JSON, which has null for the rate of a link without a limit."""
    rate = None if row["link_mbit"] == UNLIMITED else row["link_mbit"]
    return {**row, "link_mbit": rate, "rows": [{**one, "link_mbit": rate} for one in row["rows"]]}


def _count(number: int | None) -> str:
    return "unknown" if number is None else str(number)
