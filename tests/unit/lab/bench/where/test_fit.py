# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The formula's constants: found again in cells that were made from them, and checked against others."""

from __future__ import annotations

import pytest
from sumwire.systems.formula import Costs, wire_s
from sumwire_lab.bench.where import formula, page
from sumwire_lab.bench.where.grid import BRIDGE, Cell, CellKey, GridRecord, SystemAt
from sumwire_lab.options.run_options import UNLIMITED

GLOO, THC, SLOW = SystemAt(BRIDGE, "gloo"), SystemAt("soft", "thc"), SystemAt("bmv2", "thc")
COSTS = {
    GLOO: Costs(4e-9, 0.0, 0.0003, 0.0004, 0.9, 0.5),
    THC: Costs(8e-9, 1e-9, 0.0012, 0.0008, 0.8, 0.3),
    SLOW: Costs(8e-9, 20e-9, 0.0012, 0.0008, 0.9, 0.3),
}
RATES = (10.0, 100.0, 1000.0, 10_000.0, UNLIMITED)
SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)


def made(off: dict[CellKey, float] | None = None) -> GridRecord:
    """Cells with just the formula's times, times the factors of `off`. Each of a slower switch takes longer."""
    record = GridRecord(4, 2, 60.0)
    for place, costs in COSTS.items():
        for rate in RATES:
            for size in SIZES:
                key = CellKey(place, rate, size)
                factor = (off or {}).get(key, 1.0)
                record.add(
                    Cell(
                        key,
                        formula.formula_s(record, costs, key) * factor,
                        3,
                        wire_s(formula.traffic(place.system, size, 4).octets, rate),
                        (costs.host_s * size + costs.operation_s) / size * 1e6,
                        None if place == GLOO else costs.switch_s * 4e6,
                        offloads=place != SLOW,
                        load=1.0,
                    )
                )
    return record


@pytest.mark.parametrize("place", COSTS)
def test_constants_are_found_again(place: SystemAt) -> None:
    fitted = formula.fit(made(), place)
    assert fitted is not None
    found, true = fitted.costs, COSTS[place]
    assert found.host_s == pytest.approx(true.host_s, rel=0.02), "with its share of the work per all-reduce"
    assert found.switch_s == pytest.approx(true.switch_s)
    assert found.operation_s == pytest.approx(true.operation_s, rel=0.02)
    assert found.step_s == pytest.approx(true.step_s, rel=0.1)
    assert found.busy == pytest.approx(true.busy, abs=0.04)
    assert found.apart == pytest.approx(true.apart, abs=0.1)
    assert len(fitted.cells) == 13, "every second one of 25"


def test_one_disturbed_cell_does_not_decide() -> None:
    calm = formula.fit(made(), THC)
    disturbed = formula.fit(made({CellKey(THC, 100.0, 10_000): 5.0}), THC)
    assert calm is not None and disturbed is not None
    assert CellKey(THC, 100.0, 10_000) in disturbed.cells
    for name in ("step_s", "busy", "apart"):
        assert getattr(disturbed.costs, name) == pytest.approx(getattr(calm.costs, name), rel=0.1), name


def test_the_check_leaves_out_the_cells_of_the_fit_and_finds_the_one_that_is_wrong() -> None:
    wrong = CellKey(THC, 100.0, 100_000)
    record = made({wrong: 1.5})
    fitted = formula.fit_all(record)
    used = frozenset().union(*(one.cells for one in fitted.values()))
    assert wrong not in used
    checked = formula.check_fit(record, fitted)
    assert {one.cell.key for one in checked} == record.cells.keys() - used
    assert [one.cell.key for one in checked if not one.holds] == [wrong]
    (outside,) = (one for one in checked if not one.holds)
    assert outside.ratio == pytest.approx(1 / 1.5, rel=0.05)


def test_one_size_is_too_little() -> None:
    record = GridRecord(4, 2, 60.0)
    record.add(*(cell for key, cell in made().cells.items() if key.values == 1_000))
    assert formula.fit_all(record) == {}


def test_where_a_system_is_faster() -> None:
    fitted = formula.fit_all(made())

    def up_to(place: SystemAt, values: int, cores: int) -> float | None:
        return page.faster_up_to(fitted, place, values, 4, cores)

    on_two, on_five = up_to(THC, 100_000_000, 2), up_to(THC, 100_000_000, 5)
    assert on_two is not None and on_five is not None
    # gloo's bytes at 1000 Mbit/s take 3 times as long as THC's processors on two cores.
    assert 1000 < on_two < on_five < 100_000
    slow = up_to(SLOW, 100_000_000, 2)
    assert slow is not None and slow < on_two
