# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Generated programs mean the same in both engines, and what the intermediate form says they mean.

A program's number is its seed. ``--differential-programs N`` compiles more of them, ``--differential-first N`` starts
elsewhere; a failure prints the program made smaller.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from differential.draws import Draws
from differential.duel import Contestant, DifferenceError, EngineContestant, ReferenceContestant, duel
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


def contestants(program: ir.Program, engines: Sequence[EngineChoice]) -> list[Contestant]:
    return [*(EngineContestant(program, engine) for engine in engines), ReferenceContestant(program)]


def compare(number: int, engines: Sequence[EngineChoice]) -> None:
    program = make_program(number)
    happening = EventMaker(Draws(number), program).events(PACKETS)
    try:
        duel(contestants(program, engines), happening)
    except DifferenceError:
        _explain(number, program, happening, engines)
        raise


def _explain(number: int, program: ir.Program, happening: list[Event], engines: Sequence[EngineChoice]) -> None:
    """Raises DifferenceError for a smaller program, with all that is in it."""

    def fails(program: ir.Program, happening: list[Event]) -> bool:
        try:
            duel(contestants(program, engines), happening)
        except DifferenceError:
            return True
        except Exception:  # noqa: BLE001 - made smaller, it may be no program at all
            return False
        return False

    program, happening = shrink(program, happening, fails, SHRINK_S)
    try:
        duel(contestants(program, engines), happening)
    except DifferenceError as difference:
        events = "\n".join(map(str, happening))
        raise DifferenceError(f"program {number}, smaller:\n{listing(program)}\n{events}\n{difference}", 0) from None


@pytest.mark.cc
def test_both_engines(number: int) -> None:
    compare(number, ["python", "native"])


@pytest.mark.parametrize("block", range(4))
def test_python_engine(block: int, pytestconfig: pytest.Config) -> None:
    """Programs of its own: nothing has to be compiled for these."""
    count = pytestconfig.getoption("--differential-programs")
    start = 1_000_000 + pytestconfig.getoption("--differential-first") + block * count
    for number in range(start, start + count):
        compare(number, ["python"])
