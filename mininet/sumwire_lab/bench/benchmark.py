# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The vocabulary of every benchmark: what it measures, and how its rows become text, records and parts of the page.

A benchmark measures cases. A case is one measurement that was planned; it gives rows, frozen dataclasses of numbers
and words that go into JSON as they are. A command has a `bench-...` command of its own: it prints its rows as text
and writes them as one record. A suite is a part of the page of `make bench`, which presents its rows as tables,
charts and sentences.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from sumwire_lab.network.topology import require_tools
from sumwire_lab.options.bench_options import BenchOptions
from sumwire_lab.options.plain import to_json
from sumwire_lab.study.experiment import Say, interruptible, new_folder
from sumwire_lab.study.figures import aligned
from sumwire_lab.system import leftovers


class Labelled(Protocol):
    """One measurement of a plan."""

    @property
    def label(self) -> str:
        """A few words, different from those of the plan's other cases."""
        ...


CaseT = TypeVar("CaseT", bound=Labelled)
RowT = TypeVar("RowT")
OptionsT = TypeVar("OptionsT")


@dataclass(frozen=True)
class BenchContext:
    """What every case of a run shares: the page's options, a folder to write to, and how to report progress."""

    options: BenchOptions
    folder: Path
    say: Say


class Benchmark(ABC, Generic[CaseT, RowT]):
    """Measures cases, one at a time."""

    name: ClassVar[str]

    @abstractmethod
    def measure(self, case: CaseT, context: BenchContext) -> list[RowT]:
        """The rows of one case. Raises LabError."""


@dataclass(frozen=True)
class TextColumn(Generic[RowT]):
    """A column of a benchmark's table: its head, and a row's cell."""

    head: str
    cell: Callable[[RowT], str]


class BenchCommand(Benchmark[CaseT, RowT], Generic[OptionsT, CaseT, RowT]):
    """A benchmark with a command of its own. Unless a class says otherwise, its record has options and rows, and its
    text is a table of its columns."""

    needs_network: bool = True
    columns: ClassVar[Sequence[TextColumn[Any]]] = ()

    def __init__(self, options: OptionsT) -> None:
        self.options = options

    @abstractmethod
    def plan(self) -> list[CaseT]:
        """The cases, in the order in which they are measured. Raises LabError if this machine cannot run them."""

    def record(self, rows: Sequence[RowT]) -> dict[str, Any]:
        """All rows as one JSON object."""
        return {"options": to_json(self.options), "rows": to_json(rows)}

    def text(self, rows: Sequence[RowT]) -> str:
        """All rows as a table for a terminal."""
        return table_text(self.columns, rows)

    def holds(self, rows: Sequence[RowT]) -> bool:
        """Whether the rows meet the benchmark's targets, if it has any."""
        return True


def table_text(columns: Sequence[TextColumn[RowT]], rows: Iterable[RowT]) -> str:
    """A head, and a line for each row."""
    lines = [[column.head for column in columns], *([column.cell(row) for column in columns] for row in rows)]
    return "\n".join(aligned(lines))


@contextmanager
def network_experiment(results: Path) -> Iterator[Path]:
    """A new folder of `results`, for the time of a measurement that needs root and a network, and may be interrupted.

    Raises LabError if this machine lacks a tool.
    """
    require_tools()
    folder = new_folder(results, latest=False)
    leftovers.clean()
    with interruptible():
        yield folder


def write_record(record: Any, folder: Path, name: str) -> None:
    """Write NAME.json."""
    (folder / f"{name}.json").write_text(json.dumps(to_json(record), indent=1) + "\n")


def run_in_network(command: BenchCommand[Any, CaseT, RowT], results: Path, say: Say) -> list[RowT]:
    """Measure all cases with a network. NAME.json goes into a new folder of `results`. Raises LabError."""
    cases = command.plan()
    with network_experiment(results) as folder:
        rows = _measure(command, cases, BenchContext(BenchOptions(), folder, say))
    write_record(command.record(rows), folder, command.name)
    return rows


def run_here(command: BenchCommand[Any, CaseT, RowT], say: Say, record: Path | None = None) -> list[RowT]:
    """Measure all cases without a network. They need no root and write no file but `record`."""
    rows = _measure(command, command.plan(), BenchContext(BenchOptions(), Path(), say))
    if record is not None:
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(json.dumps(command.record(rows), indent=2) + "\n")
    return rows


def _measure(command: BenchCommand[Any, CaseT, RowT], cases: Sequence[CaseT], context: BenchContext) -> list[RowT]:
    return [row for case in cases for row in command.measure(case, context)]


def carry_out(
    command: BenchCommand[Any, CaseT, RowT], say: Say, results: Path | None, record: Path | None
) -> tuple[str, bool]:
    """Measure all cases where the benchmark belongs: its text, and whether its rows meet their targets.

    `results`: for a benchmark in a network; `record`: for one without. Raises LabError.
    """
    if command.needs_network and results is not None:
        rows = run_in_network(command, results, say)
    else:
        rows = run_here(command, say, record)
    return command.text(rows), command.holds(rows)


@dataclass(frozen=True)
class PageTable:
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

    tables: tuple[PageTable, ...] = ()
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
class CaseFailure:
    """A case that raised an error."""

    label: str
    why: str


@dataclass
class SuiteOutcome:
    """The result of one suite."""

    suite: Suite[Any, Any]
    planned: int = 0
    rows: list[Any] = field(default_factory=list)
    failures: list[CaseFailure] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    seconds: float = 0.0
    finished: bool = False
    """Whether every case was tried."""
