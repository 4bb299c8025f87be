# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the suites one after the other, and writes what was measured to disk after every case."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from sumwire_lab.bench import page
from sumwire_lab.bench.accuracy import Accuracy
from sumwire_lab.bench.benchmark import BenchContext, CaseFailure, Suite, SuiteOutcome
from sumwire_lab.bench.codec_cost import CodecCostSuite
from sumwire_lab.bench.codec_error import CodecErrorSuite
from sumwire_lab.bench.page_allreduce import AllReduceSuite, ScalingSuite
from sumwire_lab.bench.sizes import SizesSuite
from sumwire_lab.options.bench_options import SUITES, BenchOptions
from sumwire_lab.study import records
from sumwire_lab.study.experiment import Say, interruptible, new_folder
from sumwire_lab.study.figures import aligned

RECORD: Final = "bench.json"
PAGE: Final = "report.html"
_PLAN_LABEL: Final = "the suite's plan"


def suites(names: Sequence[str] = SUITES) -> list[Suite[Any, Any]]:
    """The suites of these names, in their order."""
    known: list[Suite[Any, Any]] = [
        AllReduceSuite(),
        Accuracy(),
        ScalingSuite(),
        CodecCostSuite(),
        CodecErrorSuite(),
        SizesSuite(),
    ]
    by_name = {suite.name: suite for suite in known}
    return [by_name[name] for name in names]


def bench(options: BenchOptions, results: Path, say: Say) -> tuple[list[SuiteOutcome], Path]:
    """Run the suites. Returns their outcomes, and the folder with page, charts and JSON. Raises LabError.

    A case that fails is reported on the page, and the next one runs. After Ctrl-C the page has what was measured, and
    KeyboardInterrupt is raised.
    """
    folder = new_folder(results, latest=False)
    say(f"results in {folder}")
    book = PageBook(options, folder)
    context = BenchContext(options, folder, say)
    try:
        with interruptible():
            for number, suite in enumerate(suites(options.suites), start=1):
                say(f"== {number} of {len(options.suites)}: {suite.title}")
                run_suite(suite, context, book)
    finally:
        book.write_page()
    return book.outcomes, folder


def run_suite(suite: Suite[Any, Any], context: BenchContext, book: PageBook) -> None:
    """Measure one suite's cases. If a case raises an error, the outcome keeps it as a failure."""
    outcome = SuiteOutcome(suite)
    book.outcomes.append(outcome)
    try:
        cases = suite.plan(context.options)
        outcome.left_out = suite.left_out(context.options)
    except Exception as error:  # noqa: BLE001 - one suite's mistake must not lose the others
        outcome.failures.append(failure(_PLAN_LABEL, error))
        return
    outcome.planned = len(cases)
    began = time.monotonic()
    for number, case in enumerate(cases):
        context.say(
            f"{suite.name} {number + 1}/{len(cases)}{_left(time.monotonic() - began, number, len(cases))}: {case.label}"
        )
        try:
            outcome.rows.extend(suite.measure(case, context))
        except Exception as error:  # noqa: BLE001 - a case that fails is reported, the others go on
            outcome.failures.append(failure(case.label, error))
            context.say(f"failed: {error}")
        outcome.seconds = time.monotonic() - began
        book.write_record()
    outcome.finished = True
    book.write_page()


def failure(label: str, error: Exception) -> CaseFailure:
    """A failure with the error's type and message."""
    return CaseFailure(label, f"{type(error).__name__}: {error}")


def _left(spent_s: float, done: int, planned: int) -> str:
    """Estimate of the remaining time, if the other cases take as long as those before; empty at the start."""
    return f", some {spent_s / done * (planned - done):.0f} s left" if done else ""


class PageBook:
    """The outcomes so far, and the files that they are written to."""

    def __init__(self, options: BenchOptions, folder: Path) -> None:
        self.outcomes: list[SuiteOutcome] = []
        # By suite, with its number of rows. Drawing charts takes time, and most suites have not changed.
        self._shown: dict[str, tuple[int, page.Shown]] = {}
        self._folder = folder
        self._about: dict[str, Any] = {
            "begun": datetime.now().isoformat(timespec="seconds"),
            "options": asdict(options),
            "machine": records.described(),
        }

    def write_record(self) -> None:
        """Write bench.json: rows, failures and what was left out, by suite."""
        record = {**self._about, "suites": {one.suite.name: as_dict(one) for one in self.outcomes}}
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


def as_dict(outcome: SuiteOutcome) -> Mapping[str, Any]:
    """An outcome for JSON."""
    return {
        "planned": outcome.planned,
        "finished": outcome.finished,
        "seconds": outcome.seconds,
        "left_out": outcome.left_out,
        "failures": [asdict(one) for one in outcome.failures],
        "rows": [asdict(row) for row in outcome.rows],
    }


def tables_text(outcomes: Sequence[SuiteOutcome]) -> str:
    """The page's tables and failures as text for a terminal."""
    lines = []
    for outcome in outcomes:
        lines.append(f"== {outcome.suite.title}")
        for table in page.presented(outcome).tables:
            lines += [table.title, *aligned((table.head, *table.rows)), ""]
        lines += [f"failed: {one.label}: {one.why}" for one in outcome.failures]
    return "\n".join(lines)


def command(options: BenchOptions, results: Path, say: Say) -> tuple[str, bool]:
    """`bench page`: the tables for a terminal, and whether no case failed. Raises LabError."""
    done, folder = bench(options, results, say)
    return f"{tables_text(done)}\n\n{folder / PAGE}", not any(outcome.failures for outcome in done)
