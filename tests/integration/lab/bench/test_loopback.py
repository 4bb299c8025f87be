# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""gloo and Sumwire in turn on loopback: workers and a software aggregator as processes of this machine."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from sumwire_lab.bench.interleaved import bench
from sumwire_lab.options.bench_options import InterleavedOptions
from sumwire_lab.study import workers


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> dict[str, subprocess.Popen[bytes]]:
    """All processes that were started, by the name of their log."""
    processes: dict[str, subprocess.Popen[bytes]] = {}
    start = workers.started

    def noted(command: list[str], log: Path, **options: Any) -> subprocess.Popen[bytes]:
        processes[log.stem] = start(command, log, **options)
        return processes[log.stem]

    monkeypatch.setattr(workers, "started", noted)
    return processes


def test_both_ways_are_measured_and_nothing_is_left(started: dict[str, Any]) -> None:
    options = InterleavedOptions((100, 5000), systems=("thc",), repeats=2, workers=2)
    rows = bench(options).measure_here(lambda line: None).rows()
    assert [(row["system"], row["link_mbit"], row["values"]) for row in rows] == [
        ("thc", None, 100),
        ("thc", None, 5000),
    ]
    assert all(row["gloo_s"] > 0 and row["seconds"] > 0 for row in rows)
    assert [row["by_group"] for row in rows] == [0, 0], "without a tuning table all goes through the aggregator"
    assert sorted(started) == ["aggregator", "worker0", "worker1"]
    assert all(process.poll() is not None for process in started.values())


def test_the_automatic_choice_is_measured_first_and_then_kept() -> None:
    options = InterleavedOptions((3000,), systems=("auto",), repeats=4, workers=2)
    (row,) = bench(options).measure_here(lambda line: None).rows()
    assert row["by_group"] in (0, 1), "one way for one size"
