# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The rows `outside` of verify-faithful, and what counts as an exercise that ran."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from fuzz.samples import exercises
from sumwire_lab.errors import LabError
from sumwire_lab.verify import outside
from sumwire_lab.verify.plan import Ended, Verification

PINGS = exercises.EXERCISES[0]
LOSES_NOTHING = "*** Results: 0% dropped (12/12 received)\n"


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ({"basic": "ok", "calc": "ok"}, True),
        ({"basic": "ok", "calc": "its output lacks 42"}, False),
        ({"absent": "mn: not on PATH"}, None),
        (None, None),
    ],
)
def test_the_exercises(
    found: dict[str, str] | None, verdict: bool | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """None: no checkout is named."""
    monkeypatch.setenv(outside.CHECKOUT, "" if found is None else str(tmp_path))
    monkeypatch.setattr(outside, "run_module", lambda _: Ended(0, json.dumps(found)))
    (check,) = outside.GROUP["tutorials"](Verification(tmp_path, print))
    assert check.holds is verdict
    assert found is None or "calc" not in found or ("calc" in str(check.value)) is not verdict


def test_exercises_that_do_not_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(outside.CHECKOUT, str(tmp_path))
    monkeypatch.setattr(outside, "run_module", lambda _: Ended(1, "OSError: no room"))
    with pytest.raises(LabError, match="the exercises ended with 1: OSError: no room"):
        outside.GROUP["tutorials"](Verification(tmp_path, print))


@pytest.mark.parametrize(
    ("output", "lacking"),
    [
        (LOSES_NOTHING, []),
        ("*** Results: 8% dropped (11/12 received)\n", list(PINGS.shown)),
        ("", list(PINGS.shown)),
        (f"Traceback (most recent call last):\n{LOSES_NOTHING}", ["no Traceback"]),
        (f"{LOSES_NOTHING}make: *** [Makefile:10: test] Error 1\n", ["no Error 1"]),
    ],
)
def test_what_an_output_lacks(output: str, lacking: Sequence[str]) -> None:
    assert exercises.lacks(PINGS, output) == lacking


def test_a_solution_takes_the_places_of_what_it_solves(tmp_path: Path) -> None:
    student, solved = (
        {"a.p4": "todo", "topo/s1.json": "{}", "send.py": "send"},
        {"a.p4": "done", "s1.json": "[]", "x.license": ""},
    )
    for name, text in {**student, **{f"solution/{name}": text for name, text in solved.items()}}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    exercises.solve(tmp_path)
    files = {str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    own = {name: text for name, text in files.items() if not name.startswith("solution/")}
    assert own == {"a.p4": "done", "topo/s1.json": "[]", "send.py": "send"}
