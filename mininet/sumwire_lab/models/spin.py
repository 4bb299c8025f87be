# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One search of Spin: it makes a C program of a model, which looks at every state that the model can reach."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from sumwire_lab.errors import LabError, MissingToolError

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
    """``violated``: what does not hold, or ''. ``steps``: how that comes about, in the model's words."""

    violated: str
    steps: tuple[str, ...]
    states: int
    depth: int
    memory_mib: float
    seconds: float


def check_tools() -> None:
    """Raises MissingToolError, which names the Debian packages."""
    packages = [package for program, package in _NEEDED.items() if shutil.which(program) is None]
    if packages:
        raise MissingToolError(
            f"not on PATH: {', '.join(packages)}; install Debian's packages: apt-get install {' '.join(packages)}"
        )


class Searches:
    """Searches that can be stopped together. For threads."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def stop(self) -> None:
        """End all that runs, and let nothing begin."""
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
