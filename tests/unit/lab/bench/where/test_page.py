# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Tables and picture of a grid, and that those of docs/where-it-pays.md are made from the committed record."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib
import pytest
from helpers.paths import ROOT
from sumwire_lab.bench.where import measure, page, picture
from sumwire_lab.bench.where.grid import (
    BRIDGE,
    QUICK_RATES,
    QUICK_SIZES,
    Cell,
    CellKey,
    Grid,
    GridRecord,
    SystemAt,
    too_slow,
)
from sumwire_lab.errors import LabError, OptionError
from sumwire_lab.options.arguments import parser
from sumwire_lab.options.bench_options import WhereOptions
from sumwire_lab.options.fields import from_arguments
from sumwire_lab.options.run_options import UNLIMITED

GLOO, THC, SLOW = SystemAt(BRIDGE, "gloo"), SystemAt("soft", "thc"), SystemAt("bmv2", "thc")
PAGE = ROOT / "docs" / "where-it-pays.md"
COMMITTED = ROOT / "docs" / "where-it-pays.json"
DRAWN = ROOT / "docs" / "images" / "where-it-pays.svg"
CURE = "run: python -m sumwire_lab bench where --draw --record docs/where-it-pays.json --page docs/where-it-pays.md"


def small(load: float = 0.5) -> GridRecord:
    record = GridRecord(4, 2, 60.0, {"niceness": 0})
    for place, seconds in ((GLOO, 0.4), (THC, 0.1), (SLOW, 0.8)):
        for rate in (100.0, UNLIMITED):
            for size in (1_000, 1_000_000):
                key = CellKey(place, rate, size)
                took = seconds * (size / 1e6 + 0.001)
                record.add(Cell(key, took, 3, 0.0, 0.01, None, offloads=place != SLOW, load=load))
    return record


def lines_of(text: str, title: str) -> list[str]:
    return text.partition(f"### {title}\n")[2].partition("\n###")[0].splitlines()


def test_ratios_and_conditions() -> None:
    text = page.markdown(small())
    assert "| 100 Mbit/s | 1,000,000 | 0.4004 | 4.00 | 0.50 |" in lines_of(text, "gloo / it, measured")
    assert "| unlimited | 1,000 | 0.0008 | 4.00 | 0.50 |" in lines_of(text, "gloo / it, measured")
    assert "those on bmv2 did not" in text
    assert "Other work ran" not in text
    assert lines_of(text, "Up to which link rate")[3].startswith("| system, switch | 10,000 values, 2 cores |")


@pytest.mark.parametrize(("load", "niceness", "disturbed"), [(7.0, 0, False), (7.1, 0, True), (0.5, 10, True)])
def test_a_disturbed_machine_says_nothing_of_limits(load: float, niceness: int, disturbed: bool) -> None:
    record = small(load)
    record.about["niceness"] = niceness
    text = page.markdown(record)
    assert ("Other work ran" in text, page.disturbed(record)) == (disturbed, disturbed)
    assert ("Not told" in "".join(lines_of(text, "Up to which link rate"))) == disturbed


def test_a_cell_without_gloo_or_the_system_has_no_ratio() -> None:
    record = small()
    del record.cells[CellKey(THC, 100.0, 1_000)], record.cells[CellKey(GLOO, UNLIMITED, 1_000)]
    text = page.markdown(record)
    rows = lines_of(text, "gloo / it, measured")
    assert any(row.startswith("| 100 Mbit/s | 1,000 |") and "| - | 0.50 |" in row for row in rows)
    assert not any(row.startswith("| unlimited | 1,000 |") for row in rows)
    assert picture.ratios(record, THC).shape == (2, 2)


def test_what_was_left_out_is_named_by_its_rule() -> None:
    record = small()
    assert lines_of(page.markdown(record), "Left out")[1] == "Nothing."
    record.add(*too_slow([CellKey(place, 10.0, 9_000) for place in (GLOO, THC, SLOW)], 60.0))
    record.add(*too_slow([CellKey(SLOW, 100.0, 9_000)], 60.0))
    (line,) = [line for line in lines_of(page.markdown(record), "Left out") if line.startswith("- ")]
    assert line.startswith("- 9,000 values at 10 Mbit/s; 9,000 values at 100 Mbit/s (thc, bmv2): by the time of")


def test_the_tables_go_between_the_marks() -> None:
    record = small()
    old = f"# Title\n\n{page.BEGIN}\nold\n{page.END}\n\nend\n"
    new = page.renewed(old, record)
    assert new.startswith(f"# Title\n\n{page.BEGIN}\n\n") and new.endswith(f"{page.END}\n\nend\n")
    assert "old" not in new and page.markdown(record) in new
    assert page.renewed(new, record) == new
    with pytest.raises(LabError, match="the page lacks"):
        page.renewed("# Title\n", record)


def test_equal_records_give_equal_pictures_and_others_do_not() -> None:
    assert picture.svg(small()) == picture.svg(small())
    assert picture.digest(small()) in picture.svg(small())
    assert picture.digest(small()) != picture.digest(small(load=9.0))


def test_ratios_of_the_picture() -> None:
    assert picture.ratios(small(), THC) == pytest.approx(4.0)
    assert picture.ratios(small(), SLOW) == pytest.approx(0.5)


def test_a_picture_has_a_panel_for_each_system_and_switch() -> None:
    titles = [axes.get_title() for axes in picture.figure(small()).axes]
    assert {"gloo / thc, soft", "gloo / thc, bmv2", "gloo / it, by bytes alone"} <= set(titles)
    one = GridRecord(4, 2, 60.0)
    one.add(small().cells[CellKey(THC, 100.0, 1_000)])
    assert picture.svg(one), "a single cell has no lines, but can be drawn"


def asked(*words: str) -> WhereOptions:
    return from_arguments(WhereOptions, parser().parse_args(["bench", "where", *words]))


def test_options() -> None:
    quick = asked("--quick", "--switches", "soft", "--results", "there")
    assert measure.grid_of(quick) == Grid(QUICK_SIZES, QUICK_RATES, switches=("soft",))
    assert (quick.record, quick.resume, quick.draw) == (None, False, False)
    own = asked("--sizes", "1k,2M", "--bw", "5,unlimited", "--systems", "gloo,sign", "--switches", "bmv2,soft")
    assert measure.grid_of(own) == Grid((1_000, 2_000_000), (5.0, UNLIMITED), ("sign",), ("bmv2", "soft"))
    assert Grid().sizes[0] == 1_000 and Grid().sizes[-1] == 100_000_000
    with pytest.raises(OptionError, match="switches=router"):
        asked("--switches", "router")
    with pytest.raises(OptionError, match="systems=auto: known are gloo, thc"):
        asked("--switches", "soft", "--systems", "auto")


def test_draw_writes_page_and_picture_and_measures_nothing(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    record, target = tmp_path / "r.json", tmp_path / "p.md"
    small().save(record)
    target.write_text(f"{page.BEGIN}\n{page.END}\n")
    words = ("--draw", "--switches", "soft", "--record", str(record), "--page", str(target))
    measure.run(asked(*words), tmp_path, lambda line: None)
    assert page.markdown(small()) in target.read_text()
    assert (tmp_path / "images" / "p.svg").read_text() == picture.svg(small())


def test_nothing_measured_is_said(tmp_path: Path) -> None:
    GridRecord(4, 2, 60.0).save(tmp_path / "bench-where.json")
    with pytest.raises(LabError, match="nothing was measured"):
        measure.run(asked("--draw", "--switches", "soft"), tmp_path, lambda line: None)


def test_the_pages_tables_are_current() -> None:
    assert page.renewed(PAGE.read_text(), GridRecord.load(COMMITTED)) == PAGE.read_text(), CURE


def test_the_pages_picture_is_current() -> None:
    """To the letter by the same matplotlib; another one may draw the same numbers in other words."""
    record, drawn = GridRecord.load(COMMITTED), DRAWN.read_text()
    assert picture.digest(record) in drawn, CURE
    by = re.search(r"Matplotlib v([\d.]+)", drawn)
    assert by is not None
    if by[1] == matplotlib.__version__:
        assert picture.svg(record) == drawn, CURE
