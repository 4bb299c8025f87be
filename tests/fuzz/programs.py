# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Loads thousands of hostile programs into both engines.

``python -m fuzz.programs PROGRAM.json... --mutations 10000 --seed 1``. A mutated program must be refused
with its place, or load; then the code that both engines make of it is searched for text that got out of comments and
literals, the Python is compiled and runs frames, and the C of every 100th is given to the compiler. What else happens
is a finding: it ends the run with status 1, and prints the command that repeats it.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nativelib import NativeError, find_compiler
from softswitch.errors import UnsupportedProgramError
from softswitch.native.emit import emit_c
from softswitch.native.runtime_library import FOLDER
from softswitch.program import ir
from softswitch.program.load.program import load_program
from softswitch.python.emit import emit_program
from softswitch.python.engine import PythonMachine
from softswitch.runtime.impair import SplitMix

from fuzz.mutations import ATTACKS, MARKER, escapes_in_c, escapes_in_python, mutated, renamed

LARGE = 1 << 20  # characters: of such programs only a part is mutated, because each takes a second
LARGE_PART = 0.02
RENAMED_PART = 0.05  # of the programs that load: their intermediate form gets hostile names
MANY_CELLS = 1 << 18  # above, the state is not made: it would take the fuzzer's time
_PROGRESS = 500

Json = Any


@dataclass
class Outcomes:
    """``counts``: how programs ended. ``slowest``: seconds of processor time, and the number of the mutation."""

    counts: Counter[str] = field(default_factory=Counter)
    slowest: tuple[float, int] = (0.0, -1)
    compiled: int = 0


class FindingError(Exception):
    """A hostile program did something else than to load or to be refused."""


class ProgramFuzzer:
    """``programs``: texts by name. ``compile_every``: how many loaded programs there are to one that is compiled; 0
    for none. ``renamed_part``: of the programs that load, how many get hostile names in their intermediate form."""

    def __init__(
        self, programs: dict[str, str], seed: int, compile_every: int = 100, renamed_part: float = RENAMED_PART
    ) -> None:
        self._names = sorted(programs)
        self._large = [name for name in self._names if len(programs[name]) > LARGE]
        self._small = [name for name in self._names if name not in self._large]
        self._roots: dict[str, Json] = {name: json.loads(text) for name, text in programs.items()}
        self._seed = seed
        self._compile_every = compile_every
        self._renamed_part = renamed_part
        self._loaded = 0
        self.outcomes = Outcomes()

    def run(self, number: int) -> str:
        """Make and load mutation ``number``; return how it ended. Raises FindingError."""
        generator = random.Random(f"{self._seed}:{number}")
        large = self._large and (not self._small or generator.random() < LARGE_PART)
        name = generator.choice(self._large if large else self._small)
        root, done = mutated(self._roots[name], generator)
        started = time.process_time()
        try:
            ending = self._load(json.dumps(root), generator)
        except FindingError as error:
            raise FindingError(f"{name}, {'; '.join(done)}: {error}") from error
        except Exception as error:
            text = "".join(traceback.format_exception(error)[-3:])
            raise FindingError(f"{name}, {'; '.join(done)}: {text}") from error
        self.outcomes.slowest = max(self.outcomes.slowest, (time.process_time() - started, number))
        self.outcomes.counts[ending] += 1
        return ending

    def _load(self, text: str, generator: random.Random) -> str:
        try:
            program = load_program(text)
        except UnsupportedProgramError as error:
            _check_refusal(error)
            return "refused"
        if generator.random() < self._renamed_part:
            program = renamed(program, generator.choice(ATTACKS))
        endings = (self._python(program, generator), self._native(program))
        return "loaded" if endings == ("", "") else f"refused by {' and '.join(filter(None, endings))}"

    def _python(self, program: ir.Program, generator: random.Random) -> str:
        try:
            source = emit_program(program).source
            _check_escapes("Python", escapes_in_python(source), source)
            if _cells(program) > MANY_CELLS:
                return ""
            machine = PythonMachine(program, SplitMix(1), lambda: 0)
        except UnsupportedProgramError as error:
            _check_refusal(error)
            return "Python"
        for size in (0, 14, 60, 300):
            machine.process(generator.randrange(511), generator.randbytes(size))
        return ""

    def _native(self, program: ir.Program) -> str:
        try:
            source = emit_c(program).source
        except UnsupportedProgramError as error:
            _check_refusal(error)
            return "the native engine"
        if MARKER in source:
            _check_escapes("C", escapes_in_c(source), source)
        self._loaded += 1
        if self._compile_every and self._loaded % self._compile_every == 0:
            _compile(source)
            self.outcomes.compiled += 1
        return ""


def _cells(program: ir.Program) -> int:
    registers = sum(register.size for register in program.registers.values())
    return registers + sum(counter.size for counter in program.counters.values())


def _check_refusal(error: UnsupportedProgramError) -> None:
    text = str(error)
    if text.startswith("the program is not a bmv2 JSON: "):
        return  # all of it is wrong
    if not error.place or not text.startswith(error.place):
        raise FindingError(f"a refusal without its place: {text[:500]}")
    if not text.isprintable() or len(text) > 6000:
        raise FindingError(f"a refusal that is not one line of text: {text[:500]!a}")


def _check_escapes(language: str, lines: list[int], source: str) -> None:
    if lines:
        near = source.splitlines()[max(0, lines[0] - 1) : lines[0] + 2]
        raise FindingError(f"text escaped in {language}, line {lines[0]}: {ascii(near)[:500]}")


def _compile(source: str) -> None:
    """Check the C by the compiler."""
    with tempfile.TemporaryDirectory(prefix="softswitch-fuzz-") as folder:
        file = Path(folder) / "program.c"
        file.write_text(source)
        command = [*find_compiler(wide_bitint=True).command, "-fsyntax-only", f"-I{FOLDER}", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise FindingError(f"the C does not compile: {done.stderr[:1000]}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.programs", description=__doc__)
    parser.add_argument("programs", nargs="+", type=Path, help="bmv2 JSON to start from")
    parser.add_argument("--mutations", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="repeat the mutation of this number")
    parser.add_argument("--compile-every", type=int, default=100, help="0 compiles none")
    options = parser.parse_args(arguments)
    texts = {str(path): path.read_text() for path in options.programs}
    try:
        compile_every = options.compile_every if options.compile_every and find_compiler(wide_bitint=True) else 0
    except NativeError as error:
        sys.stderr.write(f"fuzz: no C is compiled: {error}\n")
        compile_every = 0
    fuzzer = ProgramFuzzer(texts, options.seed, 1 if options.only is not None and compile_every else compile_every)
    numbers = range(options.mutations) if options.only is None else [options.only]
    for number in numbers:
        try:
            fuzzer.run(number)
        except FindingError as error:
            again = f"--seed {options.seed} --only {number}"
            files = " ".join(map(str, options.programs))
            sys.stderr.write(f"fuzz: {error}\nfuzz: repeat it: python -m fuzz.programs {files} {again}\n")
            return 1
        if number % _PROGRESS == _PROGRESS - 1:
            sys.stderr.write(f"fuzz: {number + 1} of {len(numbers)} programs\n")
    outcomes = fuzzer.outcomes
    endings = ", ".join(f"{count} {ending}" for ending, count in outcomes.counts.most_common())
    seconds, slowest = outcomes.slowest
    sys.stdout.write(
        f"{len(numbers)} hostile programs: {endings}; {outcomes.compiled} compiled as C; 0 escapes, 0 crashes; the"
        f" slowest, number {slowest}, took {seconds:.1f} s\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
