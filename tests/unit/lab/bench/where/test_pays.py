# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What `sumwire pays` computes against the lab's formula, its constants and its record."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from statistics import median

import pytest
from helpers.paths import ROOT
from sumwire.lowrank.fusion import make_plan
from sumwire.systems import pays
from sumwire.systems.formula import Costs, OneAllReduce, seconds
from sumwire.systems.pays import Answer, HostCost, Measured, Question
from sumwire_lab.bench.where import formula
from sumwire_lab.bench.where.formula import Fitted
from sumwire_lab.bench.where.grid import CellKey, GridRecord, SystemAt

RECORD = GridRecord.load(ROOT / "docs" / "where-it-pays.json")


@cache
def fitted() -> dict[SystemAt, Fitted]:
    """Of all but bmv2, whose price of a packet `sumwire pays` does not know."""
    return {place: fit for place, fit in formula.fit_all(RECORD).items() if place.switch != "bmv2"}


# System -> its name in the library, and whether its workers agree on norms or exponents.
NAMES = {"gloo": (pays.GLOO, False), "thc": ("thc", True), "sum32": (pays.EXACT, True), "sign": (pays.MARSIT, False)}
# A round trip in the lab is in `step_s`.
NO_WAY_S = 1e-9
TOLERANCE = 0.25


def asked(key: CellKey) -> Question:
    aggregator = None if key.place.system == "gloo" else math.inf
    plan = make_plan([(key.values,)], 4)
    return Question(plan, RECORD.workers, key.link_mbit * 1e6, NO_WAY_S, aggregator, cores=RECORD.cores)


CELLS = {key: cell for key, cell in RECORD.cells.items() if key.place.switch != "bmv2"}


def middle(of: Callable[[Costs], float]) -> float:
    return median(of(fitted.costs) for fitted in fitted().values())


def fastest(key: CellKey) -> float:
    """The fastest link on which this was measured."""
    return max(each.link_mbit for each in CELLS if (each.place, each.values) == (key.place, key.values))


def measured(key: CellKey) -> Measured:
    """What a trial finds: a step's processor time on links that are as fast as a loopback."""
    cell = CELLS[replace(key, link_mbit=fastest(key))]
    name, asks = NAMES[key.place.system]
    cost = HostCost(cell.host_cpu_s / 1e6, (cell.switch_cpu_s or 0.0) / 1e6 / RECORD.workers, asks)
    return Measured({name: cost}, middle(lambda costs: costs.step_s))


def answered(key: CellKey, costs: Measured | None = None) -> Answer:
    # Marsit alone has no round in full precision.
    (answer,) = pays.answers(asked(key), costs or measured(key))
    return answer


@pytest.mark.parametrize("system", NAMES)
@pytest.mark.parametrize("values", [1_000, 32 * 1024, 100_000, 25_000_000])
def test_bytes_steps_and_seconds_are_the_lab_s(system: str, values: int) -> None:
    name, asks = NAMES[system]
    key, cost, step_s = CellKey(SystemAt("soft", system), 1000.0, values), HostCost(2e-9, 4e-10, asks), 1e-4
    sent, answer = formula.traffic(system, values, RECORD.workers), answered(key, Measured({name: cost}, step_s))
    assert max(answer.up_bytes, answer.down_bytes) == pytest.approx(sent.octets, abs=1)
    switch_s = 0.0 if system == "gloo" else cost.aggregator_s
    costs = Costs(cost.value_s, switch_s, 0.0, step_s, pays.BUSY, pays.APART)
    setting = OneAllReduce(values, key.link_mbit, RECORD.workers, RECORD.cores)
    assert answer.seconds == pytest.approx(seconds(sent, costs, setting), rel=1e-4)


def test_constants_are_the_record_s() -> None:
    assert pytest.approx(middle(lambda costs: costs.busy), rel=0.02) == pays.BUSY
    assert pytest.approx(middle(lambda costs: costs.apart), rel=0.02) == pays.APART


def near(cells: Callable[[CellKey], bool]) -> tuple[int, int]:
    ratios = [answered(key).seconds / cell.seconds for key, cell in CELLS.items() if cells(key)]
    return sum(abs(ratio - 1) <= TOLERANCE for ratio in ratios), len(ratios)


def test_cells_within_a_quarter_are_those_of_the_page() -> None:
    large = near(lambda key: key.link_mbit <= 1000 and key.values >= 100_000)
    text = " ".join((ROOT / "docs" / "where-it-pays.md").read_text().split())
    assert f"{large[0]} of {large[1]} cells" in text
    # Not those from which processor times are.
    assert "{} of {} cells".format(*near(lambda key: key.link_mbit < fastest(key))) in text
    assert large[0] >= 0.9 * large[1]


def test_the_winner_is_the_measured_one() -> None:
    """Of cells in which gloo or the system wins by 10 %."""
    right = []
    for key, cell in CELLS.items():
        if key.place.system == "gloo":
            continue
        gloo = replace(key, place=next(place for place in fitted() if place.system == "gloo"))
        ratio = CELLS[gloo].seconds / cell.seconds
        if max(ratio, 1 / ratio) >= pays.GAIN_LEAST:
            right.append((answered(gloo).seconds > answered(key).seconds) == (ratio > 1))
    text = " ".join((ROOT / "docs" / "where-it-pays.md").read_text().split())
    assert f"in {sum(right)} of {len(right)} cells" in text
    assert sum(right) >= 0.9 * len(right)
