# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Time to accuracy over link rates: the plan, the table and the picture, from given trainings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sumwire_lab.bench import page
from sumwire_lab.bench.accuracy import PICTURE, TrainingCase, bench, rates_chart
from sumwire_lab.options import arguments
from sumwire_lab.options.bench_options import RatesOptions, SwitchOptions
from sumwire_lab.options.fields import from_arguments
from sumwire_lab.study.study import run


def measured(case: TrainingCase, options: SwitchOptions, folder: Path, say: object) -> dict[str, Any]:
    """Faster with rate; `slow` never gets there at 10 Mbit/s."""
    seconds = None if case.system == "slow" and case.link_mbit == 10 else 100 / case.link_mbit + case.seed
    about = {"task": case.task, "system": case.system, "link_mbit": case.link_mbit, "target": 0.95}
    return {**about, "time_to_target_s": seconds}


def test_medians_over_seeds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(TrainingCase, "measure", measured)
    monkeypatch.setattr(page, "svg", lambda drawn: f"<svg>{len(drawn.series)} systems")
    made = bench(RatesOptions(systems=("thc", "slow"), bw=(10.0, 100.0), quick=True))
    done = run(made.study, tmp_path, lambda _: None)
    rows = done.rows()
    assert len(rows) == 12 and all(row["quick"] for row in rows)
    assert [line.split() for line in made.shown(done).splitlines()[1:]] == [
        ["thc", "12.0", "3.0"],
        ["slow", "never", "3.0"],
    ]
    assert [one.points for one in rates_chart(rows).series] == [((10.0, 12.0), (100.0, 3.0)), ((100.0, 3.0),)]
    assert (tmp_path / "bench-rates" / PICTURE).read_text() == "<svg>2 systems"
    assert len(made.record(rows)["rows"]) == 12


def test_options() -> None:
    parsed = arguments.parser().parse_args(["bench", "rates", "--systems", "gloo,thc", "--seeds", "4", "--quick"])
    options = from_arguments(RatesOptions, parsed)
    assert options == RatesOptions(systems=("gloo", "thc"), seeds=(4,), quick=True)
