# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Generated programs do the same in both engines and in the interpreter.

A program's number is its seed. ``--differential-programs N`` compiles more of them, ``--differential-first N`` starts
elsewhere; a failure prints a smaller program that fails too.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from differential.comparison import DifferenceError, EngineRunner, ReferenceRunner, Runner, run_and_compare
from differential.draws import Draws
from differential.events import Event, EventMaker
from differential.programs import make_program
from differential.shrink import listing, shrink
from softswitch.program import ir
from softswitch.switch import EngineChoice

PACKETS = 120
SHRINK_S = 40.0


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
def test_both_engines(number: int) -> None:
    compare(number, ["python", "native"])


@pytest.mark.parametrize("block", [0, 1, 2, pytest.param(3, marks=pytest.mark.long)])
def test_python_engine(block: int, pytestconfig: pytest.Config) -> None:
    """More programs, without the native engine: they need no compilation."""
    count = pytestconfig.getoption("--differential-programs")
    start = 1_000_000 + pytestconfig.getoption("--differential-first") + block * count
    for number in range(start, start + count):
        compare(number, ["python"])
