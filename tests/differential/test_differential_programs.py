# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Generated programs, the test programs and the project's own do the same in both engines and in the interpreter.

A generated program's number is its seed. ``--differential-programs N`` compiles more, ``--differential-first N`` starts
elsewhere; a failure prints a smaller program that fails too.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from differential.comparison import DifferenceError, EngineRunner, ReferenceRunner, Runner, run_and_compare
from differential.draws import Draws
from differential.events import Event, EventMaker, event
from differential.frames import damaged, make_frame
from differential.programs import make_program
from differential.shrink import listing, shrink
from differential.star_state import Frames, star_switch, writes
from helpers.paths import ROOT
from softswitch.program import ir
from softswitch.program.load.program import load_program
from softswitch.switch import EngineChoice, SoftSwitch

PACKETS = 120
SHRINK_S = 40.0
PROGRAMS = {path.stem: path for path in sorted((ROOT / "tests/helpers/softswitch/programs").glob("*.json"))
            if path.stem != "sources"}  # fmt: skip


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    first = metafunc.config.getoption("--differential-first")
    count = metafunc.config.getoption("--differential-programs")
    if "number" in metafunc.fixturenames:
        metafunc.parametrize("number", range(first, first + count))


def runners(program: ir.Program, engines: Sequence[EngineChoice]) -> list[Runner]:
    return [*(EngineRunner(program, engine) for engine in engines), ReferenceRunner(program)]


def compare(number: int, engines: Sequence[EngineChoice]) -> None:
    program = make_program(number)
    sequence = EventMaker(Draws(number), program).events(PACKETS)
    try:
        run_and_compare(runners(program, engines), sequence)
    except DifferenceError:
        _explain(number, program, sequence, engines)
        raise


def _explain(number: int, program: ir.Program, sequence: list[Event], engines: Sequence[EngineChoice]) -> None:
    """Raises DifferenceError that prints a smaller program and its events."""

    def fails(program: ir.Program, sequence: list[Event]) -> bool:
        try:
            run_and_compare(runners(program, engines), sequence)
        except DifferenceError:
            return True
        except Exception:  # noqa: BLE001 - made smaller, it may be no program at all
            return False
        return False

    program, sequence = shrink(program, sequence, fails, SHRINK_S)
    try:
        run_and_compare(runners(program, engines), sequence)
    except DifferenceError as difference:
        events = "\n".join(map(str, sequence))
        raise DifferenceError(f"program {number}, smaller:\n{listing(program)}\n{events}\n{difference}", 0) from None


@pytest.mark.cc
@pytest.mark.few(6)
def test_both_engines(number: int) -> None:
    compare(number, ["python", "native"])


@pytest.mark.parametrize("block", [0, 1, 2, pytest.param(3, marks=pytest.mark.long)])
@pytest.mark.few(1)
def test_python_engine(block: int, pytestconfig: pytest.Config) -> None:
    """More programs, without the native engine: they need no compilation."""
    count = pytestconfig.getoption("--differential-programs")
    start = 1_000_000 + pytestconfig.getoption("--differential-first") + block * count
    for number in range(start, start + count):
        compare(number, ["python"])


# -- committed programs, with random entries -------------------------------------------------------------


@pytest.fixture(scope="module")
def star() -> tuple[SoftSwitch, Frames]:
    return star_switch()


def ran(program: ir.Program, sequence: list[Event]) -> int:
    return run_and_compare(runners(program, ["python", "native"]), sequence)


@pytest.mark.cc
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("seed", [1, 2])
def test_test_programs(name: str, seed: int) -> None:
    program = load_program(PROGRAMS[name].read_text())
    draws = Draws(seed)
    maker = EventMaker(draws, program, lambda: (draws.one([1, 3]), make_frame(draws, program)))
    assert ran(program, maker.events(150)) > 0


@pytest.mark.cc
def test_jobs_of_the_star(star: tuple[SoftSwitch, Frames]) -> None:
    """Packets of every op, kind and job: whole rounds, then damaged packets."""
    switch, frames = star
    draws = Draws(3)
    sequence = writes(switch) + [event("process", port, frame) for port, frame in frames]
    sequence += [event("process", port, damaged(draws, frame)) for port, frame in draws.some(frames, 80, 80)]
    assert ran(switch.loaded.program, sequence) > len(frames) // 4


@pytest.mark.cc
def test_jobs_of_the_star_while_tables_change(star: tuple[SoftSwitch, Frames]) -> None:
    switch, frames = star
    draws = Draws(1)

    def frame() -> tuple[int, bytes]:
        port, chosen = draws.one(frames)
        return port, damaged(draws, chosen)

    program = switch.loaded.program
    ran(program, writes(switch) + EventMaker(Draws(51), program, frame).events(120))
