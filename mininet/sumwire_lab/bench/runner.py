# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`bench page`: runs the suites one after the other, and writes the measurements to disk after every case."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from sumwire_lab.bench import page
from sumwire_lab.bench.accuracy import ACCURACY
from sumwire_lab.bench.benchmark import Suite
from sumwire_lab.bench.codec_cost import CODEC_COST
from sumwire_lab.bench.codec_error import CODEC_ERROR
from sumwire_lab.bench.page import SuiteOutcome
from sumwire_lab.bench.page_allreduce import ALL_REDUCE, SCALING
from sumwire_lab.bench.sizes import SIZES
from sumwire_lab.options.bench_options import BenchOptions
from sumwire_lab.study import records
from sumwire_lab.study.experiment import Say, interruptible, new_folder
from sumwire_lab.study.figures import aligned
from sumwire_lab.study.study import StudyResults, run

RECORD: Final = "bench.json"
PAGE: Final = "report.html"
KNOWN: Final[Mapping[str, Suite]] = {
    suite.name: suite for suite in (ALL_REDUCE, ACCURACY, SCALING, CODEC_COST, CODEC_ERROR, SIZES)
}
"""The suites, in the page's order."""


def bench(options: BenchOptions, results: Path, say: Say) -> tuple[list[SuiteOutcome], Path]:
    """Run the suites. Returns their outcomes, and the folder with page, charts and JSON. Raises LabError.

    A case that fails is reported on the page, and the next one runs. After Ctrl-C the page has the measurements so far,
    and KeyboardInterrupt is raised.
    """
    folder = new_folder(results, latest=False)
    say(f"results in {folder}")
    book = PageBook(options, folder)
    try:
        with interruptible():
            for number, name in enumerate(options.suites, start=1):
                say(f"== {number} of {len(options.suites)}: {KNOWN[name].title}")
                book.measure(KNOWN[name], say)
    finally:
        book.write_page()
    return book.outcomes, folder


class PageBook:
    """The outcomes so far, and the files that they are written to."""

    def __init__(self, options: BenchOptions, folder: Path) -> None:
        self.outcomes: list[SuiteOutcome] = []
        # By suite, with its number of rows. Drawing charts takes time, and most suites have not changed.
        self._shown: dict[str, tuple[int, page.Shown]] = {}
        self._folder, self._options = folder, options
        self._about: dict[str, Any] = {
            "begun": datetime.now().isoformat(timespec="seconds"),
            "options": asdict(options),
            "machine": records.described(),
        }

    def measure(self, suite: Suite, say: Say) -> None:
        """Measure one suite's cases. An error of a case is kept as a failure, and so is one of the suite itself."""
        outcome = SuiteOutcome(suite)
        self.outcomes.append(outcome)
        began = time.monotonic()

        def take(done: StudyResults) -> None:
            outcome.take(done, time.monotonic() - began)
            self.write_record()

        try:
            study = suite.study(self._options)
            outcome.planned, outcome.left_out = len(study.cases), suite.left_out(self._options)
            run(study, self._folder, say, again=True, after_each=take, folder=self._folder / suite.name)
        except Exception as error:  # noqa: BLE001 - one suite's mistake must not lose the others
            outcome.failures.append(("the suite's plan", f"{type(error).__name__}: {error}"))
            return
        outcome.finished = True
        self.write_page()

    def write_record(self) -> None:
        """Write bench.json: rows, failures and omitted cases, by suite."""
        record = {**self._about, "suites": {one.suite.name: one.as_dict() for one in self.outcomes}}
        partial = self._folder / f".{RECORD}"
        partial.write_text(json.dumps(record, indent=1) + "\n")
        partial.replace(self._folder / RECORD)

    def write_page(self) -> None:
        """Write report.html, and each chart to a file of its own."""
        self.write_record()
        shown = [self._of(outcome) for outcome in self.outcomes]
        (self._folder / PAGE).write_text(page.html_page(self._about, shown))

    def _of(self, outcome: SuiteOutcome) -> page.Shown:
        name = outcome.suite.name
        count, shown = self._shown.get(name, (None, None))
        if shown is None or count != len(outcome.rows):
            shown = page.Shown.of(outcome)
            self._shown[name] = len(outcome.rows), shown
            for number, drawn in enumerate(shown.drawn, start=1):
                (self._folder / f"{name}-{number}.svg").write_text(drawn)
        return shown


def tables_text(outcomes: Sequence[SuiteOutcome]) -> str:
    """Return the page's tables and failures as text for a terminal."""
    lines = []
    for outcome in outcomes:
        lines.append(f"== {outcome.suite.title}")
        for table in page.presented(outcome).tables:
            lines += [table.title, *aligned((table.head, *table.rows)), ""]
        lines += [f"failed: {label}: {why}" for label, why in outcome.failures]
    return "\n".join(lines)


def command(options: BenchOptions, results: Path, say: Say) -> tuple[str, bool]:
    """Run `bench page`. Returns the tables for a terminal, and whether no case failed. Raises LabError."""
    done, folder = bench(options, results, say)
    return f"{tables_text(done)}\n\n{folder / PAGE}", not any(outcome.failures for outcome in done)
