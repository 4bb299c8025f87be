# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The order of verify-thc, with the experiments replaced: one that fails does not stop the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sumwire_lab.experiments import signs_alone
from sumwire_lab.options.run_options import RunOptions
from sumwire_lab.study.check import Check
from sumwire_lab.verify import plan, thc
from sumwire_lab.verify.commands import verify

ENTRY: dict[str, Any] = {
    "accuracy": 0.97,
    "comm_s_per_step": 1.0,
    "time_to_target_s": 10.0,
    "replicas_equal": True,
    "fallbacks": 0,
    "retransmissions": 3,
    "fingerprints": ["a", "a"],
    "malformed": {"sent": {"op": 100_000}, "counted": {"op": 100_000}, "all_sent_during_training": True},
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[RunOptions]:
    """Experiments that all succeed; the options of the runs that were asked for."""
    options: list[RunOptions] = []

    def run(wanted: RunOptions, results: Path, say: Any) -> tuple[dict[str, Any], Path]:
        options.append(wanted)
        systems = {name: dict(ENTRY) for name in wanted.systems}
        if "gloo" in systems:
            systems["gloo"] |= {"comm_s_per_step": 6.0, "time_to_target_s": 50.0}
        return {"systems": systems}, results

    monkeypatch.setattr(plan, "run", run)
    monkeypatch.setattr(signs_alone, "accuracy", lambda train: 0.9)
    monkeypatch.setitem(thc.EXPERIMENTS, "THC oracles", lambda _: [Check("oracle", 1, "1", True)])
    monkeypatch.setattr(thc, "codec_record", lambda results: {"form": "torch", "cpu_median_ms": 30.0})
    monkeypatch.setitem(thc.EXPERIMENTS, "packets per second", lambda _: [Check("rate", 2.0, ">= 1", True)])
    monkeypatch.setattr(plan.shutil, "which", lambda name: None)
    return options


def record(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((folder / "verify-thc.json").read_text())
    return rows


def test_all_rows_are_made_and_written(asked: list[RunOptions], tmp_path: Path) -> None:
    done = verify("thc", tmp_path, lambda line: None)
    rows = record(tmp_path)
    assert rows == [check.as_dict() for check in done]
    assert {row["holds"] for row in rows} == {True, None}
    assert all({"check", "value", "target", "holds"} <= set(row) for row in rows)
    assert [(o.systems, o.switch, o.impair is not None, o.malformed) for o in asked] == [
        (("gloo", "thc"), "soft", False, 0),
        (("thc",), "soft", True, 0),
        (("thc",), "soft", False, 100_000),
    ]
    undecided = [row for row in rows if row["holds"] is None]
    assert len(undecided) == 2
    assert all("bmv2" in row["check"] and "simple_switch_grpc" in row["why"] for row in undecided)


def test_a_run_on_bmv2_is_compared_with_the_soft_one(
    asked: list[RunOptions], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setitem(thc.EXPERIMENTS, "packet tests on bmv2", lambda _: [Check("packets", "ok", "green", True)])
    done = verify("thc", tmp_path, lambda line: None)
    bmv2, soft = asked[-2:]
    assert (bmv2.switch, soft.switch) == ("bmv2", "soft")
    assert (bmv2.link, bmv2.train) == (soft.link, soft.train), "the same training, or bits could not be equal"
    assert [check.target for check in done if "bmv2: communication" in check.check] == [">= 5"]
    assert all(check.holds for check in done)
    assert any("bit-equal to those after the soft switch's run" in check.check for check in done)
