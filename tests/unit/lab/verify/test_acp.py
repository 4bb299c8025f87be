# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of verify-acp and their order, with the experiments replaced."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sumwire.lowrank import shapes
from sumwire_lab.errors import LabError
from sumwire_lab.run.results import StepRecord
from sumwire_lab.verify import acp, plan
from sumwire_lab.verify.commands import verify


def verdicts(rows: list[Any]) -> list[bool | None]:
    return [row.holds for row in rows]


@pytest.mark.parametrize("model", acp.GOLDEN)
def test_golden_rows_look_at_every_size(model: str) -> None:
    sizes = shapes.sizes(model)
    assert acp.golden_check(model, sizes).holds
    for field, value in (("p_groups", sizes.p_groups + 1), ("q_bytes", sizes.q_bytes + 4096), ("matrices", 0)):
        assert acp.golden_check(model, replace(sizes, **{field: value})).holds is False


def step(number: int, seconds: float) -> StepRecord:
    return StepRecord(number, 1.0, 0.0, seconds, 0.0, 0, 0, 0.5)


def test_steps_before_the_warm_up_is_over_do_not_count() -> None:
    records = [[step(0, 100.0), step(1, 1.0), step(2, 3.0)], [step(0, 100.0), step(1, 2.0), step(2, 4.0)]]
    assert acp.step_seconds(records, 1) == pytest.approx(2.5)
    assert acp.step_seconds(records, 3) is None


def trained(system: str, time_s: float | None) -> dict[str, Any]:
    return {"task": "m", "system": system, "time_to_target_s": time_s}


def test_accuracy_rows() -> None:
    rows = [trained("gloo", 40.0), trained("fp16", 16.0), trained("powersgd", None), trained("thc", 10.0)]
    ratio, reported = acp.accuracy_ratio_checks("m", rows)
    assert (ratio.holds, ratio.value, reported.holds) == (True, pytest.approx(1.6), True)
    assert "fp16 / thc" in ratio.check and reported.value["powersgd"] is None
    assert verdicts(acp.accuracy_ratio_checks("m", [*rows[:3], trained("thc", 11.0)])) == [False, True]
    # Without one of the baselines the best of them is not known.
    assert verdicts(acp.accuracy_ratio_checks("m", [rows[0], rows[3]])) == [False, False]
    assert verdicts(acp.accuracy_ratio_checks("m", [])) == [False, False]


TARGETS = ["run", "verify-speed"]


@pytest.mark.parametrize(
    "paragraph",
    [
        "A step takes 0.3 s.",
        "It keeps 86 % of it.",
        "It is 47 times less.",
        "Some MEASURE (`make run`)",
        "3 ms, `make x`",
    ],
)
def test_numbers_without_a_command_are_found(paragraph: str) -> None:
    assert acp.unsourced(f"# Page\n\nWords.\n\n{paragraph}\n", TARGETS) == [paragraph]


@pytest.mark.parametrize(
    "paragraph",
    [
        "A step takes 0.3 s (`make run`).",
        "47 times less. <!-- make verify-speed -->",
        "Links of 10 Mbit/s, 4 workers, arXiv 2302.08545, clang 16, NSDI '24, 1024 values.",
        "```\n0.3 s\n```",
    ],
)
def test_other_paragraphs_are_not(paragraph: str) -> None:
    assert acp.unsourced(f"{paragraph}\n", TARGETS) == []


def test_readme_row_knows_the_makefiles_targets() -> None:
    makefile = "X := 1\nrun: ready\n\techo\nverify-acp:\n"
    assert acp.readme_check("0.3 s by make run", makefile).holds is True
    assert acp.readme_check("0.3 s by make walk", makefile).holds is False


def test_an_experiment_that_fails_is_a_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def no_network(*_: Any) -> Any:
        raise LabError("no network here")

    monkeypatch.setattr(plan, "run", no_network)
    monkeypatch.setattr(acp, "in_network", no_network)
    monkeypatch.setattr(acp, "run", no_network)
    monkeypatch.setitem(acp.EXPERIMENTS, "ACP-SGD against the reference", no_network)
    done = verify("acp", tmp_path, lambda line: None)
    written = json.loads((tmp_path / "verify-acp.json").read_text())
    assert [row["check"] for row in written] == [row.check for row in done]
    failed = [row["check"] for row in written if row["holds"] is False and "no network here" in row.get("why", "")]
    networked = [f"time to accuracy, {task}" for task in acp.TASKS]
    assert failed == ["ACP-SGD against the reference", "transformer, time per step", "software aggregator", *networked]
    assert sum(row["holds"] is True for row in written if row["check"].startswith("golden sizes")) == 3
