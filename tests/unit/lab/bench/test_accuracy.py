# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Time to accuracy over link rates: the plan, the table and the picture, from given trainings."""

from __future__ import annotations

from pathlib import Path

import pytest
from sumwire_lab.bench import page
from sumwire_lab.bench.accuracy import PICTURE, Accuracy, RatesCommand, TrainingCase, TrainingRow, rates_chart
from sumwire_lab.bench.benchmark import BenchContext
from sumwire_lab.options import arguments
from sumwire_lab.options.bench_options import BenchOptions, RatesOptions
from sumwire_lab.options.fields import from_arguments


def row(case: TrainingCase) -> TrainingRow:
    """Faster with rate; `slow` never gets there at 10 Mbit/s."""
    seconds = None if case.system == "slow" and case.link_mbit == 10 else 100 / case.link_mbit + case.seed
    return TrainingRow(
        case.task, case.system, case.link_mbit, 0.95, 0.97, seconds, 0.1, 0.2, 1e3, 10, 100, True, 0, ((1.0, 0.97),)
    )


def test_medians_over_seeds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    command = RatesCommand(RatesOptions(systems=("thc", "slow"), bw=(10.0, 100.0), quick=True))
    asked: list[BenchOptions] = []

    def measure(self: Accuracy, case: TrainingCase, context: BenchContext) -> list[TrainingRow]:
        asked.append(context.options)
        return [row(case)]

    monkeypatch.setattr(Accuracy, "measure", measure)
    monkeypatch.setattr(page, "svg", lambda drawn: f"<svg>{len(drawn.series)} systems")
    context = BenchContext(BenchOptions(), tmp_path, lambda _: None)
    rows = [one for case in command.plan() for one in command.measure(case, context)]
    assert len(rows) == 12 and asked[0].quick
    assert [line.split() for line in command.text(rows).splitlines()[1:]] == [
        ["thc", "12.0", "3.0"],
        ["slow", "never", "3.0"],
    ]
    assert [one.points for one in rates_chart(rows).series] == [((10.0, 12.0), (100.0, 3.0)), ((100.0, 3.0),)]
    assert (tmp_path / PICTURE).read_text() == "<svg>2 systems"
    assert len(command.record(rows)["rows"]) == 12


def test_options() -> None:
    parsed = arguments.parser().parse_args(["bench", "rates", "--systems", "gloo,thc", "--seeds", "4", "--quick"])
    options = from_arguments(RatesOptions, parsed)
    assert options == RatesOptions(systems=("gloo", "thc"), seeds=(4,), quick=True)
