# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The project's own P4 program and the test programs, through both engines and the interpreter, with random entries."""

from __future__ import annotations

import pytest
from differential.comparison import EngineRunner, ReferenceRunner, run_and_compare
from differential.draws import Draws
from differential.events import Event, EventMaker, PacketIn
from differential.frames import damaged, make_frame
from differential.star_state import Frames, star_switch, writes
from helpers.paths import ROOT
from softswitch.program import ir
from softswitch.program.load.program import load_program
from softswitch.switch import SoftSwitch

PROGRAMS = {path.stem: path for path in sorted((ROOT / "tests/helpers/softswitch/programs").glob("*.json"))
            if path.stem != "sources"}  # fmt: skip

pytestmark = pytest.mark.cc


@pytest.fixture(scope="module")
def star() -> tuple[SoftSwitch, Frames]:
    return star_switch()


def run(program: ir.Program, sequence: list[Event]) -> int:
    engines = [EngineRunner(program, "python"), EngineRunner(program, "native")]
    return run_and_compare([*engines, ReferenceRunner(program)], sequence)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("seed", [1, 2])
def test_test_programs(name: str, seed: int) -> None:
    program = load_program(PROGRAMS[name].read_text())
    draws = Draws(seed)
    maker = EventMaker(draws, program, lambda: (draws.one([1, 3]), make_frame(draws, program)))
    assert run(program, maker.events(150)) > 0


def test_jobs_of_the_star(star: tuple[SoftSwitch, Frames]) -> None:
    """Packets of every op, kind and job: whole rounds, then damaged packets."""
    switch, frames = star
    draws = Draws(3)
    sequence = writes(switch) + [PacketIn(port, frame) for port, frame in frames]
    sequence += [PacketIn(port, damaged(draws, frame)) for port, frame in draws.some(frames, 80, 80)]
    assert run(switch.loaded.program, sequence) > len(frames) // 4


def test_jobs_of_the_star_while_tables_change(star: tuple[SoftSwitch, Frames]) -> None:
    switch, frames = star
    draws = Draws(1)

    def frame() -> tuple[int, bytes]:
        port, chosen = draws.one(frames)
        return port, damaged(draws, chosen)

    program = switch.loaded.program
    run(program, writes(switch) + EventMaker(Draws(51), program, frame).events(120))
