# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The row that holds `sumwire pays` to the lab's steps: what it asks, and how it judges. Nothing is measured here."""

from __future__ import annotations

import math

import pytest
from sumwire.systems import pays
from sumwire_lab.verify import predictions
from sumwire_lab.verify.predictions import Cell, checks, medians, ranked

PLACES = [(model, mbit) for model in ("a", "b", "c") for mbit in (10.0, 100.0)]


def cells(**predicted: float) -> list[Cell]:
    """In each place THC takes 1 s and gloo 5 s; what is predicted is given as a factor."""
    truth = {"thc": 1.0, "gloo": 5.0}
    return [
        Cell(model, mbit, system, predicted.get(system, 1.0) * took, took)
        for model, mbit in PLACES
        for system, took in truth.items()
    ]


def test_predictions_that_hold() -> None:
    near, worst, first = checks(cells(thc=1.2))
    assert (near.holds, near.value, first.holds, first.value) == (True, 1.0, True, 1.0)
    assert worst.value["system"] == "thc"


@pytest.mark.parametrize("factor", [0.7, 1.3])
def test_predictions_that_are_off(factor: float) -> None:
    near, worst, first = checks(cells(gloo=factor))
    assert (near.holds, near.value, first.holds) == (False, 0.5, True)
    assert worst.value["system"] == "gloo"


def test_a_cell_is_the_median_of_its_rounds() -> None:
    rounds = [Cell("a", 100.0, "thc", predicted, took) for predicted, took in ((1.0, 2.0), (5.0, 9.0), (3.0, 1.0))]
    assert medians([*rounds, Cell("b", 100.0, "thc", 7.0, 8.0)]) == [
        Cell("a", 100.0, "thc", 3.0, 2.0), Cell("b", 100.0, "thc", 7.0, 8.0),
    ]  # fmt: skip


def test_a_wrong_winner_is_seen() -> None:
    """Also where each prediction is near enough to its own measurement."""
    close = [Cell("a", 10.0, "gloo", 0.99, 1.2), Cell("a", 10.0, "thc", 1.2, 1.0)]
    assert [one.holds for one in checks(close)][::2] == [True, False]
    tie = [Cell("a", 10.0, "gloo", 0.99, 1.05), Cell("a", 10.0, "thc", 1.2, 1.0)]
    assert ranked(tie)[0] == 0, "no system wins by 10 %, so none is judged"


def test_what_is_asked() -> None:
    """The three tasks' models, and seconds that follow the bytes where the link is slow."""
    shapes = predictions.models()
    assert {name: sum(map(math.prod, of)) for name, of in shapes.items()}["digits"] == 1_126_410
    costless = pays.Measured(dict.fromkeys(predictions.SYSTEMS.values(), pays.HostCost(1e-12)), 1e-4)
    slow, fast = (predictions.predicted(shapes["digits"], mbit, costless) for mbit in (10.0, 100.0))
    for name in (pays.GLOO, "thc"):
        assert slow[name] == pytest.approx(10 * fast[name], rel=0.1)
    assert slow[pays.GLOO] == pytest.approx(8 * 1.5 * 4 * 1_126_410 * 1514 / 1448 / 1e7, rel=0.01)
