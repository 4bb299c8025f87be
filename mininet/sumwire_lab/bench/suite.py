# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A suite: a benchmark whose rows the page presents as tables, charts and sentences."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from sumwire_lab.bench.benchmark import Benchmark, CaseT, RowT
from sumwire_lab.options.bench_options import BenchOptions


@dataclass(frozen=True)
class Table:
    """Cells as they are shown; the first column holds names."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class Series:
    """One line of a chart. `bound`: a limit rather than a measurement, drawn thin and dashed."""

    name: str
    points: tuple[tuple[float, float], ...]
    bound: bool = False


@dataclass(frozen=True)
class Chart:
    """Lines over one variable. Both labels give the unit."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    log_x: bool = False
    log_y: bool = False
    note: str = ""


@dataclass(frozen=True)
class Presentation:
    """What the page shows of a suite. `behind`: sentences that say where Sumwire loses."""

    tables: tuple[Table, ...] = ()
    charts: tuple[Chart, ...] = ()
    behind: tuple[str, ...] = ()


class Suite(Benchmark[CaseT, RowT]):
    """One part of the page. Planning and presenting are pure; only `measure` runs anything."""

    title: ClassVar[str]
    question: ClassVar[str]
    """What a reader learns from it."""
    how: ClassVar[str]
    """How it is measured, in sentences."""

    @abstractmethod
    def plan(self, options: BenchOptions) -> list[CaseT]:
        """The cases, in the order in which they are measured."""

    @abstractmethod
    def present(self, rows: Sequence[RowT]) -> Presentation:
        """Tables and charts of at least one row. Rows of some cases may be missing."""

    def left_out(self, options: BenchOptions) -> list[str]:
        """What the plan leaves out on purpose, with the reason."""
        return []


@dataclass(frozen=True)
class Failure:
    """A case that raised an error."""

    label: str
    why: str


@dataclass
class Outcome:
    """The result of one suite."""

    suite: Suite[Any, Any]
    planned: int = 0
    rows: list[Any] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    seconds: float = 0.0
    finished: bool = False
    """Whether every case was tried."""
