# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Two runs beside each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.lab import runs
from sumwire_lab import cli
from sumwire_lab.errors import OptionError
from sumwire_lab.options import recorded
from sumwire_lab.run import report
from sumwire_lab.run.page import render

SETTINGS = {"workers": 2, "bw": 100.0, "seed": 1, "systems": "gloo,thc", "impair": None}


def folder(parent: Path, name: str, settings: dict[str, Any] | None = None, **changes: Any) -> Path:
    made = parent / name
    made.mkdir()
    summary = runs.summary()
    summary["systems"]["thc"] |= changes
    (made / "summary.json").write_text(json.dumps(summary))
    if settings is not None:
        recorded.save(made, {"format": recorded.FORMAT, "settings": settings})
    return made


def compared(*folders: Path) -> report.Comparison:
    first, second = (report.Recorded.of(one) for one in folders)
    return report.compare(first, second)


def test_ratios_of_runs_with_the_same_settings(tmp_path: Path) -> None:
    found = compared(
        folder(tmp_path, "a", SETTINGS, comm_s_per_step=3.0, nmse=None),
        folder(tmp_path, "b", SETTINGS, comm_s_per_step=2.0, nmse=0.5),
    )
    assert found.verdict == "Both runs have the same settings."
    lines = {(line.system, line.measure): line for line in found.lines}
    assert lines["thc", "communication per step, s"].ratio == pytest.approx(1.5)
    assert lines["gloo", "communication per step, s"].ratio == pytest.approx(1.0)
    nmse = lines["thc", "NMSE of the gradient"]
    assert (nmse.first, nmse.second, nmse.ratio) == (None, 0.5, None)
    told = report.text(found)
    assert "thc" in told
    assert "1.5" in told


def test_a_run_without_settings_is_compared_by_what_its_summary_says(tmp_path: Path) -> None:
    found = compared(folder(tmp_path, "a", SETTINGS), folder(tmp_path, "b"))
    assert found.verdict == "Both runs have the same settings."


def test_runs_of_unlike_machines_are_not_comparable(tmp_path: Path) -> None:
    machines = [{"cores": cores, "torch": "2.13", "measured_at": str(cores)} for cores in (2, 16)]
    folders = [folder(tmp_path, name, SETTINGS) for name in "ab"]
    for one, machine in zip(folders, machines, strict=True):
        summary = json.loads((one / "summary.json").read_text())
        (one / "summary.json").write_text(json.dumps({**summary, "machine": machine}))
    assert compared(*folders).verdict.startswith("Not comparable: the runs differ in cores.")


def test_runs_of_unlike_settings_are_not_comparable(tmp_path: Path) -> None:
    first = folder(tmp_path, "a", SETTINGS)
    other = folder(tmp_path, "b", {**SETTINGS, "bw": 10.0, "seed": 2})
    seed = folder(tmp_path, "c", {**SETTINGS, "seed": 2})
    found = compared(first, other)
    assert not found.comparable
    assert found.verdict.startswith("Not comparable: the runs differ in bw.")
    assert [(one.name, one.first, one.second) for one in found.settings] == [
        ("bw", "100.0", "10.0"),
        ("seed", "1", "2"),
    ]
    assert compared(first, seed).verdict == "The runs can be compared: of their settings only seed differ."


def test_runs_without_recorded_settings_are_compared_by_their_summaries(tmp_path: Path) -> None:
    first, second = folder(tmp_path, "a"), folder(tmp_path, "b")
    assert compared(first, second).comparable
    summary = json.loads((second / "summary.json").read_text())
    (second / "summary.json").write_text(json.dumps({**summary, "link_mbit": 5.0}))
    assert "link_mbit" in compared(first, second).verdict


def test_a_system_of_one_run_alone_is_told(tmp_path: Path) -> None:
    first, second = folder(tmp_path, "a"), folder(tmp_path, "b")
    summary = json.loads((second / "summary.json").read_text())
    summary["systems"]["acp"] = summary["systems"].pop("thc")
    (second / "summary.json").write_text(json.dumps(summary))
    assert compared(first, second).alone == ("thc only in A", "acp only in B")


@pytest.mark.parametrize(
    ("content", "words"),
    [("{", "name the folder"), ("[]", "must be an object"), ('{"systems": {"thc": 1}}', "must be an object")],
)
def test_a_summary_that_is_none_is_refused(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "summary.json").write_text(content)
    with pytest.raises(OptionError, match=words):
        report.Recorded.of(tmp_path)


def test_a_measure_that_is_no_number_is_refused(tmp_path: Path) -> None:
    first, second = folder(tmp_path, "a"), folder(tmp_path, "b", step_s="fast")
    with pytest.raises(OptionError, match="step_s='fast': must be a number"):
        compared(first, second)


def test_the_command_prints_and_writes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = {**SETTINGS, "impair": "<script>alert(1)</script>"}
    first, second = folder(tmp_path, "a", SETTINGS), folder(tmp_path, "b", hostile)
    assert cli.main(["compare", str(first), str(second), "--html", str(tmp_path / "x.html")]) == 0
    assert "Not comparable: the runs differ in impair" in capsys.readouterr().out
    page = runs.Page((tmp_path / "x.html").read_text())
    assert "&lt;script&gt;alert(1)" in page.text
    assert sum(tag == "script" for tag, _ in page.tags) == 1
    assert cli.main(["compare", str(tmp_path), str(second)]) == cli.EXIT_USAGE


def test_the_page_has_every_ratio(tmp_path: Path) -> None:
    found = compared(folder(tmp_path, "a", comm_s_per_step=3.0), folder(tmp_path, "b", comm_s_per_step=2.0))
    page = render.comparison(found)
    told = [json.loads(given["value"] or "") for tag, given in runs.Page(page).tags if tag == "data"]
    assert told == [line.ratio for system in ("gloo", "thc") for line in found.lines if line.system == system]
    assert 1.5 in told


@pytest.mark.parametrize("text", ["\x1b]0;title\x07", "a\rb\nc", "\u202ecba", "\ud800", "<script>alert(1)</script>"])
def test_text_of_a_stranger_s_run_gives_no_orders_to_terminal_or_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    first, second = folder(tmp_path, "a"), folder(tmp_path, "b")
    summary = json.loads((first / "summary.json").read_text())
    summary["task"] = text
    summary["systems"][text] = {"step_s": 1.0}
    (first / "summary.json").write_text(json.dumps(summary))
    page = tmp_path / "page.html"
    assert cli.main(["compare", str(first), str(second), "--html", str(page)]) == 0
    told = capsys.readouterr()
    for shown in (told.out + told.err, page.read_text()):
        assert all(one.isprintable() for one in shown.replace("\n", "")), shown
    assert "<script>alert" not in page.read_text()


def test_a_run_of_very_many_systems_is_refused(tmp_path: Path) -> None:
    made = folder(tmp_path, "a")
    (made / "summary.json").write_text(json.dumps({"systems": {f"s{number}": {} for number in range(1000)}}))
    with pytest.raises(OptionError, match="has 1000 systems: must be at most 256"):
        report.Recorded.of(made)


def test_a_setting_of_a_stranger_s_run_gives_no_orders_to_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["replay", str(folder(tmp_path, "a", {**SETTINGS, "systems": "\x1b]0;title\x07"}))]) == 2
    assert "systems=\\x1b]0;title\\x07: known are" in capsys.readouterr().err
