# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A study: a grid of cases, the worker that measures a case, typed columns and, for promised values, bounds.

    from sumwire_lab.study.study import Column, Study, grid

    def measure(case):
        return {"seconds": ...}

    study = Study("speed", "How fast it is", grid(codec=["thc", "sign"], seed=[1, 2, 3]), measure, (Column("seconds"),))

`sumwire-lab study FILE` runs it. `make run`, the benchmarks and the verify commands are studies too. Each case leaves a
record in RESULTS/NAME/records.jsonl, and a study that was stopped continues where it stopped.
"""

from __future__ import annotations

import importlib.util
import inspect
import itertools
import os
import re
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Literal

from nativelib import programs

from sumwire_lab.errors import LabError, OptionError
from sumwire_lab.options.plain import to_json
from sumwire_lab.study import figures, records, workers
from sumwire_lab.study.check import Check
from sumwire_lab.study.experiment import Say, interruptible
from sumwire_lab.study.figures import Figure, Interval
from sumwire_lab.study.records import Book, LoadMeter, Record, key_of, label_of
from sumwire_lab.system.processes import last_lines

TABLE: Final = "table.txt"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,60}")
_TICK_S: Final = 0.5
_LINE_S: Final = 10.0
_LOG_LINES: Final = 20
NOT_DONE: Final = "not done after"
"""How the error of a case begins that was killed after its limit."""
_ALONE: Final = ("--net", "--pid", "--mount-proc", "--fork", "--kill-child=SIGKILL", "--")


@dataclass(frozen=True)
class Column:
    """One value of a row. ``kind``: float, int, str, bool, or object for any JSON value. None is always allowed, for a
    value that could not be measured. ``form``: its number format in a table."""

    name: str
    meaning: str = ""
    unit: str = ""
    kind: type = float
    form: str = ".4g"

    @property
    def head(self) -> str:
        """The column's heading in a table."""
        return f"{self.name} ({self.unit})" if self.unit else self.name

    def check(self, row: Mapping[str, Any]) -> None:
        """Raise LabError if the row lacks the column, or has a value of another kind in it."""
        if self.name not in row:
            raise LabError(
                f"the worker returned no {self.name!r}, only {', '.join(row) or 'nothing'}: return every column"
            )
        value = row[self.name]
        right = value is None or self.kind is object or isinstance(value, self.kind)
        if self.kind is float:
            right = value is None or (isinstance(value, int | float) and not isinstance(value, bool))
        if not right:
            raise LabError(f"the worker returned {self.name}={value!r}: must be {self.kind.__name__}, or None")


@dataclass(frozen=True)
class Context:
    """What a worker may use besides its case: a separate folder, and a function that reports its progress."""

    folder: Path
    say: Say


@dataclass(frozen=True)
class Study:
    """A study. ``worker(case)`` or ``worker(case, context)`` returns the columns of a case, or a list of such rows. In
    a child the context is a :class:`sumwire_lab.study.workers.Rank`.

    ``cases`` are mappings or frozen dataclasses of JSON's types, as :func:`grid` makes them.
    """

    name: str
    what: str
    """One line: what the study asks."""
    cases: Sequence[Any]
    worker: Callable[..., Any]
    columns: Sequence[Column] = ()
    bounds: Callable[[StudyResults], Sequence[Check]] | None = None
    """From all results to checks with targets."""
    figures: Sequence[Figure] = ()
    place: Literal["here", "child", "alone"] = "here"
    """Where the worker runs: in this process; in a process of its own; or in one with a network of its own, as root."""
    parallel: int = 1
    """Cases that run side by side, each in a child. With 1 the cases of a seed run in turn, then those of the next
    seed, so that what disturbs the machine for a while disturbs all alike. Use more only where no time is measured."""
    seed: str = "seed"
    """The option that repeats a case: medians are taken over its values."""
    lines: Sequence[str] = ()
    """Options and columns of which a table has a line for each combination; default: the options that differ."""
    deadline_s: float | Callable[[Any], float] = 3600.0
    """Of one case in a child, or a function that tells it of a case."""
    stops: bool = False
    """Whether an error of a case is raised, after it was recorded, instead of going on with the next case."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise OptionError(f"study {self.name!r}: a name has small letters, digits and -, as loss-sweep")
        if not self.cases:
            raise OptionError(f"study {self.name}: has no cases; give at least one")
        if self.parallel < 1 or (self.parallel > 1 and self.place == "here"):
            rule = "cases side by side are children: place='child' and parallel of 1 or more"
            raise OptionError(f"study {self.name}: parallel={self.parallel}, place={self.place}: {rule}")
        known: set[str] = set()
        for case in self.cases:
            if key_of(case) in known:
                raise OptionError(f"study {self.name}: case {label_of(case)}: each at most once")
            known.add(key_of(case))

    def limit_s(self, case: Any) -> float:
        """Return the seconds after which a case in a child process is killed."""
        return self.deadline_s(case) if callable(self.deadline_s) else self.deadline_s

    @property
    def in_turns(self) -> list[Any]:
        """All cases, beginning with those of the first seed."""
        seeds: dict[Any, int] = {}
        order = [seeds.setdefault(str(to_json(case).get(self.seed)), len(seeds)) for case in self.cases]
        return [self.cases[k] for k in sorted(range(len(self.cases)), key=lambda k: order[k])]

    def options(self) -> list[str]:
        """Return the options that distinguish the lines of a table: the study's own choice, or else the options in
        which cases differ, without the seed."""
        if self.lines:
            return list(self.lines)
        cases = [records.flat(to_json(case)) for case in self.cases]
        names = list(dict.fromkeys(name for case in cases for name in case))
        differing = [name for name in names if any(case.get(name) != cases[0].get(name) for case in cases)]
        return [name for name in differing if name != self.seed] or names[:1]


def grid(**options: Iterable[Any]) -> list[dict[str, Any]]:
    """Return every combination of the options' values; the last option changes fastest."""
    values = [list(one) for one in options.values()]
    return [dict(zip(options, chosen, strict=True)) for chosen in itertools.product(*values)]


@dataclass
class StudyResults:
    """The records of a study's cases so far, in the order of the cases."""

    study: Study
    records: list[Record] = field(default_factory=list)

    def rows(self, **options: Any) -> list[dict[str, Any]]:
        """Return rows that contain the options of their cases, only for cases with these option values."""
        found = records.rows_of(self.records)
        return [row for row in found if all(row.get(name) == value for name, value in options.items())]

    def values(self, column: str, **options: Any) -> list[float]:
        """Return a column's values over the rows with these options, without values that could not be measured."""
        return figures.numbers(self.rows(**options), column)

    def median(self, column: str, **options: Any) -> Interval | None:
        """Return the column's median with an interval; None without values."""
        values = self.values(column, **options)
        return figures.interval(values) if values else None

    def value(self, column: str, **options: Any) -> float | None:
        """Return the column's median; None without values."""
        found = self.median(column, **options)
        return None if found is None else found.median

    @property
    def failed(self) -> list[Record]:
        """The cases that raised an error."""
        return [record for record in self.records if record.error is not None]

    def checks(self) -> list[Check]:
        """Return the study's bounds, compared with what was measured."""
        return [] if self.study.bounds is None else list(self.study.bounds(self))

    def table(self) -> str:
        """Return a line for each case, with medians over its seeds and intervals; then the cases that failed."""
        by = self.study.options()
        shown = [(one.name, one.head, one.form) for one in self.study.columns if one.name not in by]
        rows = self.rows()
        lines = [figures.table(rows, by, shown)] if rows else []
        lines += [f"failed: {label_of(one.case)}: {(one.error or '').splitlines()[-1]}" for one in self.failed]
        return "\n".join(lines)


def run(
    study: Study,
    results: Path,
    say: Say,
    *,
    again: bool | None = False,
    after_each: Callable[[StudyResults], None] = lambda _: None,
    folder: Path | None = None,
) -> StudyResults:
    """Measure the cases that have no record of this program yet; with ``again`` all cases. ``again=None``: all cases if
    none is left. So a study that was stopped continues, and a complete one is measured again.

    Writes a record after each case, then `table.txt` and the figures, to ``folder``, RESULTS/NAME if it is None. A case
    that fails is recorded, and the next one runs. Raises OptionError for a folder that cannot be used, and
    KeyboardInterrupt; the measurements so far are kept.
    """
    folder = results / study.name if folder is None else folder
    book = Book.open(folder)
    version = records.code_of(study.worker), records.commit()
    found = {} if again else _recorded(study, book, version)
    if again is None and len(found) == len(study.cases):
        found = {}
    todo = [case for case in study.in_turns if key_of(case) not in found]
    if found:
        say(f"{study.name}: {len(found)} of {len(study.cases)} cases are recorded already")
    progress = Progress(study.name, len(todo), say)
    measure = _here if study.place == "here" else _in_children

    def done() -> StudyResults:
        return StudyResults(study, [found[key_of(case)] for case in study.cases if key_of(case) in found])

    try:
        with interruptible():
            for case, outcome in measure(study, todo, folder, progress):
                record = outcome.record(case, version)
                book.add(record)
                found[record.key] = record
                progress.done(case, outcome)
                after_each(done())
                if study.stops and outcome.raised is not None:
                    raise outcome.raised
    finally:
        _show(done(), folder)
    return done()


def _recorded(study: Study, book: Book, version: tuple[str, str]) -> dict[str, Record]:
    """The records that stand for cases of the study."""
    latest = ((key_of(case), book.found(key_of(case), *version)) for case in study.cases)
    return {key: record for key, record in latest if record is not None}


def _show(done: StudyResults, folder: Path) -> None:
    """Write the table and the figures of what there is."""
    (folder / TABLE).write_text(done.table() + "\n")
    for number, figure in enumerate(done.study.figures, start=1):
        if rows := done.rows():
            name = done.study.name if len(done.study.figures) == 1 else f"{done.study.name}-{number}"
            figures.draw(figure, rows, folder / f"{name}.svg")


class Progress:
    """Reports which case runs and how long the rest may take, again every ten seconds while it runs."""

    def __init__(self, name: str, cases: int, say: Say) -> None:
        self.say = say
        self._name, self._cases = name, cases
        self._began = time.monotonic()
        self._done = 0

    def begins(self, number: int, case: Any) -> None:
        """Report that the case of this number, from 0, begins."""
        spent = time.monotonic() - self._began
        left = (
            f", some {spent / self._done * (self._cases - self._done):.0f} s left" if self._done and spent > 1 else ""
        )
        self.say(f"{self._name} {number + 1}/{self._cases}{left}: {label_of(case)}")

    def still(self, case: Any, seconds: float) -> None:
        """Report that a case has run for `seconds`."""
        self.say(f"{self._name}: {label_of(case)}: {seconds:.0f} s so far")

    def done(self, case: Any, outcome: CaseOutcome) -> None:
        """Report that a case has ended."""
        self._done += 1
        if outcome.error is not None:
            self.say(f"{self._name}: {label_of(case)} failed: {outcome.error.splitlines()[-1]}")


@dataclass
class CaseOutcome:
    """The outcome of a case."""

    rows: list[dict[str, Any]]
    error: str | None
    seconds: float
    at: str
    load: Mapping[str, float]
    raised: Exception | None = None
    """The error itself, of a case in this process."""

    def record(self, case: Any, version: tuple[str, str]) -> Record:
        """Return the record that the book keeps."""
        return Record(
            to_json(case), self.rows, self.error, self.seconds, self.at, *version, records.machine(), self.load
        )


class _Stopwatch:
    """Measures one case: when it began, how long it takes, and the machine's load meanwhile."""

    def __init__(self) -> None:
        self.at, self.began, self._meter = records.now(), time.monotonic(), LoadMeter()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def outcome(self, study: Study, answer: Any = None, error: str | None = None) -> CaseOutcome:
        rows: list[dict[str, Any]] = []
        if error is None:
            try:
                rows = _rows(study, answer)
            except (LabError, TypeError) as wrong:
                error = str(wrong)
        return CaseOutcome(rows, error, self.seconds, self.at, self._meter.load())


def _rows(study: Study, answer: Any) -> list[dict[str, Any]]:
    """The worker's answer as rows that have every column. Raises LabError, TypeError."""
    plain = to_json(answer)
    rows = [plain] if isinstance(plain, dict) else plain
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise LabError(f"the worker returned {type(answer).__name__}: must be a mapping by column, or a list of them")
    for row in rows:
        for column in study.columns:
            column.check(row)
    return rows


Measured = Iterator[tuple[Any, CaseOutcome]]


def place_of(folder: Path, case: Any) -> Path:
    """Return the folder of a case's logs and files."""
    words = re.sub(r"[^A-Za-z0-9.=-]+", "_", label_of(case))[:80].strip("_")
    return folder / "cases" / (words or "case")


def _here(study: Study, cases: Sequence[Any], folder: Path, progress: Progress) -> Measured:
    """Cases in this process, one after the other."""
    wants_context = len(inspect.signature(study.worker).parameters) > 1
    for number, case in enumerate(cases):
        progress.begins(number, case)
        watch = _Stopwatch()
        more = (Context(place_of(folder, case), progress.say),) if wants_context else ()
        try:
            answer = study.worker(case, *more)
        except Exception as error:  # noqa: BLE001 - a mistake in one case must not lose the others
            told = str(error) if isinstance(error, LabError) else traceback.format_exc()
            yield case, replace(watch.outcome(study, error=told), raised=error)
        else:
            yield case, watch.outcome(study, answer)


@dataclass
class _Running:
    case: Any
    folder: Path
    process: subprocess.Popen[bytes]
    pidfd: int
    watch: _Stopwatch
    said_s: float = 0.0

    @property
    def log(self) -> Path:
        return self.folder / "worker.log"

    def ended(self, study: Study) -> CaseOutcome:
        """After its end."""
        code = self.process.wait()
        if code == 0:
            return self.watch.outcome(study, workers.answer_in(self.folder))
        limit = study.limit_s(self.case)
        why = f"{NOT_DONE} {limit:g} s" if self.watch.seconds >= limit else f"ended with {code}"
        return self.watch.outcome(study, error=f"{why}; {self.log} ends:\n{last_lines(self.log, _LOG_LINES)}")


def _in_children(study: Study, cases: Sequence[Any], folder: Path, progress: Progress) -> Measured:
    """Cases in processes of their own, so many side by side; each has a session of its own, so that Ctrl-C reaches
    this program alone, which then kills them."""
    waiting, number = list(cases), 0
    with _killed_after() as running:
        while waiting or running:
            while waiting and len(running) < study.parallel:
                case = waiting.pop(0)
                progress.begins(number, case)
                number += 1
                running.append(_started(study, case, place_of(folder, case)))
            select.select([one.pidfd for one in running], [], [], _TICK_S)
            for one in list(running):
                if one.watch.seconds >= study.limit_s(one.case):
                    _kill(one)
                if one.process.poll() is not None:
                    running.remove(one)
                    os.close(one.pidfd)
                    yield one.case, one.ended(study)
                elif one.watch.seconds - one.said_s >= _LINE_S * study.parallel:
                    one.said_s = one.watch.seconds
                    progress.still(one.case, one.said_s)


def _started(study: Study, case: Any, folder: Path) -> _Running:
    call = workers.WorkerCall(workers.name_of(study.worker), to_json(case), str(folder))
    command = workers.command_of(call)
    watch = _Stopwatch()
    prefix = [programs.program("unshare"), *_ALONE] if study.place == "alone" else []
    process = workers.started([*prefix, *command], folder / "worker.log", start_new_session=True)
    return _Running(case, folder, process, os.pidfd_open(process.pid), watch)


@contextmanager
def _killed_after() -> Iterator[list[_Running]]:
    running: list[_Running] = []
    try:
        yield running
    finally:
        for one in running:
            _kill(one)
            os.close(one.pidfd)


def _kill(one: _Running) -> None:
    """End a child and what it has started."""
    if one.process.poll() is None:
        os.killpg(one.process.pid, signal.SIGKILL)
        one.process.wait()


# -- a study in a file of a user's own -----------------------------------------------------------------


def load(path: Path) -> Study:
    """Load the study named `study` in a Python file. Raises OptionError with the line of a mistake in the file."""
    found = getattr(_module(path), "study", None)
    if not isinstance(found, Study):
        rule = "must have a Study under the name `study`, as study = Study(name=..., cases=..., worker=...)"
        raise OptionError(f"{path}: {rule}")
    return found


def _module(path: Path) -> ModuleType:
    if not path.is_file():
        raise OptionError(f"{path}: there is no such file; name a study, as my_study.py or grid.yaml")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise OptionError(f"{path}: must be a Python file, NAME.py, or a grid, NAME.yaml")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and workers' children look their module up by name.
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except OptionError as error:
        raise OptionError(f"{path}:{_line(error, path)}: {error}") from error
    except Exception as error:
        raise OptionError(f"{path}:{_line(error, path)}: {type(error).__name__}: {error}") from error
    return module


def _line(error: Exception, path: Path) -> int:
    """The last line of the file that the error came through."""
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return error.lineno
    frames = traceback.extract_tb(error.__traceback__)
    return next((one.lineno or 1 for one in reversed(frames) if one.filename == str(path)), 1)
