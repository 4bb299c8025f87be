# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Studies in this process: cases, records, going on, intervals, tables, bounds, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sumwire_lab.errors import LabError, OptionError
from sumwire_lab.study import figures, records
from sumwire_lab.study.check import at_most, equal
from sumwire_lab.study.figures import Figure, interval
from sumwire_lab.study.study import Column, Context, Study, grid, load, run
from sumwire_lab.verify import commands

NOISE = {1: 0.0, 2: 1.0, 3: 5.0}


@pytest.fixture(autouse=True)
def version(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commit that records have; a test may change it."""
    commits = ["abc"]
    monkeypatch.setattr(records, "commit", lambda: commits[0])
    return commits


def measure(case: Mapping[str, Any]) -> dict[str, Any]:
    return {"seconds": case["size"] * (2 if case["codec"] == "slow" else 1) + NOISE[case["seed"]]}


CASES = grid(codec=["fast", "slow"], size=[10, 20], seed=[1, 2, 3])


def speed(**changes: Any) -> Study:
    given = {"name": "speed", "what": "how fast", "cases": CASES, "worker": measure, "columns": (Column("seconds"),)}
    return Study(**{**given, **changes})


def told(lines: list[str]) -> Callable[[str], None]:
    return lines.append


def test_a_grid_is_every_combination() -> None:
    assert len(CASES) == 12
    assert CASES[0] == {"codec": "fast", "size": 10, "seed": 1}
    assert CASES[-1] == {"codec": "slow", "size": 20, "seed": 3}


def test_the_seeds_of_a_study_take_turns() -> None:
    assert [case["seed"] for case in speed().in_turns] == [1] * 4 + [2] * 4 + [3] * 4


def test_every_case_leaves_a_record(tmp_path: Path) -> None:
    done = run(speed(), tmp_path, told([]))
    lines = [json.loads(line) for line in (tmp_path / "speed" / records.FILE).read_text().splitlines()]
    assert [line["case"] for line in lines] == speed().in_turns
    assert {"rows", "error", "seconds", "at", "code", "commit", "machine", "load"} <= set(lines[0])
    assert {"before", "busy_cores", "own_cores"} == set(lines[0]["load"])
    assert lines[0]["machine"]["cores"] >= 1
    assert [record.case for record in done.records] == CASES, "results are in the order of the cases"
    assert done.values("seconds", codec="slow", size=20) == [40.0, 41.0, 45.0]
    assert done.median("seconds", codec="fast", size=10) == figures.Interval(11.0, 10.0, 15.0, 3)


def test_a_study_that_was_stopped_goes_on(tmp_path: Path) -> None:
    calls: list[Any] = []

    def stopping(case: Mapping[str, Any]) -> dict[str, Any]:
        calls.append(case)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return measure(case)

    with pytest.raises(KeyboardInterrupt):
        run(speed(worker=stopping), tmp_path, told([]))
    assert "slow" in (tmp_path / "speed" / "table.txt").read_text(), "what was measured is shown"
    lines: list[str] = []
    done = run(speed(worker=stopping), tmp_path, told(lines))
    assert len(calls) == 13, "five cases were done, one interrupted"
    assert lines[0] == "speed: 5 of 12 cases are recorded already"
    assert len(done.records) == 12
    run(speed(worker=stopping), tmp_path, told([]))
    assert len(calls) == 13, "nothing is left"
    run(speed(worker=stopping), tmp_path, told([]), again=None)
    assert len(calls) == 25, "a study that has ended is measured anew"


@pytest.mark.parametrize("change", ["again", "commit", "options", "failed"])
def test_what_is_measured_again(tmp_path: Path, version: list[str], change: str) -> None:
    calls: list[Any] = []

    def counting(case: Mapping[str, Any]) -> dict[str, Any]:
        calls.append(case)
        if change == "failed" and len(calls) == 1:
            raise LabError("once")
        return measure(case)

    cases = grid(codec=["fast"], size=[1], seed=[1, 2])
    run(speed(worker=counting, cases=cases), tmp_path, told([]))
    if change == "commit":
        version[0] = "def"
    if change == "options":
        cases = grid(codec=["fast"], size=[1, 2], seed=[1])
    run(speed(worker=counting, cases=cases), tmp_path, told([]), again=change == "again")
    assert len(calls) == {"again": 4, "commit": 4, "options": 3, "failed": 3}[change]


def test_a_case_that_fails_is_recorded_and_the_next_one_runs(tmp_path: Path) -> None:
    def failing(case: Mapping[str, Any]) -> dict[str, Any]:
        if case["size"] == 10:
            raise ZeroDivisionError("a mistake")
        return measure(case)

    lines: list[str] = []
    done = run(speed(worker=failing, cases=grid(codec=["fast"], size=[10, 20], seed=[1])), tmp_path, told(lines))
    assert [record.error is None for record in done.records] == [False, True]
    assert "ZeroDivisionError: a mistake" in lines[1]
    assert "failed: codec=fast size=10 seed=1: ZeroDivisionError: a mistake" in done.table()


def test_a_line_that_a_killed_study_has_not_ended_is_dropped(tmp_path: Path) -> None:
    run(speed(), tmp_path, told([]))
    path = tmp_path / "speed" / records.FILE
    path.write_text(path.read_text()[:-10])
    lines: list[str] = []
    run(speed(), tmp_path, told(lines))
    assert lines[0] == "speed: 11 of 12 cases are recorded already"


@dataclass(frozen=True)
class Links:
    mbit: float
    loss: float = 0.0


@dataclass(frozen=True)
class Trial:
    codec: str
    links: Links
    seed: int = 1


def test_cases_may_be_dataclasses(tmp_path: Path) -> None:
    trials = [Trial("thc", Links(10.0)), Trial("thc", Links(10.0, 0.01))]
    study = Study("typed", "", trials, lambda trial: {"loss": trial.links.loss}, (Column("loss"),))
    done = run(study, tmp_path, told([]))
    assert study.options() == ["links.loss"]
    assert done.rows(**{"links.loss": 0.01}) == [
        {"codec": "thc", "links.mbit": 10.0, "links.loss": 0.01, "seed": 1, "loss": 0.01}
    ]


def test_a_worker_may_have_a_folder_and_tell_its_progress(tmp_path: Path) -> None:
    def worker(case: Mapping[str, Any], context: Context) -> list[dict[str, Any]]:
        context.say("half done")
        return [{"place": str(context.folder)}, {"place": "second row"}]

    lines: list[str] = []
    study = Study("places", "", grid(loss=[0.01]), worker, (Column("place", kind=str),))
    done = run(study, tmp_path, told(lines))
    assert "half done" in lines
    assert [row["place"] for row in done.rows()] == [str(tmp_path / "places" / "cases" / "loss=0.01"), "second row"]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({}, "returned no 'seconds'"),
        ({"seconds": "fast"}, "seconds='fast': must be float"),
        ({"seconds": True}, "seconds=True: must be float"),
        (7, "returned int: must be a mapping"),
        ({"seconds": object()}, "object: has no form in JSON"),
    ],
)
def test_a_wrong_answer_is_an_error_of_the_case(tmp_path: Path, answer: Any, why: str) -> None:
    done = run(speed(worker=lambda case: answer, cases=grid(seed=[1])), tmp_path, told([]))
    assert why in (done.records[0].error or "")


@pytest.mark.parametrize("name", ["", "Speed", "../speed", "a b"])
def test_a_name_becomes_a_folder(name: str) -> None:
    with pytest.raises(OptionError, match="a name has small letters"):
        speed(name=name)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"cases": []}, "has no cases"),
        ({"cases": [{"a": 1}, {"a": 1}]}, "case a=1: each at most once"),
        ({"parallel": 2}, "cases side by side are children"),
        ({"parallel": 0, "place": "child"}, "parallel=0"),
    ],
)
def test_a_study_that_cannot_be_is_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(OptionError, match=why):
        speed(**changes)


def test_bounds_become_checks(tmp_path: Path) -> None:
    def bounds(done: Any) -> list[Any]:
        return [at_most("seconds of the slow one", done.median("seconds", codec="slow", size=20).median, 41.0)]

    done = run(speed(bounds=bounds), tmp_path, told([]))
    assert [(check.value, check.target, check.holds) for check in done.checks()] == [(41.0, "<= 41", True)]


# -- intervals, tables, figures --------------------------------------------------------------------------


def test_an_interval_holds_the_median_with_95_percent() -> None:
    assert interval([3.0]) == figures.Interval(3.0, 3.0, 3.0, 1)
    assert interval([1, 2, 3, 4, 5]) == figures.Interval(3, 1, 5, 5), "of five values even the range has only 94 %"
    few = interval(range(1, 11))
    assert (few.low, few.high) == (2, 9), "of ten values: 2 P(B(10, 1/2) < 2) = 2.1 %"
    many = interval(range(1, 101))
    assert (many.low, many.high) == (40, 61), "as in tables of the sign test for n = 100"


def test_a_table_has_medians_and_intervals(tmp_path: Path) -> None:
    lines = run(speed(), tmp_path, told([])).table().splitlines()
    assert lines[0].split() == ["codec", "size", "seconds"]
    assert lines[1].split(maxsplit=2) == ["fast", "10", "11 [10, 15]"]
    assert len(lines) == 5


def test_a_figure_s_lines_are_medians(tmp_path: Path) -> None:
    done = run(speed(), tmp_path, told([]))
    lines = figures.series(Figure("size", "seconds", by="codec"), done.rows())
    assert {name: [(x, one.median) for x, one in points] for name, points in lines.items()} == {
        "fast": [(10, 11.0), (20, 21.0)],
        "slow": [(10, 21.0), (20, 41.0)],
    }


@pytest.mark.parametrize("kind", ["line", "bars"])
def test_a_study_draws_its_figures(tmp_path: Path, kind: Any) -> None:
    drawn = [Figure("size", "seconds", by="codec", panel="seed", kind=kind, title="speed")]
    texts = []
    for folder in ("a", "b"):
        run(speed(figures=drawn), tmp_path / folder, told([]))
        texts.append((tmp_path / folder / "speed" / "speed.svg").read_text())
    assert "seed 2" in texts[0] and "fast" in texts[0]
    assert texts[0] == texts[1]


# -- verify commands -------------------------------------------------------------------------------------


def test_a_verification_writes_its_checks_after_each_experiment(tmp_path: Path) -> None:
    def broken() -> list[Any]:
        raise LabError("no network")

    def stopped() -> list[Any]:
        raise KeyboardInterrupt

    experiments = {"right": lambda: [equal("a", 1, 1)], "broken": broken, "stopped": stopped}
    with pytest.raises(KeyboardInterrupt):
        commands.carry_out("x", experiments, tmp_path, told([]))
    rows = json.loads((tmp_path / "verify-x.json").read_text())
    assert rows == [
        {"check": "a", "value": 1, "target": "1", "holds": True},
        {"check": "broken", "value": None, "target": "the experiment comes to its end", "holds": False,
         "why": "no network"},
    ]  # fmt: skip
    experiments |= {"stopped": lambda: [equal("c", 1, 2)], "right": stopped}
    done = commands.carry_out("x", experiments, tmp_path, told([]))
    assert [check.holds for check in done] == [True, False, False], "the first one is not measured again"


# -- files of users --------------------------------------------------------------------------------------

HEAD = "from sumwire_lab.study.study import Column, Study, grid\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "must have a Study under the name `study`"),
        ("study = 3\n", "must have a Study"),
        ("x = 1\ny = x +\n", ":2: SyntaxError"),
        ("\nimport nothing_like_it\n", ":2: ModuleNotFoundError"),
        (HEAD + "\nstudy = Study('Bad name', '', [{'a': 1}], print)\n", ":3: study 'Bad name': a name has"),
    ],
)
def test_a_mistake_in_a_file_is_told_with_its_line(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(text)
    with pytest.raises(OptionError) as refusal:
        load(path)
    assert why in str(refusal.value)
    assert str(refusal.value).startswith(str(path))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="there is no such file"):
        load(tmp_path / "none.py")


def test_panels_have_room_for_the_largest_value_of_all() -> None:
    rows = [{"x": 1, "y": y, "panel": panel} for panel, y in (("small", 1.0), ("large", 50.0))]
    for kind in ("bars", "line"):
        axes = figures.drawn(Figure("x", "y", panel="panel", kind=kind), rows).axes  # type: ignore[arg-type]
        assert all(one.get_ylim()[0] <= 0 and one.get_ylim()[1] >= 50 for one in axes)
