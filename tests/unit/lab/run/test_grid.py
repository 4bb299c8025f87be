# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Grids of trainings from YAML: their cases, their options, and mistakes with their lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from sumwire_lab.errors import OptionError
from sumwire_lab.run.grid import load, options_of
from sumwire_lab.study.figures import Figure
from sumwire_lab.study.study import Study

TEXT = """
name: loss-and-rate
what: two codecs over loss and rate
options: {task: digits, steps: 40, no-feedback: true}
grid:
  systems: [thc, topk]
  loss: [0, 0.01]
  bw: 10
seeds: [1, 2]
columns: [accuracy, step_s]
figures: [{x: loss, y: step_s, by: systems, log_y: true}]
"""


def loaded(folder: Path, text: str) -> Study:
    path = folder / "grid.yaml"
    path.write_text(text)
    return load(path)


def test_a_grid_s_cases(tmp_path: Path) -> None:
    study = loaded(tmp_path, TEXT)
    assert (study.name, study.what, len(study.cases)) == ("loss-and-rate", "two codecs over loss and rate", 8)
    assert study.cases[1] == {
        "task": "digits", "steps": 40, "no-feedback": True, "systems": "thc", "loss": 0, "bw": 10, "seed": 2
    }  # fmt: skip
    assert study.options() == ["systems", "loss"]
    assert [column.name for column in study.columns] == ["accuracy", "step_s"]
    assert study.figures == (Figure("loss", "step_s", by="systems", log_y=True),)


def test_a_case_is_a_run(tmp_path: Path) -> None:
    options = options_of(loaded(tmp_path, TEXT).cases[-1])
    assert (options.systems, options.conditions.loss, options.link.mbit) == (("topk",), 0.01, 10)
    assert (options.train.seed, options.train.max_steps, options.train.system) == (2, 40, {"error_feedback": False})


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("name: loss-and-rate", "name: 3", ":2: name: must be a text"),
        ("name: loss-and-rate", "name: Loss", ":2: study 'Loss': a name has small letters"),
        ("name: loss-and-rate\n", "", ": name: must be there"),
        ("what:", "why:", ":3: file: 'why': known are name, what"),
        ("steps: 40", "stps: 40", ":4: stps=40: no option of `run`; known are"),
        ("steps: 40", "steps: many", ":4: steps='many': must be a number"),
        ("no-feedback: true", "no-feedback: 1", ":4: no-feedback=1: must be true or false"),
        ("bw: 10", "bw: 0", ":6: bw=0: a link has 0.1 to 10000 Mbit/s"),
        ("bw: 10", "bw: [[10]]", ":8: bw: must be a number, a text"),
        ("bw: 10", "bw: []", ":8: bw: must be a value"),
        ("bw: 10", "quorum: 3", ":6: systems=thc: quorum is only for thc-bounded, dlcp"),
        ("[1, 2]", "[1, 1]", ":2: study loss-and-rate: case"),
        ("accuracy, step_s", "accurate", ":10: columns: 'accurate': known are accuracy"),
        ("by: systems", "by: system_", ":11: figures: 'system_': known are"),
        ("by: systems", "bye: systems", ":11: figures: 'bye': known are x, y"),
        ("log_y: true", "log_y: yes please", ":11: figures: log_y: 'yes please': must be bool"),
        ("x: loss, ", "", ":11: figures: x: must be there"),
        ("grid:", "grid: [", "not YAML"),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, old: str, new: str, why: str) -> None:
    assert old in TEXT
    with pytest.raises(OptionError) as refusal:
        loaded(tmp_path, TEXT.replace(old, new, 1))
    assert why in str(refusal.value)
    assert str(refusal.value).startswith(str(tmp_path))
