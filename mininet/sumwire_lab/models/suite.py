# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Runs searches of Spin: it compiles a model to a C program, which visits every state that the model can reach."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

from sumwire_lab.errors import LabError, MissingToolError, OptionError
from sumwire_lab.models.catalogue import MODELS, PromelaModel

FOLDER: Final = Path(__file__).resolve().parents[3] / "models"
MEMORY_MIB: Final = 4000
_DEPTH: Final = 1_000_000
_NEEDED: Final = {"spin": "spin", "gcc": "gcc"}
# The models' own lines: a step, as "@ arrive 0 2", and a property that does not hold, as "! no slot is stuck".
_STEP: Final = re.compile(r"^ *@ (.*)$", re.MULTILINE)
_PROPERTY: Final = re.compile(r"^ *! (.*)$", re.MULTILINE)
# Spin's own words for other errors.
_ERROR: Final = re.compile(r"^pan:1: (.*) \(at depth", re.MULTILINE)
_INCOMPLETE: Final = ("Search not completed", "max search depth too small", "out of memory")


class Search(Enum):
    """The options of gcc and of the program it makes."""

    # Assertions and states without a way on, depth first.
    STATES = ("-DSAFETY -DNOREDUCE", "")
    # That every schedule ends: with no step that counts as progress, each cycle of states would be an error.
    CYCLES = ("-DNP -DNOREDUCE", "-l")
    # Assertions and states without a way on, breadth first: the shortest counterexample.
    SHORTEST = ("-DSAFETY -DNOREDUCE -DBFS", "")


@dataclass(frozen=True)
class SearchResult:
    """The result of a search. ``violated``: the property that does not hold, or ''. ``steps``: how the violation comes
    about, in the model's words."""

    violated: str
    steps: tuple[str, ...]
    states: int
    depth: int
    memory_mib: float
    seconds: float


def check_tools() -> None:
    """Check for the tools. Raises MissingToolError, which names Debian packages."""
    packages = [package for program, package in _NEEDED.items() if shutil.which(program) is None]
    if packages:
        raise MissingToolError(
            f"not on PATH: {', '.join(packages)}; install Debian's packages: apt-get install {' '.join(packages)}"
        )


class Searches:
    """Searches in several threads that can be stopped together."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def stop(self) -> None:
        """End all searches under way, and let no other begin."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                # With what gcc has started.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def run(self, model: str, defines: Sequence[str], search: Search) -> SearchResult:
        """Search a model of the folder models/. Raises LabError if that is not possible, or not exhaustive."""
        source, macros = FOLDER / f"{model}.pml", [f"-D{each}" for each in defines]
        compile_options, options = search.value
        with tempfile.TemporaryDirectory(prefix="sumwire-models-") as name:
            folder = Path(name)
            self._call(["spin", "-a", *macros, str(source)], folder)
            bound = f"-DMEMLIM={MEMORY_MIB}"
            self._call(["gcc", "-O1", "-w", *compile_options.split(), bound, "-o", "pan", "pan.c"], folder)
            text = self._call(["./pan", f"-m{_DEPTH}", *options.split()], folder)
            trails = sorted(folder.glob("*.trail"))
            steps = self._call(["spin", "-k", str(trails[0]), *macros, str(source)], folder) if trails else ""
        return _read(text, steps, f"{model} {' '.join(defines)}".strip())

    def _call(self, command: list[str], folder: Path) -> str:
        with self._lock:
            if self._stopped:
                raise LabError("the searches were stopped")
            process = subprocess.Popen(
                command,
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            self._running.add(process)
        try:
            text, _ = process.communicate()
        finally:
            with self._lock:
                self._running.discard(process)
        # Spin ends with 1 when a schedule it repeats violates an assertion.
        if process.returncode and "-k" not in command:
            raise LabError(f"{' '.join(command)} ended with {process.returncode}: {text[-500:]}")
        return text


def _read(text: str, steps: str, what: str) -> SearchResult:
    violated = _PROPERTY.search(steps) or _ERROR.search(text)
    errors = _number(r"errors: (\d+)", text, what)
    if not errors and (why := next((each for each in _INCOMPLETE if each in text), None)):
        raise LabError(f"{what}: {why}: make the model smaller, or give it more memory")
    return SearchResult(
        violated=violated[1] if violated else "an error that Spin does not name" if errors else "",
        steps=tuple(_STEP.findall(steps)),
        states=int(_number(r"([\d.e+]+) states, stored", text, what)),
        depth=int(_number(r"depth reached (\d+)", text, what)),
        memory_mib=_number(r"([\d.]+)\ttotal actual memory usage", text, what),
        seconds=_number(r"elapsed time ([\d.]+) seconds", text, what),
    )


def _number(pattern: str, text: str, what: str) -> float:
    found = re.search(pattern, text)
    if found is None:
        raise LabError(f"{what}: Spin did not say {pattern!r}: {text[-500:]}")
    return float(found[1])


@dataclass(frozen=True)
class SearchTask:
    """One search. ``rule``: the rule that is removed, '' for none. ``about``: the subject of the search, in words."""

    model: str
    rule: str
    about: str
    defines: tuple[str, ...]
    search: Search

    @property
    def label(self) -> str:
        """Name of the search in tables and progress lines."""
        return f"{self.model}, without {self.rule}" if self.rule else f"{self.model}, {self.about}"


@dataclass(frozen=True)
class SearchOutcome:
    """The outcome of a search. ``holds``: a complete model has no error, or one without a rule has one."""

    task: SearchTask
    found: SearchResult

    @property
    def holds(self) -> bool:
        """Whether the outcome is the expected one."""
        return bool(self.found.violated) == bool(self.task.rule)

    def as_dict(self) -> dict[str, Any]:
        """Return the outcome as the JSON file has it."""
        task = self.task
        return {
            "model": task.model, "rule": task.rule, "about": task.about, "defines": list(task.defines),
            "search": task.search.name.lower(), "holds": self.holds, **asdict(self.found),
        }  # fmt: skip


def tasks(names: Sequence[str] = ()) -> list[SearchTask]:
    """Return the searches of the named models, or of all models. Raises OptionError."""
    known = {model.name: model for model in MODELS}
    if unknown := set(names) - set(known):
        raise OptionError(f"--only {','.join(sorted(unknown))}: known are {', '.join(known)}")
    return [task for name in names or known for task in _tasks(known[name])]


def _tasks(model: PromelaModel) -> list[SearchTask]:
    whole = [
        SearchTask(
            model.name, "", setting.about + ("" if search is Search.STATES else ", no cycle"), setting.defines, search
        )
        for setting in model.settings
        for search in (Search.STATES, Search.CYCLES)
        if search is Search.STATES or setting.ends
    ]
    without = [
        SearchTask(model.name, rule.name, rule.about, (f"WITHOUT_{rule.name}", *rule.defines), Search.SHORTEST)
        for rule in model.rules
    ]
    return whole + without


def carry_out(chosen: Sequence[SearchTask], say: Callable[[str], None]) -> list[SearchOutcome]:
    """Run the searches, as many at a time as there are cores. Raises LabError. After Ctrl-C none is left running."""
    check_tools()
    searches, done = Searches(), []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            futures = {pool.submit(searches.run, task.model, task.defines, task.search): task for task in chosen}
            for future in as_completed(futures):
                outcome = SearchOutcome(futures[future], future.result())
                done.append(outcome)
                word = "as it must be" if outcome.holds else "WRONG"
                say(f"{len(done)}/{len(chosen)} {outcome.task.label}: {outcome.found.states} states, {word}")
        finally:
            searches.stop()
            pool.shutdown(cancel_futures=True)
    return sorted(done, key=lambda outcome: chosen.index(outcome.task))


def table(done: Sequence[SearchOutcome]) -> str:
    """Return two tables: the complete models, and the counterexamples without each rule."""
    whole = [outcome for outcome in done if not outcome.task.rule]
    without = [outcome for outcome in done if outcome.task.rule]
    lines = []
    if whole:
        lines.append("         states  depth     MiB  seconds  model")
        lines += [_line(outcome, outcome.task.label) for outcome in whole]
    if without:
        lines += ["", "         states  steps     MiB  seconds  without the rule"]
        for outcome in without:
            why = outcome.found.violated or "NO COUNTEREXAMPLE"
            lines.append(_line(outcome, f"{outcome.task.model} {outcome.task.rule}: {outcome.task.about}: {why[:60]}"))
    wrong = [outcome.task.label for outcome in done if not outcome.holds]
    lines += ["", f"{len(done) - len(wrong)} of {len(done)} searches as they must be"]
    lines += [f"WRONG: {label}" for label in wrong]
    return "\n".join(lines)


def _line(outcome: SearchOutcome, label: str) -> str:
    found = outcome.found
    length = len(found.steps) if outcome.task.rule else found.depth
    word = "ok" if outcome.holds else "WRONG"
    return f"{word:<5} {found.states:>9} {length:>6} {found.memory_mib:>7.0f} {found.seconds:>8.2f}  {label}"


def search(names: Sequence[str], record: Path | None, say: Callable[[str], None]) -> list[SearchOutcome]:
    """Search the named models, or all, and write the record (JSON). Raises LabError, OptionError, KeyboardInterrupt."""
    done = carry_out(tasks(names), say)
    if record is not None:
        record.parent.mkdir(parents=True, exist_ok=True)
        rows = [outcome.as_dict() for outcome in done]
        held = all(outcome.holds for outcome in done)
        record.write_text(json.dumps({"holds": held, "searches": rows}, indent=1) + "\n")
    return done
