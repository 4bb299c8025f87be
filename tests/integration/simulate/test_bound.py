# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a loss bound does to the time of a step, in virtual time: whole jobs over a long path that loses packets."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from simulate import bound
from simulate.bound import BOUND, FIRST_STEPS, Cell, Steps, main, measured

STEPS = 6


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """Measuring turns the collector off."""
    yield
    gc.enable()


@pytest.mark.parametrize("chunks", [5, 20, 100])
def test_a_bound_makes_no_step_longer(chunks: int) -> None:
    found = measured(Cell(0.04, 0.01, chunks), STEPS, 1)
    without, with_bound = found["mean_s"]
    assert with_bound <= without / 0.98
    assert found["missing"][0] == 0


def test_small_tensors_need_one_round_trip_with_a_bound_too() -> None:
    played = Steps(Cell(0.04, 0.0, 20), BOUND, FIRST_STEPS, 1)
    assert played.seconds[-1] == pytest.approx(0.04, rel=0.05)
    assert {one.one_trip_operations for one in played.stats} == {FIRST_STEPS - 1}


@pytest.mark.long
def test_both_sides_lose_the_same_packets_and_the_same_seed_plays_the_same() -> None:
    cell = Cell(0.01, 0.03, 5)
    assert measured(cell, 2, 1) == measured(cell, 2, 1)
    assert measured(cell, 2, 1)["mean_s"] != measured(cell, 2, 2)["mean_s"]


def test_the_command_writes_every_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bound, "ROUND_TRIPS_S", (0.001,))
    monkeypatch.setattr(bound, "LOSSES", (0.0, 0.01))
    file = tmp_path / "bound.json"
    assert main(["--steps", "1", "--seeds", "1", "--chunks", "1", "--jobs", "1", "--json", str(file)]) == 0
    assert [(one["loss"], one["chunks"]) for one in json.loads(file.read_text())] == [(0.0, 1), (0.01, 1)]
    assert len(capsys.readouterr().out.splitlines()) == 2
