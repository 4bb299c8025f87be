# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What overlap and fusion bring, by system, and what buffer size and rank do to ACP-SGD: `bench-acp`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from sumwire_lab.bench.benchmark import BenchCommand, BenchContext, TextColumn
from sumwire_lab.options.bench_options import AcpBenchOptions, AcpCase
from sumwire_lab.run.training_run import run


@dataclass(frozen=True)
class AcpRow:
    """Seconds of a step, the median over steps and workers, and of its communication; bytes that a worker sends."""

    part: str
    system: str
    mode: str
    buffer_mb: float
    rank: int
    step_s: float
    comm_s: float
    tx_bytes: float


class AcpCommand(BenchCommand[AcpBenchOptions, AcpCase, AcpRow]):
    """Every case is a training of its own, on equal links."""

    name: ClassVar = "bench-acp"
    columns: ClassVar[Sequence[TextColumn[AcpRow]]] = (
        TextColumn("part", lambda row: row.part),
        TextColumn("system", lambda row: row.system),
        TextColumn("mode", lambda row: row.mode),
        TextColumn("MB", lambda row: f"{row.buffer_mb:g}"),
        TextColumn("rank", lambda row: str(row.rank)),
        TextColumn("step, s", lambda row: f"{row.step_s:.3f}"),
        TextColumn("comm., s", lambda row: f"{row.comm_s:.3f}"),
        TextColumn("sent, MB", lambda row: f"{row.tx_bytes / 1e6:.3f}"),
    )

    def plan(self) -> list[AcpCase]:
        """See BenchCommand."""
        return list(self.options.cases())

    def measure(self, case: AcpCase, context: BenchContext) -> list[AcpRow]:
        """See Benchmark."""
        summary, _ = run(case.options, context.folder, context.say)
        return [row_of(case, summary["systems"][case.system])]


def row_of(case: AcpCase, entry: dict[str, Any]) -> AcpRow:
    """The row of a training, from its entry in the run's summary."""
    train = case.options.train
    assert train.buffer_mb is not None
    return AcpRow(
        part=case.part,
        system=case.system,
        mode=case.mode,
        buffer_mb=train.buffer_mb,
        rank=train.rank,
        step_s=entry["step_s_p50"],
        comm_s=entry["comm_s_per_step_median"],
        tx_bytes=entry["tx_bytes_per_step"],
    )
