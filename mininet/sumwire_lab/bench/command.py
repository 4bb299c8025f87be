# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A benchmark with a command of its own: it plans its cases, prints its rows as text and writes them as one record."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sumwire_lab.bench.benchmark import Benchmark, CaseT, Context, RowT
from sumwire_lab.network.topology import require_tools
from sumwire_lab.options.bench_options import BenchOptions
from sumwire_lab.study.experiment import Say, interruptible, new_folder
from sumwire_lab.system import leftovers


class Command(Benchmark[CaseT, RowT]):
    """Its options are given to its constructor."""

    @abstractmethod
    def plan(self) -> list[CaseT]:
        """The cases, in the order in which they are measured. Raises LabError if this machine cannot run them."""

    @abstractmethod
    def record(self, rows: Sequence[RowT]) -> dict[str, Any]:
        """All rows as one JSON object."""

    @abstractmethod
    def text(self, rows: Sequence[RowT]) -> str:
        """All rows as a table for a terminal."""

    def holds(self, rows: Sequence[RowT]) -> bool:
        """Whether the rows meet the benchmark's targets, if it has any."""
        return True


def run_in_network(command: Command[CaseT, RowT], results: Path, say: Say) -> list[RowT]:
    """Measure all cases with a network. NAME.json goes into a new folder of `results`. Raises LabError."""
    require_tools()
    cases = command.plan()
    folder = new_folder(results, latest=False)
    leftovers.clean()
    with interruptible():
        rows = _measure(command, cases, Context(BenchOptions(), folder, say))
    (folder / f"{command.name}.json").write_text(json.dumps(command.record(rows), indent=1) + "\n")
    return rows


def run_here(command: Command[CaseT, RowT], say: Say, record: Path | None = None) -> list[RowT]:
    """Measure all cases without a network. They need no root and write no file but `record`."""
    rows = _measure(command, command.plan(), Context(BenchOptions(), Path(), say))
    if record is not None:
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps(command.record(rows), indent=2) + "\n")
    return rows


def _measure(command: Command[CaseT, RowT], cases: Sequence[CaseT], context: Context) -> list[RowT]:
    return [row for case in cases for row in command.measure(case, context)]
