# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The benchmarks, as short as they can be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sumwire_lab import leftovers
from sumwire_lab.options import RunOptions

pytestmark = [pytest.mark.mininet, pytest.mark.root]


def test_all_reduce_of_both_systems(tmp_path: Path) -> None:
    from sumwire_lab.bench_allreduce import bench

    rows = bench([1, 50_000], [100.0], RunOptions(workers=2, switch="soft"), tmp_path, lambda line: None)
    assert [(r.system, r.values) for r in rows] == [("gloo", 1), ("gloo", 50_000), ("thc", 1), ("thc", 50_000)]
    assert all(0 < r.seconds < 2 for r in rows)
    # The wire cannot be beaten, but for what a burst lets through at once: 12.5 kB of the 50 kB or more here.
    assert all(r.link_share <= 1.4 for r in rows if r.values > 1)
    record = json.loads(next(tmp_path.glob("*/allreduce.json")).read_text())
    assert (record["workers"], record["switch"], len(record["rows"])) == (2, "soft", 4)
    assert not (tmp_path / "latest").exists(), "latest is the newest run's"


def test_packets_per_second_of_the_soft_switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sumwire_lab import bench_switch

    monkeypatch.setattr(bench_switch, "SECONDS", 0.5)
    monkeypatch.setattr(bench_switch, "REPEATS", 1)
    before = set(leftovers.LEDGER_DIR.glob("*.json"))
    record = bench_switch.bench(["soft"], tmp_path, lambda line: None)
    one = record["runs"][0]
    # Every packet that was sent came in, and was summed once: nothing lost, nothing sent again.
    assert one["sent"] == one["summed"] > 0
    assert one["resent"] == 0
    assert 0 < record["packets_per_second"]["soft"] < record["generator_alone"]
    assert record["ratio"] is None
    assert set(leftovers.LEDGER_DIR.glob("*.json")) <= before
