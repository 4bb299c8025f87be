# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A grid's plan, its rules for what is left out, and its record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sumwire_lab.bench.where import measure
from sumwire_lab.bench.where.grid import (
    BRIDGE,
    Cell,
    CellKey,
    Grid,
    GridRecord,
    GridSession,
    Skipped,
    SystemAt,
    left_out,
    planned,
    too_slow,
)
from sumwire_lab.errors import LabError, OptionError
from sumwire_lab.options.run_options import UNLIMITED

GLOO, THC = SystemAt(BRIDGE, "gloo"), SystemAt("soft", "thc")
PLENTY = 10**15
GRID = Grid((1_000, 10_000_000), (10.0, UNLIMITED), ("thc", "sign"), ("soft",), 4, 60.0)


def cell(key: CellKey, seconds: float = 0.5) -> Cell:
    return Cell(key, seconds, 3, 0.1, 0.01, None if key.place == GLOO else 0.002, offloads=True, load=0.5)


def empty(budget_s: float = 60.0) -> GridRecord:
    return GridRecord(4, 2, budget_s)


def test_every_system_of_a_rate_is_next_to_gloo() -> None:
    record = empty()
    sessions = planned(GRID, record, PLENTY)
    sign = SystemAt("soft", "sign")
    assert sessions == [
        *(GridSession(place, 10.0, (1_000,)) for place in (GLOO, THC, sign)),
        *(GridSession(place, UNLIMITED, (1_000, 10_000_000)) for place in (GLOO, THC, sign)),
    ]
    # 1.5 * 40 MB * 1514 / 1448 at 10 Mbit/s take 50 s, four times.
    assert {key.values for key in record.skipped} == {10_000_000}
    assert {key.place for key in record.skipped} == {GLOO, THC, sign}
    assert "gloo's bytes alone take 201 s in 4 repeats" in next(iter(record.skipped.values())).why


def test_memory_is_a_rule_too() -> None:
    key = CellKey(THC, UNLIMITED, 100_000_000)
    assert left_out(key, GRID, PLENTY) is None
    # 40 bytes a value, of four workers.
    assert left_out(key, GRID, 16_000_000_000) is None
    assert "16 GB of memory for 4 workers" in str(left_out(key, GRID, 15_999_999_999))


def test_what_is_known_is_not_measured_again() -> None:
    record = empty()
    record.add(cell(CellKey(THC, UNLIMITED, 1_000)))
    record.add(*too_slow([CellKey(THC, UNLIMITED, 10_000_000)], 60.0))
    record.add(Skipped(CellKey(GLOO, UNLIMITED, 1_000), "LabError: no", failed=True))
    places = [(one.place, one.sizes) for one in planned(GRID, record, PLENTY) if one.link_mbit == UNLIMITED]
    assert places == [(GLOO, (1_000, 10_000_000)), (SystemAt("soft", "sign"), (1_000, 10_000_000))]


def test_a_record_is_the_same_when_read(tmp_path: Path) -> None:
    record = empty()
    record.about["niceness"] = 3
    record.add(cell(CellKey(THC, UNLIMITED, 1_000)), cell(CellKey(GLOO, 10.0, 1_000)))
    record.add(*too_slow([CellKey(THC, UNLIMITED, 10_000)], 60.0))
    path = tmp_path / "there" / "where.json"
    record.save(path)
    told = json.loads(path.read_text(), parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert [row["link_mbit"] for row in told["cells"]] == [10.0, None]
    read = GridRecord.load(path)
    assert (read.cells, read.skipped, read.about, read.places()) == (
        record.cells,
        record.skipped,
        record.about,
        [GLOO, THC],
    )
    read.save(path)
    assert json.loads(path.read_text()) == told


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"workers": 4}', '{"workers":4,"cores":2,"budget_s":1,"about":{},"cells":[{}]}']
)
def test_a_file_that_is_no_record(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(LabError, match=r"no record of bench-where .* remove it"):
        GridRecord.load(tmp_path / "x.json")


def test_a_measured_cell_takes_the_place_of_a_skipped_one() -> None:
    record, key = empty(), CellKey(THC, 10.0, 1_000)
    record.add(Skipped(key, "no"))
    record.add(cell(key))
    assert (list(record.cells), record.skipped) == ([key], {})


def test_resume_keeps_cells_and_with_the_same_budget_what_was_left_out(tmp_path: Path) -> None:
    path = tmp_path / "where.json"
    first = measure.begun(GRID, path, resume=True)
    first.add(cell(CellKey(THC, 10.0, 1_000)), *too_slow([CellKey(THC, 10.0, 10_000)], 60.0))
    first.save(path)
    assert measure.begun(GRID, path, resume=False).cells == {}
    again = measure.begun(GRID, path, resume=True)
    assert (again.cells, again.skipped, again.about) == (first.cells, first.skipped, first.about)
    richer = Grid(GRID.sizes, GRID.rates, GRID.systems, GRID.switches, 4, 120.0)
    assert measure.begun(richer, path, resume=True).skipped == {}
    with pytest.raises(OptionError, match=r"has 4 workers on .* cores, this is 8"):
        measure.begun(Grid(workers=8), path, resume=True)


def test_a_session_that_fails_is_tried_again_by_the_next_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails(*_: object) -> list[Cell]:
        raise LabError("no switch\nand a log")

    monkeypatch.setattr(measure, "_measured", fails)
    said: list[str] = []
    session = GridSession(THC, 10.0, (1_000, 10_000))
    record = empty()
    record.add(*measure._tried(session, GRID, tmp_path, said.append))
    assert said == ["failed: no switch\nand a log"]
    assert [one.why for one in record.skipped.values()] == ["its session failed (LabError)"] * 2
    assert record.known() == set()


def test_a_cell_has_the_slowest_worker_and_medians() -> None:
    def worker(*seconds: float, cpu: tuple[float, ...], switch: tuple[float, ...] = (0.0,) * 3) -> dict[str, object]:
        return {"seconds": list(seconds), "cpu_each_s": list(cpu), "switch_cpu_each_s": list(switch)}

    key = CellKey(THC, 10.0, 2_000)
    workers = [
        worker(1, 2, 7, cpu=(0.1, 0.2, 9.0), switch=(0.3, 0.4, 0.8)),
        worker(3, 1, 5, cpu=(0.4, 0.4, 0.4)),
    ]
    one = measure.cell(key, workers, offloads=True, load=1.5)
    assert (one.seconds, one.repeats, one.bound_s) == (3, 3, pytest.approx(2 * 1098 * 8 / 1e7))
    # Medians of 0.2 and 0.4 for 2000 values.
    assert one.host_cpu_s == pytest.approx(0.3 / 0.002)
    assert one.switch_cpu_s == pytest.approx(0.4 / 0.002)
    assert measure.cell(CellKey(GLOO, 10.0, 2_000), workers, offloads=True, load=0).switch_cpu_s is None
