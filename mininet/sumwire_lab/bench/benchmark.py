# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The common parts of benchmarks. Each is a study: its cases are measured by :mod:`sumwire_lab.study.study`.

A command of `sumwire-lab bench` is a :class:`Bench`: it prints its rows as text and writes them as one record. A
:class:`Suite` is a part of the page of `make bench`, and presents its rows as tables, charts and sentences.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sumwire_lab.network.topology import require_tools
from sumwire_lab.options.bench_options import BenchOptions
from sumwire_lab.options.plain import to_json
from sumwire_lab.study.experiment import Say, interruptible, new_folder
from sumwire_lab.study.study import Study, StudyResults, run
from sumwire_lab.system import leftovers

Row = Mapping[str, Any]
Rows = Sequence[Row]


@contextmanager
def network_experiment(results: Path) -> Iterator[Path]:
    """Yield a new folder in `results`, and run the block as a measurement that needs root and a network, and may be
    interrupted.

    Raises LabError if this machine lacks a tool.
    """
    require_tools()
    folder = new_folder(results, latest=False)
    leftovers.clean()
    with interruptible():
        yield folder


def in_network(study: Study, results: Path, say: Say) -> StudyResults:
    """Measure a study that needs a network, in a new folder of `results`. Raises LabError."""
    with network_experiment(results) as folder:
        return run(study, results, say, again=True, folder=folder)


def write_record(record: Any, folder: Path, name: str) -> None:
    """Write the record to NAME.json."""
    (folder / f"{name}.json").write_text(json.dumps(to_json(record), indent=1) + "\n")


@dataclass(frozen=True)
class Bench:
    """A benchmark with a separate command: its study, and the presentation of its rows.

    ``record``: the content of NAME.json. ``text``: the output on a terminal. ``holds``: whether the rows meet the
    targets, if there are any. ``needs_network``: it runs as root, and NAME.json goes into a folder of its own.
    """

    study: Study
    record: Callable[[Rows], Any]
    text: Callable[[Rows], str] | None = None
    holds: Callable[[Rows], bool] = lambda rows: True
    needs_network: bool = True

    def measure(self, results: Path, say: Say) -> StudyResults:
        """Measure all cases with a network. NAME.json goes into a new folder of `results`. Raises LabError."""
        with network_experiment(results) as folder:
            done = run(self.study, results, say, again=True, folder=folder)
        write_record(self.record(done.rows()), folder, self.study.name)
        return done

    def measure_here(self, say: Say, record: Path | None = None) -> StudyResults:
        """Measure all cases without a network. It needs no root, and writes no file except `record`."""
        with tempfile.TemporaryDirectory() as folder:
            done = run(self.study, Path(folder), say, again=True)
        if record is not None:
            record.parent.mkdir(parents=True, exist_ok=True)
            record.write_text(json.dumps(to_json(self.record(done.rows())), indent=2) + "\n")
        return done

    def carry_out(self, say: Say, results: Path | None, record: Path | None) -> tuple[str, bool]:
        """Measure all cases, with or without a network as the benchmark needs. Returns its text, and whether its rows
        meet their targets.

        `results`: for a benchmark in a network; `record`: for one without. Raises LabError.
        """
        in_network = self.needs_network and results is not None
        done = self.measure(results, say) if in_network and results else self.measure_here(say, record)
        return self.shown(done), self.holds(done.rows())

    def shown(self, done: StudyResults) -> str:
        """Return the text of what was measured."""
        return done.table() if self.text is None else self.text(done.rows())


@dataclass(frozen=True)
class PageTable:
    """A table of the page: cells as shown; the first column holds names."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class Series:
    """One line of a chart. `bound`: it is a limit rather than a measurement, and is drawn thin and dashed."""

    name: str
    points: tuple[tuple[float, float], ...]
    bound: bool = False


@dataclass(frozen=True)
class Chart:
    """A chart of lines over one variable. Both labels give the unit."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    log_x: bool = False
    log_y: bool = False
    note: str = ""


@dataclass(frozen=True)
class Presentation:
    """The page's content for a suite. `behind`: sentences that say where Sumwire is slower."""

    tables: tuple[PageTable, ...] = ()
    charts: tuple[Chart, ...] = ()
    behind: tuple[str, ...] = ()


@dataclass(frozen=True)
class Suite:
    """One part of the page. ``question``: the question that it answers; ``how``: how it is measured, in sentences.

    ``present``: tables and charts of at least one row; rows of some cases may be missing. ``left_out``: the cases that
    the study omits on purpose, with the reason.
    """

    name: str
    title: str
    question: str
    how: str
    study: Callable[[BenchOptions], Study]
    present: Callable[[Rows], Presentation]
    left_out: Callable[[BenchOptions], list[str]] = lambda options: []
