# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The benchmarks, as short as they can be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers import ledgers
from sumwire_lab.options.bench_options import AllReduceOptions, SwitchBenchOptions
from sumwire_lab.options.run_options import UNLIMITED

pytestmark = [pytest.mark.mininet, pytest.mark.root]


def test_all_reduce_of_all_systems(tmp_path: Path) -> None:
    from sumwire_lab.bench.allreduce import bench

    made = bench(AllReduceOptions(sizes=(1, 50_000), bw=(100.0,), workers=2))
    done = made.measure(tmp_path, lambda line: None).rows()
    assert [(r["system"], [row["values"] for row in r["rows"]]) for r in done] == [
        (system, [1, 50_000]) for system in ("gloo", "thc", "sign")
    ]
    rows = [row for r in done for row in r["rows"]]
    assert all(0 < row["seconds"] < 2 for row in rows)
    # The wire cannot be beaten, but for what a burst lets through at once: 12.5 kB of the 50 kB or more here.
    assert all(row["link_share"] <= 1.4 for row in rows if row["values"] > 1 and row["system"] != "sign")
    assert all(row["host_cpu_s"] > 0 for row in rows)
    assert [row["switch_cpu_s"] is None for row in rows] == [True, True, False, False, False, False]
    # Nobody impairs anything here; the switch told it in its log when it ended.
    for r in done[1:]:
        lost = {"link_queues": 0, "backlog": r["lost"]["backlog"], "host_sockets": 0, "switch": 0}
        assert r["lost"] == lost
    record = json.loads(next(tmp_path.glob("*/allreduce.json")).read_text())
    assert (record["workers"], record["switch"], len(record["results"])) == (2, "soft", 3)
    assert not (tmp_path / "latest").exists(), "latest is the newest run's"


def test_sum32_over_links_without_a_limit(tmp_path: Path) -> None:
    from sumwire_lab.bench.allreduce import bench

    made = bench(AllReduceOptions(sizes=(300,), bw=(UNLIMITED,), systems=("sum32",), workers=2))
    (result,) = made.measure(tmp_path, lambda line: None).rows()
    (row,) = result["rows"]
    assert 0 < row["seconds"] < 2 and row["bound_s"] == 0
    stats = json.loads(next(tmp_path.glob("*/cases/*/answer0.json")).read_text())["stats"]
    # A packet of SUM32 and of MAX32 has 24 + 1024 bytes, a contribution of THC half as many, HELLO next to none.
    assert stats["bytes_sent"] > 1000 * stats["packets_sent"] > 0
    assert result["lost"]["switch"] == 0


def test_a_grid_is_measured_once(tmp_path: Path) -> None:
    from sumwire_lab.bench.where import measure
    from sumwire_lab.bench.where.grid import Grid, GridRecord

    path, said = tmp_path / "where.json", list[str]()
    grid = Grid((500, 20_000), (100.0,), ("thc",), ("soft",), workers=2, budget_s=30.0)
    record = measure.measure_grid(grid, path, tmp_path, said.append, resume=False)
    assert next(line for line in said if " of " in line) == "1 of 2: gloo, 100 Mbit/s"
    assert "some" in said[-3] and said[-3].endswith("min left: thc, soft, 100 Mbit/s")
    assert {(key.place.label, key.values) for key in record.cells} == {
        (label, size) for label in ("gloo", "thc, soft") for size in (500, 20_000)
    }
    for cell in record.cells.values():
        assert cell.bound_s > 0 and 0 < cell.seconds < 2 and cell.repeats > 1
        assert cell.host_cpu_s > 0 and (cell.switch_cpu_s is None) == (cell.key.place.label == "gloo")
    assert record.skipped == {} and GridRecord.load(path).cells == record.cells
    said.clear()
    again = measure.measure_grid(grid, path, tmp_path, said.append, resume=True)
    assert (again.cells, said) == (record.cells, [])


def test_packets_per_second_of_the_soft_switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sumwire_lab.bench import switch
    from sumwire_lab.network import switches

    engines = ["python", *(["native"] if switches.choose_engine("auto") == "native" else [])]
    monkeypatch.setattr(switch, "SECONDS", 0.5)
    monkeypatch.setattr(switch, "REPEATS", 1)
    made = switch.bench(SwitchBenchOptions(switches=tuple(engines)))
    rows = made.measure(tmp_path, lambda line: None).rows()
    entry = made.record(rows)["ops"]["thc"]
    assert json.loads(next(tmp_path.glob("*/switch.json")).read_text()) == made.record(rows)
    for one in entry["runs"]:
        # A busy machine may lose packets, but no packet is summed that was not sent, and no result lacks a worker.
        assert 0 < 4 * one["results"] <= one["summed"] <= one["sent"]
        assert entry["packets_per_second"][one["contender"]] > 0
    assert entry["generator_alone"] > 0
    assert list(entry["ratios"]) == ["native / python"][: len(engines) - 1]
    assert not ledgers.of_this_process(), "nothing of the benchmark is left"
