# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What each part of THC brings, over numbers of workers, with late workers and with loss: `bench-thc`."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Final

from sumwire_lab.bench.benchmark import Context
from sumwire_lab.bench.command import Command
from sumwire_lab.bench.thc.baselines import DGC, TERNGRAD, TOP_K
from sumwire_lab.bench.thc.training import train
from sumwire_lab.options.thc_variants import ThcOptions
from sumwire_lab.training import digits_data

EXACT: Final = "exact mean"
BASELINES: Final = (TERNGRAD, TOP_K, DGC)


@dataclass(frozen=True)
class Case:
    """One variant with one number of workers, all seeds."""

    variant: str
    workers: int

    @property
    def label(self) -> str:
        return f"{self.variant}, {self.workers} workers"


@dataclass(frozen=True)
class Row:
    """Means over the seeds, and the least and the largest accuracy."""

    variant: str
    workers: int
    nmse: float | None
    accuracy: float
    accuracy_from: float
    accuracy_to: float
    bits: float


class ThcCommand(Command[Case, Row]):
    """The exact mean first, then the baselines, then each variant whose sums fit."""

    name: ClassVar = "bench-thc"

    def __init__(self, options: ThcOptions) -> None:
        self._options = options
        self._samples = digits_data.load()

    def plan(self) -> list[Case]:
        """See Command."""
        fitting = [
            Case(name, workers)
            for workers in self._options.workers
            for name, variant in self._options.variants.items()
            if variant.fits(workers)
        ]
        plain = (EXACT, *(BASELINES if self._options.baselines else ()))
        return [*(Case(name, workers) for workers in self._options.workers for name in plain), *fitting]

    def measure(self, case: Case, context: Context) -> list[Row]:
        """See Benchmark."""
        given = self._options.variants.get(case.variant, None if case.variant == EXACT else case.variant)
        done = [train(given, case.workers, seed, self._options, self._samples) for seed in self._options.seeds]
        errors = [one.nmse for one in done if one.nmse is not None]
        accuracies = [one.accuracy for one in done]
        row = Row(
            variant=case.variant,
            workers=case.workers,
            nmse=None if not errors else statistics.mean(errors),
            accuracy=statistics.mean(accuracies),
            accuracy_from=min(accuracies),
            accuracy_to=max(accuracies),
            bits=statistics.mean(one.bits for one in done),
        )
        context.say(_line(row))
        return [row]

    def record(self, rows: Sequence[Row]) -> dict[str, Any]:
        """The options, and all rows."""
        return {"options": asdict(self._options), "rows": [asdict(row) for row in rows]}

    def text(self, rows: Sequence[Row]) -> str:
        """A line for each row."""
        head = f"{'':<32}{'workers':>8}{'NMSE':>9}{'accuracy':>10}{'of seeds':>17}{'bits':>8}"
        return "\n".join([head, *map(_line, rows)])


def _line(row: Row) -> str:
    of_seeds = f"{row.accuracy_from:.1%} .. {row.accuracy_to:.1%}"
    nmse = "" if row.nmse is None else f"{row.nmse:.4f}"
    return f"{row.variant:<32}{row.workers:>8}{nmse:>9}{row.accuracy:>10.2%}{of_seeds:>17}{row.bits:>8.3f}"
