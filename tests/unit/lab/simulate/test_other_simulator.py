# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The comparison with ns-3, without ns-3."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sumwire_lab.experiments import other_simulator as other
from sumwire_lab.options.fabric import Fabric
from sumwire_lab.options.verify_options import VerifyOptions
from sumwire_lab.system.environments import AbsentError
from sumwire_lab.verify import scale
from sumwire_lab.verify.plan import Verification

DELAY_S, RATE = 1e-5, 1e9
WIRE_S = other.WHOLE * 8 / RATE
STAR = Fabric(workers=2, rate_bit_s=RATE, delay_s=DELAY_S)
ONE = other.Cell("one", STAR, ((1, 0),), 10 * other.SEGMENT)


def test_ours_takes_the_time_of_its_bytes() -> None:
    assert other.ours(ONE, 1) == pytest.approx([11 * WIRE_S + 2 * DELAY_S], rel=1e-9)


def test_a_part_waits_for_the_pair_before() -> None:
    pairs = ((0, 1), (1, 0))
    ring = other.Cell("ring", STAR, pairs, 3 * other.SEGMENT, part=other.SEGMENT)
    # From the second part on there is an acknowledgement in front of it.
    seconds = 3 * (2 * WIRE_S + 2 * DELAY_S) + 2 * other.HEADER * 8 / RATE
    assert other.ours(ring, 1) == pytest.approx([seconds] * 2, rel=1e-9)


def test_both_begin_at_the_same_times() -> None:
    cell = other.Cell("spread", STAR, ((1, 0), (0, 1)), other.SEGMENT, spread_s=0.1)
    first, second = other.given(cell, 1)["begins"], other.given(cell, 2)["begins"]
    assert first == cell.begins(1) != second == cell.begins(2)
    assert all(0 <= begin <= 0.1 for begin in (*first, *second))
    assert other.ours(cell, 1) == pytest.approx([2 * WIRE_S + 2 * DELAY_S] * 2, rel=1e-9), "counted from there"


def test_runs_are_compared_by_their_means(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers come in the order of cells and seeds."""
    asked: list[Any] = []

    def played(runs: list[Any], python: Path) -> list[list[float]]:
        asked.extend(runs)
        return [[1.0, 2.0], [4.0, 3.0], [5.0]]

    monkeypatch.setattr(other, "played", played)
    monkeypatch.setattr(other, "ours", lambda cell, seed: [1.5 * seed] * len(cell.pairs))
    two = other.Cell("two", STAR, ((1, 0), (1, 0)), other.SEGMENT, seeds=2)
    first, second = other.compared([two, ONE], Path("python"))
    assert [one["seed"] for one in asked] == [1, 2, 1]
    assert first.seconds == (2.25, 3.0) and first.ratio == 0.75
    assert first.fairness == pytest.approx((1.0, (0.9 + 0.98) / 2))
    assert second.seconds == (1.5, 5.0)


def test_jains_index() -> None:
    assert other.jain([2.0, 2.0]) == 1
    assert other.jain([1.0, 1e9]) == pytest.approx(0.5)


def test_without_ns3_the_row_is_undecided(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def never() -> Path:
        raise AbsentError("no network")

    monkeypatch.setattr(other, "environment", never)
    checks = scale.EXPERIMENTS["other"](Verification(tmp_path, lambda _: None, VerifyOptions("scale")))
    assert [(one.holds, one.why) for one in checks] == [(None, "no network")]
