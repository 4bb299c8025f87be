# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a suite is: cases planned beforehand, each measured on its own, rows made into tables, charts and sentences.

Planning and presenting are pure; only `measure` runs anything.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from sumwire_lab.bench.options import BenchOptions
from sumwire_lab.run.experiment import Say


@dataclass(frozen=True)
class Table:
    """Cells as they are shown; the first column holds names."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class Series:
    """One line of a chart. `bound`: what cannot be beaten, drawn thin and dashed."""

    name: str
    points: tuple[tuple[float, float], ...]
    bound: bool = False


@dataclass(frozen=True)
class Chart:
    """Lines over a number. Both labels say the unit."""

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


@dataclass(frozen=True)
class Context:
    """Where a case may write, and how it says what goes on."""

    options: BenchOptions
    folder: Path
    say: Say


class Case(Protocol):
    """One measurement of a plan."""

    @property
    def label(self) -> str:
        """A few words, different from those of the plan's other cases."""
        ...


CaseT = TypeVar("CaseT", bound=Case)
RowT = TypeVar("RowT")


class Suite(ABC, Generic[CaseT, RowT]):
    """Rows are frozen dataclasses of numbers and words, so that they go into JSON as they are."""

    name: ClassVar[str]
    title: ClassVar[str]
    question: ClassVar[str]
    """What a reader learns from it."""
    how: ClassVar[str]
    """How it is measured, in sentences."""

    @abstractmethod
    def plan(self, options: BenchOptions) -> list[CaseT]:
        """The cases, in the order in which they are measured."""

    @abstractmethod
    def measure(self, case: CaseT, context: Context) -> list[RowT]:
        """One case's rows."""

    @abstractmethod
    def present(self, rows: Sequence[RowT]) -> Presentation:
        """Of at least one row, perhaps not of all cases."""

    def left_out(self, options: BenchOptions) -> list[str]:
        """What the plan leaves out on purpose, with the reason."""
        return []


@dataclass(frozen=True)
class Failure:
    """A case that came to no end."""

    label: str
    why: str


@dataclass
class Outcome:
    """What became of one suite."""

    suite: Suite[Any, Any]
    planned: int = 0
    rows: list[Any] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    seconds: float = 0.0
    finished: bool = False
    """All cases were tried."""
