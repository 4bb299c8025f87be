# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`bench-acp`: measures the gain of overlap and fusion by system, and the effect of buffer size and rank on ACP-SGD."""

from __future__ import annotations

from typing import Any, Final

from sumwire_lab.bench.benchmark import Bench, Row
from sumwire_lab.options.bench_options import AcpBenchOptions, AcpCase
from sumwire_lab.run.training_run import run
from sumwire_lab.study.study import Column, Context, Study

_CASE: Final = ("part", "system", "mode", "buffer_mb", "rank")
COLUMNS: Final = (
    Column("step_s", "a step, the median over steps and workers", "s", form=".3f"),
    Column("comm_s", "its communication", "s", form=".3f"),
    Column("tx_bytes", "that a worker sends", "bytes", form=".0f"),
)


def bench(options: AcpBenchOptions) -> Bench:
    """Return the benchmark: every case is a separate training, on equal links."""
    trainings = {case_of(one): one for one in options.cases()}

    def measure(case: Row, context: Context) -> dict[str, Any]:
        chosen = trainings[tuple(case.values())]
        summary, _ = run(chosen.options, context.folder, context.say)
        return row_of(summary["systems"][chosen.system])

    cases = [dict(zip(_CASE, one, strict=True)) for one in trainings]
    study = Study("bench-acp", "what overlap and fusion bring", cases, measure, COLUMNS, lines=_CASE, stops=True)
    return Bench(study, lambda rows: {"options": options, "rows": rows})


def case_of(training: AcpCase) -> tuple[Any, ...]:
    """Return the values of a training's case."""
    train = training.options.train
    return training.part, training.system, training.mode, train.buffer_mb, train.rank


def row_of(entry: Row) -> dict[str, Any]:
    """Return the row of a training, from its entry in the run's summary."""
    kept = {"step_s": "step_s_p50", "comm_s": "comm_s_per_step_median", "tx_bytes": "tx_bytes_per_step"}
    return {name: entry[key] for name, key in kept.items()}
