# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the test programs beside this file: ``switch_for("parse")`` is a fresh switch that runs parse.p4."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from helpers.softswitch.compile_programs import PROGRAMS
from softswitch.switch import EngineChoice, SoftSwitch


@pytest.fixture
def program_text() -> Callable[[str], str]:
    return lambda name: (PROGRAMS / f"{name}.json").read_text()


@pytest.fixture(scope="session", params=["python", pytest.param("native", marks=pytest.mark.cc)])
def engine(request: pytest.FixtureRequest) -> EngineChoice:
    """Every test that uses it runs with both engines."""
    chosen: EngineChoice = request.param
    return chosen


@pytest.fixture
def switch_for(program_text: Callable[[str], str], engine: EngineChoice) -> Callable[[str], SoftSwitch]:
    return lambda name: SoftSwitch(program_text(name), seed=1, cpu_port=510, engine=engine)
