# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of verify-scale that need neither time nor a network, and how cells of the lab are judged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sumwire_lab.options.conditions import Conditions
from sumwire_lab.options.verify_options import TOPICS, VerifyOptions
from sumwire_lab.verify import scale, validation
from sumwire_lab.verify.plan import Verification
from sumwire_lab.verify.validation import Cell, Place, Worked, checks, costs_at, places


@pytest.mark.parametrize("row", ["engines", "slots"])
def test_a_quick_row_holds(row: str, tmp_path: Path) -> None:
    v = Verification(tmp_path, lambda _: None, VerifyOptions(topic="scale", quick=True))
    found = scale.EXPERIMENTS[row](v)
    assert found
    assert all(check.holds for check in found)


def test_every_row_of_the_topic_is_there() -> None:
    assert tuple(scale.EXPERIMENTS) == TOPICS["scale"].rows


def cells(thc_s: float, gloo_s: float) -> list[Cell]:
    """Measured: THC 1 s, gloo 2 s."""
    return [
        Cell(Place("thc", 4, 100.0), 1000, (0.9, 1.1), thc_s, 0.1),
        Cell(Place("gloo", 4, 100.0), 1000, (2.0, 2.0), gloo_s, 0.9),
    ]


def verdicts(found: list[Cell]) -> tuple[bool | None, ...]:
    near, far, _where, _median, again, order, _idle = checks(found)
    assert again.value == [0.5, 0.5]
    return near.holds, far.holds, order.holds


def test_cells_are_judged_by_what_was_measured() -> None:
    assert verdicts(cells(1.05, 2.1)) == (True, True, True)
    assert verdicts(cells(1.15, 2.1)) == (False, True, True)
    assert verdicts(cells(1.5, 2.1)) == (False, False, True)
    assert verdicts(cells(1.05, 0.9)) == (False, False, False)


def test_the_grid_has_as_many_cells_as_promised() -> None:
    assert len(places()) * 2 >= 60
    assert {place.workers for place in places()} == {2, 4, 8, 16}
    assert {place.mbit for place in places()} == {10.0, 100.0, 1000.0}
    assert {place.background for place in places()} == {0.0, 0.5}


@pytest.mark.parametrize("place", [Place("gloo", 4, 10.0, loss=0.01), Place("gloo", 4, 10.0, background=0.5)])
def test_a_place_is_measured_under_its_conditions(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No network is made here."""
    applied: list[Conditions] = []

    @contextmanager
    def opened(*_: object) -> Iterator[str]:
        yield "session"

    @contextmanager
    def conditions_of(_: object, conditions: Conditions) -> Iterator[None]:
        applied.append(conditions)
        yield

    monkeypatch.setattr(validation, "open_session", opened)
    monkeypatch.setattr(validation, "apply_conditions", conditions_of)
    monkeypatch.setattr(validation, "exchanges", lambda *_: [{"sizes": [{"seconds": [1.0]}] * len(validation.SIZES)}])
    assert validation.measured(place, tmp_path) == [1.0] * len(validation.SIZES)
    assert applied == [Conditions(loss=place.loss, background=place.background)]


def test_costs_are_measured_with_a_place_s_offloads() -> None:
    """Hosts have none where the lab loses or delays packets."""
    without = {(place.loss > 0, place.delay_ms > 0) for place in places() if not place.offloads}
    assert without == {(True, False), (False, True)}
    assert all(place.offloads for place in places() if not place.loss and not place.delay_ms)


def test_costs_are_those_of_the_line_between_the_sizes_beside() -> None:
    known = {
        1_000: Worked(0.0030, host_s=0.0010, switch_s=0.0002),
        3_000: Worked(9.0, host_s=0.0020, switch_s=0.0006),
        9_000: Worked(9.0, host_s=0.0080, switch_s=0.0008),
    }
    thc = costs_at(Place("thc", 4, 100.0), 2_000, known)["thc", "soft"]
    assert (thc.host_s, thc.operation_s) == (pytest.approx(0.5e-6), pytest.approx(0.5e-3))
    assert thc.switch_s * 2_000 * 4 == pytest.approx(0.0004)
    assert thc.step_s == pytest.approx(0.0030 - 0.0042 / 2), "two cores"
    gloo = costs_at(Place("gloo", 4, 100.0), 6_000, known)["gloo", "bridge"]
    assert (gloo.host_s, gloo.operation_s) == (pytest.approx(1e-6), 0.0)
    assert gloo.step_s == pytest.approx(thc.step_s / 6), "a ring of 4 has 6 messages"
