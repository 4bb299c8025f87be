# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The benchmark's run: suites that fail lose nothing of the others, Ctrl-C keeps what there is, and the page."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sumwire_lab.bench import page, runner
from sumwire_lab.bench.benchmark import Chart, PageTable, Presentation, Series, Suite
from sumwire_lab.bench.codec_error import CODECS
from sumwire_lab.errors import LabError, OptionError
from sumwire_lab.options.bench_options import SUITES, BenchOptions, parse_suites
from sumwire_lab.options.recipes import SYSTEMS
from sumwire_lab.study import records
from sumwire_lab.study.study import Study, grid


def suite(name: str, cases: Sequence[str], raises: dict[str, BaseException]) -> Suite:
    def measure(case: dict[str, str]) -> dict[str, Any]:
        if case["name"] in raises:
            raise raises[case["name"]]
        return {"name": case["name"], "seconds": 0.5}

    def study(_: BenchOptions) -> Study:
        if "plan" in raises:
            raise raises["plan"]
        return Study(name, "", grid(name=cases), measure)

    def present(rows: Sequence[Any]) -> Presentation:
        series = Series("gloo", tuple((float(k), row["seconds"]) for k, row in enumerate(rows, start=1)))
        table = PageTable("Rows", ("name", "s"), tuple((row["name"], str(row["seconds"])) for row in rows))
        chart = Chart("A chart", "size, bytes", "time, s", (series,), log_x=True, note="A note.")
        return Presentation((table,), (chart,), (f"{name}: slower & dearer",))

    return Suite(name, "A <title>", "What is it?", "By looking.", study, present)


def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *suites: Suite) -> tuple[list[Any], Path]:
    monkeypatch.setattr(runner, "KNOWN", {one.name: one for one in suites})
    monkeypatch.setattr(records, "commit", lambda: "none")
    return runner.bench(BenchOptions(suites=tuple(one.name for one in suites)), tmp_path, lambda line: None)


def test_failures_stay_where_they_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first = suite("sizes", ["a", "b", "c"], {"b": LabError("no <switch>")})
    second = suite("scaling", ["a"], {"plan": ValueError("planless")})
    third = suite("allreduce", ["d"], {})
    outcomes, folder = run(monkeypatch, tmp_path, first, second, third)
    assert [[row["name"] for row in one.rows] for one in outcomes] == [["a", "c"], [], ["d"]]
    assert [one.failures for one in outcomes] == [
        [("name=b", "no <switch>")],
        [("the suite's plan", "ValueError: planless")],
        [],
    ]
    record = json.loads((folder / "bench.json").read_text())
    assert record["suites"]["sizes"]["rows"] == [{"name": "a", "seconds": 0.5}, {"name": "c", "seconds": 0.5}]
    assert record["suites"]["sizes"]["planned"] == 3
    text = (folder / "report.html").read_text()
    assert "name=b: no &lt;switch&gt;" in text and "planless" in text and "not complete" in text
    assert "name=b: no <switch>" in runner.tables_text(outcomes)


def test_ctrl_c_keeps_what_was_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(monkeypatch, tmp_path, suite("sizes", ["a", "b"], {"b": KeyboardInterrupt()}), suite("scaling", ["c"], {}))
    (folder,) = tmp_path.iterdir()
    record = json.loads((folder / "bench.json").read_text())
    assert [row["name"] for row in record["suites"]["sizes"]["rows"]] == ["a"]
    assert record["suites"]["sizes"]["finished"] is False and "scaling" not in record["suites"]
    text = (folder / "report.html").read_text()
    assert "interrupted" in text and ">a</td>" in text


def test_page_stands_alone_and_says_what_it_must(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _, folder = run(monkeypatch, tmp_path, suite("sizes", ["a", "b"], {}), suite("scaling", ["c"], {}))
    text = (folder / "report.html").read_text()
    # Nothing is fetched: links stay in the page, and nothing has a source.
    assert not re.search(r"""\ssrc=|<link|@import|href=["']http""", text)
    assert set(re.findall(r"""href=["']#([\w-]+)["']""", text)) <= set(re.findall(r"""id=["']([\w-]+)["']""", text))
    assert text.count("<svg") == 2 and "A &lt;title&gt;" in text
    for words in (
        "What is it?",
        "By looking.",
        "The machine",
        "processor",
        "quick False",
        "Where Sumwire loses",
        "A note.",
    ):
        assert words in text
    # The losses stand at the top and at their suite.
    assert text.count("sizes: slower &amp; dearer") == 2
    assert (folder / "sizes-1.svg").read_text().startswith("<svg")


def test_every_name_on_the_page_is_explained() -> None:
    explained = {row[0] for row in page.system_rows()}
    for name in [*SYSTEMS, *CODECS, "top-k", "fp16", "acp"]:
        assert name in explained
    assert all(len(row) == len(page._HEAD) for row in page.system_rows())


def test_no_losses_are_said_to_be_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    silent = replace(suite("sizes", ["a"], {}), present=lambda rows: Presentation())
    _, folder = run(monkeypatch, tmp_path, silent)
    assert "Nowhere, in what was measured in this run." in (folder / "report.html").read_text()


def test_options() -> None:
    assert parse_suites("all") == SUITES
    assert parse_suites("sizes,allreduce") == ("allreduce", "sizes")
    with pytest.raises(OptionError, match="suites=speed: known are allreduce"):
        BenchOptions(suites=parse_suites("sizes,speed"))
    with pytest.raises(OptionError, match="seed=-1"):
        BenchOptions(seed=-1)
    with pytest.raises(OptionError, match="switch=hub"):
        BenchOptions(switch="hub")


def test_every_suite_can_be_chosen() -> None:
    assert tuple(runner.KNOWN) == SUITES


def test_quick_run_of_the_suites_without_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sumwire_lab.bench import codec_cost, codec_error

    monkeypatch.setattr(codec_cost, "QUICK_VALUES", (20_000,))
    monkeypatch.setattr(codec_error, "QUICK_WORKERS", (2,))
    monkeypatch.setattr(codec_error, "QUICK_STEPS", (1,))
    monkeypatch.setattr(codec_error, "TASKS", ("digits",))
    options = BenchOptions(quick=True, suites=("codec-cost", "codec-error", "sizes"))
    outcomes, folder = runner.bench(options, tmp_path, lambda line: None)
    assert [one.failures for one in outcomes] == [[], [], []]
    assert all(one.finished and one.rows for one in outcomes)
    text = (folder / "report.html").read_text()
    assert "116.6" in text and "NMSE, digits" in text and "a quick run" in text
