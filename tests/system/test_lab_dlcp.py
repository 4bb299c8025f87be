# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""System dlcp in whole runs: missing shares, stragglers, packets that the switch drops; replicas are always equal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sumwire_lab.options.conditions import Conditions, OfHost
from sumwire_lab.options.priority_lanes import DegradeOptions, LanedOptions
from sumwire_lab.options.run_options import LinkOptions, RunOptions, TrainOptions
from sumwire_lab.run.training_run import run

pytestmark = [pytest.mark.mininet, pytest.mark.root]

STEPS = 8
TRAIN = TrainOptions(hidden=256, batch=32, max_steps=STEPS, nmse_samples=2)


def train(tmp_path: Path, **options: Any) -> tuple[dict[str, Any], Path]:
    """dlcp's entry of the summary, and the run's folder."""
    given: dict[str, Any] = {"workers": 3, "link": LinkOptions(200.0), "train": TRAIN, "deadline_s": 110.0, **options}
    summary, folder = run(RunOptions(systems=("dlcp",), **given), tmp_path, lambda line: None)
    entry: dict[str, Any] = summary["systems"]["dlcp"]
    assert entry["replicas_equal"]
    assert (entry["steps"], entry["fallbacks"]) == (STEPS, 0)
    return entry, folder


def steps_of(folder: Path, worker: int) -> list[dict[str, Any]]:
    records = map(json.loads, (folder / "dlcp" / f"worker{worker}.jsonl").read_text().splitlines())
    return [record for record in records if record["kind"] == "step"]


@pytest.mark.parametrize("switch", ["soft", pytest.param("aggregator", marks=pytest.mark.long)])
def test_losses_leave_no_more_out_than_the_bound(switch: str, tmp_path: Path) -> None:
    laned, bound = LanedOptions(loss_bound=0.05), 0.05
    entry, folder = train(tmp_path, switch=switch, conditions=Conditions(loss=0.02), laned=laned)
    assert entry["lost_at_random"] > 0
    assert 0 < entry["missing"] == 3 * entry["left_out"]
    assert 0 < entry["tensor_missing_max"] <= bound
    # Front layers and back layers go in lanes of their own.
    assert len(entry["tensor_by_lane"]) > 1
    assert ("queue_classes" in entry["drops"]) == (switch == "soft")
    tensors = [one for step in steps_of(folder, 0) for one in step["tensors"]]
    assert {one["priority"] for one in tensors} <= {7, 5, 3, 1}
    assert all(one["seconds"] > 0 for one in tensors)


@pytest.mark.long
def test_without_a_bound_nothing_is_missing(tmp_path: Path) -> None:
    laned = LanedOptions(loss_bound=0.0, lanes=2)
    entry, _ = train(tmp_path, switch="soft", conditions=Conditions(loss=0.02), laned=laned)
    assert entry["lost_at_random"] > 0
    assert entry["retransmissions"] > 0
    assert entry["tensor_missing_max"] == 0
    assert "left_out" not in entry or entry["left_out"] == 0


def test_a_quorum_does_not_wait_for_a_slow_worker(tmp_path: Path) -> None:
    conditions = Conditions(gray=OfHost(2, 0.01), slow=OfHost(2, 100.0))
    entry, folder = train(tmp_path, switch="soft", conditions=conditions, laned=LanedOptions(quorum=2))
    followed = [step["step"] for step in steps_of(folder, 1) if step.get("followed")]
    # DDP lays out its buckets in the first steps, which all make together.
    assert followed
    assert min(followed) >= 3
    assert entry["followed"][1] == len(followed)
    assert all(step["loss"] is None for step in steps_of(folder, 1) if step.get("followed"))


def test_the_switch_cuts_packets_on_purpose(tmp_path: Path) -> None:
    laned = LanedOptions(degrade=DegradeOptions("trim", 0.2))
    entry, _ = train(tmp_path, switch="soft", laned=laned)
    assert entry["trimmed"] > 0


@pytest.mark.long
def test_lanes_over_two_spines(tmp_path: Path) -> None:
    link = LinkOptions(200.0, trunk_mbit=100.0)
    entry, _ = train(tmp_path, switch="soft", workers=2, topology="leaf-spine2", link=link)
    assert entry["accuracy"] > 0.2
