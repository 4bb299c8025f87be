# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Interleaved A/B: one plain all-reduce by gloo and by Sumwire in turn, `python -m sumwire_lab bench interleaved --bw
loopback`.

Both are done by the same processes on the same links, one exchange after the other. So disturbances affect both, and a
small difference is visible. Between hosts the links end at a kernel bridge, where gloo is at its best, and Sumwire has
its software aggregator. On loopback all of them are processes of this machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from sumwire_protocol.ops import SHORT_OPS

from sumwire_lab.bench.benchmark import Bench, Row
from sumwire_lab.bench.exchange_worker import exchange, exchanges
from sumwire_lab.bench.timing import repeats_of
from sumwire_lab.options.bench_options import LOOPBACK, InterleavedOptions, rate_text
from sumwire_lab.options.run_options import AGGREGATOR, LinkOptions, RunOptions
from sumwire_lab.run.session import open_session
from sumwire_lab.study.study import Column, Context, Study, grid
from sumwire_lab.study.workers import on_loopback

COLUMNS: Final = (
    Column("gloo_s", "the slowest worker's exchange by gloo, median of the repeats", "s", form=".4f"),
    Column("seconds", "by the system", "s", form=".4f"),
    Column("speed_up", "gloo's time over that of the system", form=".2f"),
    Column("by_group", "share of the system's exchanges that it left to the process group, which is gloo", form=".0%"),
)


def bench(options: InterleavedOptions) -> Bench:
    """Measure all systems at all rates. A case has one system on links of one rate, with its sizes one after the
    other."""

    def measure(case: Row, context: Context) -> list[dict[str, Any]]:
        told = {"exchange": "in-turn", "system": case["system"], "repeats": 2 * options.repeats}
        measured = _measured(case["link_mbit"], context.folder, {**told, "sizes": options.sizes}, options.workers)
        return turn_rows(case["link_mbit"], options.sizes, measured)

    study = Study(
        "turns",
        "gloo and each system in turn",
        grid(link_mbit=options.bw, system=options.systems),
        measure,
        COLUMNS,
        lines=("links", "values", "system"),
        stops=True,
    )

    def record(rows: Sequence[Row]) -> dict[str, Any]:
        results = [{name: value for name, value in row.items() if name != "link_mbit"} for row in rows]
        return {"workers": options.workers, "repeats": options.repeats, "results": results}

    return Bench(study, record, needs_network=any(link is not None for link in options.bw))


def _measured(link_mbit: float | None, folder: Path, told: dict[str, Any], workers: int) -> list[dict[str, Any]]:
    """What each worker has measured; None: on loopback."""
    if link_mbit is None:
        return on_loopback(exchange, {"switches": [], **told}, workers, ops=[op.name for op in SHORT_OPS])
    options = RunOptions(workers=workers, link=LinkOptions(link_mbit), switch=AGGREGATOR)
    with open_session(options, AGGREGATOR, folder) as session:
        return exchanges(session, told)


def turn_rows(
    link_mbit: float | None, sizes: Sequence[int], measured: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return rows from the workers' records: exchanges 0, 2, 4 ... are gloo's, the others the system's."""
    rows = []
    for k, size in enumerate(sizes):
        slowest = [max(repeat) for repeat in repeats_of([worker["sizes"][k] for worker in measured])]
        gloo_s, seconds = median(slowest[::2]), median(slowest[1::2])
        by_group = measured[0]["stats"]["by_group"][k]
        links = LOOPBACK if link_mbit is None else rate_text(link_mbit)
        times = {"gloo_s": gloo_s, "seconds": seconds, "speed_up": gloo_s / seconds, "by_group": by_group}
        rows.append({"links": links, "values": size, **times})
    return rows
