# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Pages are current: measurements and README's numbers are what the records say."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import matplotlib
import pytest
from helpers.paths import ROOT

_SPEC = importlib.util.spec_from_file_location("pages", ROOT / "records" / "pages.py")
assert _SPEC is not None and _SPEC.loader is not None
pages = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(pages)

LINES_MOST = 300
# "5.8 times", "0.65 s over": what a reader takes for a result.
_RESULT = re.compile(r"\b\d+\.\d+ (?:times|s over|s through)")


def test_measurements_are_current_and_short() -> None:
    page = pages.page(pages.records())
    assert pages.PAGE.read_text() == page, "run make pages"
    assert len(page.splitlines()) <= LINES_MOST


# Panels, lines and points of a line.
SHAPES = {"time-to-accuracy.svg": (3, 8, 3), "bytes-to-accuracy.svg": (3, 8, 4), "loss-bound.svg": (3, 3, 4)}


@pytest.mark.parametrize("picture", pages.PICTURES, ids=lambda picture: picture.name)
def test_pictures_are_current(picture: Any, tmp_path: Path) -> None:
    """To the letter by the same matplotlib; another one may draw the same numbers in other words."""
    points, drawn = picture.points(pages.records()), picture.path.read_text()
    panels, lines, numbers = SHAPES[picture.name]
    assert len({point[picture.figure.panel] for point in points}) == panels
    assert len({point[picture.figure.by] for point in points}) == lines
    assert len({point["at"] for point in points}) == numbers
    by = re.search(r"Matplotlib v([\d.]+)", drawn)
    assert by is not None
    if by[1] == matplotlib.__version__:
        pages.draw(picture.figure, points, tmp_path / "drawn.svg")
        assert (tmp_path / "drawn.svg").read_text() == drawn, "run make pages"


@pytest.mark.parametrize("name", pages.FILLED)
def test_numbers_of_pages_are_current(name: str) -> None:
    text = (ROOT / name).read_text()
    assert pages.filled(text, pages.records()) == text, "run make pages"


def test_results_in_readme_have_a_record() -> None:
    expected = (ROOT / "README.md").read_text().partition("## What to expect")[2].partition("\n## ")[0]
    assert pages._MARK.search(expected)
    bare = _RESULT.findall(pages._MARK.sub("", expected))
    assert bare == ["1.3 times"], "1.3 times is a setting; mark every other result with its record"


def test_a_number_without_a_record_is_refused() -> None:
    known = [{"id": "speed", "rows": [{"check": "codec", "value": 1.5}]}]
    assert pages.filled("<!--= speed: codec -->2<!--/--> ms", known) == "<!--= speed: codec -->1.5<!--/--> ms"
    for mark in ("<!--= speed: decoder -->2<!--/-->", "<!--= sped: codec -->2<!--/-->"):
        with pytest.raises(SystemExit, match="measure it, or correct the mark"):
            pages.filled(mark, known)


def test_a_verify_commands_rows_go_into_its_record() -> None:
    rows = [
        {"check": pages.HELD, "value": "3 of 3"},
        {"check": "codec", "value": 2.0},
        {"check": "unmeasured", "value": 7},
    ]
    old = {"title": "Speed", "command": "make verify-speed", "conditions": "", "commit": "0", "date": "", "rows": rows}
    found = [
        {"check": "codec", "value": 1.5, "target": "<= 2", "holds": True},
        {"check": "new", "value": 9, "target": "<= 1", "holds": False},
        {"check": "not a promise", "value": 1, "target": "reported", "holds": True},
        {"check": "absent", "value": None, "target": "1", "holds": None},
    ]
    new = pages.taken(found, old)
    values = {row["check"]: (row["value"], row.get("earlier")) for row in new["rows"]}
    assert values == {
        pages.HELD: ("2 of 3", ["3 of 3"]),
        "codec": (1.5, [2.0]),
        "unmeasured": (7, None),
        "new": (9, None),
    }
    section = pages.page([{"id": "speed", **new}])
    assert "| new | **9** | <= 1 |" in section and "| codec | 1.5 | <= 2 | 2 |" in section
