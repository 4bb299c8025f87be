# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A short text training in Mininet, over the group and through the software aggregator, and one all-reduce."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers import ledgers
from sumwire_lab.options.bench_options import AllReduceOptions, InterleavedOptions
from sumwire_lab.options.run_options import LinkOptions, RunOptions, TrainOptions

pytestmark = [pytest.mark.mininet, pytest.mark.root]

STEPS = 6
TRAIN = TrainOptions.of("text", hidden=64, batch=2, max_steps=STEPS, nmse_samples=1)
OPTIONS = RunOptions(
    workers=2,
    link=LinkOptions(200.0, 256),
    train=TRAIN,
    systems=("thc@group", "acp"),
    switch="aggregator",
    deadline_s=100.0,
)


@pytest.mark.long
def test_a_text_is_learnt_over_the_group_and_through_the_software_aggregator(tmp_path: Path) -> None:
    from sumwire_lab.run.training_run import run

    summary, folder = run(OPTIONS, tmp_path, lambda line: None)
    assert not ledgers.of_this_process(), "nothing of the run is left"
    assert (summary["switch"], summary["task"], summary["engine"]) == ("aggregator", "text", None)
    systems = summary["systems"]
    assert list(systems) == ["thc@group", "acp"]
    for entry in systems.values():
        assert entry["steps"] == STEPS and entry["replicas_equal"]
        assert 0 < entry["comm_s_per_step"] < entry["step_s"] <= entry["step_s_p99"]
        # With nothing learnt it would be log2 of the vocabulary, 6.6 bits.
        assert 1 < entry["bits_per_answer"] < 6.4
    assert 0.005 < systems["thc@group"]["nmse"] < 0.3
    assert systems["thc@group"]["lost"]["switch"] is None, "bridges do not tell"
    assert systems["acp"]["fallbacks"] == 0
    assert systems["acp"]["lost"]["switch"] == 0, "the aggregator tells, and lost nothing"
    assert not (folder / "thc@group" / "aggregator.log").exists()
    report = (folder / "acp" / "aggregator.log").read_text()
    assert "LAST" in report, "it has summed"
    assert json.loads((folder / "acp" / "job.json").read_text())["workers"] == 2


def test_one_all_reduce_through_the_software_aggregator_is_charged_to_it(tmp_path: Path) -> None:
    from sumwire_lab.bench.allreduce import bench

    asked = AllReduceOptions(sizes=(50_000,), bw=(200.0,), systems=("thc",), workers=2, switch="aggregator")
    (result,) = bench(asked).measure(tmp_path, lambda line: None).rows()
    (row,) = result["rows"]
    assert row["bound_s"] < row["seconds"] < 5
    assert row["switch_cpu_s"] is not None and row["switch_cpu_s"] > 0, (
        "its processes, not only the one that was started"
    )
    assert result["lost"]["switch"] == 0


def test_gloo_and_the_automatic_choice_in_turn(tmp_path: Path) -> None:
    from sumwire_lab.bench.interleaved import bench

    asked = InterleavedOptions((1000, 30_000), (100.0,), ("auto",), workers=2, repeats=3)
    rows = bench(asked).measure(tmp_path, lambda line: None).rows()
    assert [(row["values"], row["link_mbit"]) for row in rows] == [(1000, 100.0), (30_000, 100.0)]
    assert all(0 < row["seconds"] < 2 and 0 < row["gloo_s"] < 2 and row["by_group"] in (0, 1) for row in rows)
    assert not ledgers.of_this_process(), "nothing of the benchmark is left"
    (record,) = tmp_path.glob("*/turns.json")
    assert len(json.loads(record.read_text())["results"]) == 2
