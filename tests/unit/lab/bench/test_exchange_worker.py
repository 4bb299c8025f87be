# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The benchmark's worker: how many sizes and repeats a budget allows. gloo and Sumwire in turn: whose exchange is
whose, what is made of their times, and the command's options.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from sumwire_lab import cli
from sumwire_lab.bench import exchange_worker
from sumwire_lab.bench.exchange_worker import InTurn, PlainAllReduce, TimedExchange
from sumwire_lab.bench.interleaved import bench, turn_rows
from sumwire_lab.options.bench_options import InterleavedOptions
from sumwire_lab.study.figures import table


class Nothing(TimedExchange):
    def __init__(self) -> None:
        super().__init__(None)

    def begin(self, size: int) -> None: ...

    def prepare(self) -> None: ...

    def exchange(self) -> None: ...

    def end(self) -> None: ...


@pytest.fixture
def repeats(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """Repeats by size. A million values take this worker a second, and the slowest one two."""
    asked: dict[int, int] = {}

    def timed(work: TimedExchange, size: int, count: int, switches: Sequence[int] = ()) -> dict[str, Any]:
        asked[size] = count
        return {"seconds": [size / 1e6] * count}

    monkeypatch.setattr(exchange_worker, "timed", timed)
    monkeypatch.setattr(exchange_worker, "_slowest", lambda seconds: 2 * seconds)
    return asked


def test_without_a_budget_every_size_is_measured(repeats: dict[int, int]) -> None:
    spec = {"sizes": [100_000_000, 1_000, 100_000], "repeats": 3}
    assert len(exchange_worker.timed_sizes(Nothing(), spec, [])) == 3
    assert repeats == {100_000_000: 3, 1_000: 60, 100_000: 10}


def test_a_budget_ends_the_sizes_by_the_slowest_workers_time(repeats: dict[int, int]) -> None:
    # 4 million values take the slowest 8 s, four times.
    spec = {"sizes": [1_000, 1_000_000, 4_000_000, 8_000_000], "repeats": 3, "budget_s": 32.0}
    assert len(exchange_worker.timed_sizes(Nothing(), spec, [])) == 3
    assert repeats.keys() == {1_000, 1_000_000, 4_000_000}
    assert len(exchange_worker.timed_sizes(Nothing(), spec | {"budget_s": 31.9}, [])) == 2


def test_cheap_sizes_get_more_repeats(repeats: dict[int, int]) -> None:
    spec = {"sizes": [1_000, 200_000, 1_000_000], "repeats": 3, "budget_s": 60.0}
    exchange_worker.timed_sizes(Nothing(), spec, [])
    # 0.4 s each fit five times into 2 s, which are also the most by size; of a million values only the least.
    assert repeats == {1_000: 60, 200_000: 5, 1_000_000: 3}


class Stats:
    group_operations = 0

    def as_dict(self) -> dict[str, Any]:
        return {"group_operations": self.group_operations}


class FakeJob:
    stats = Stats()


def test_each_has_its_turn_and_a_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange_worker.dist, "barrier", lambda: None)
    calls: list[tuple[str, int, float]] = []
    job: Any = FakeJob()

    def gloo(tensor: torch.Tensor) -> None:
        calls.append(("gloo", len(tensor), float(tensor.sum())))
        tensor.zero_()

    def other(tensor: torch.Tensor) -> None:
        calls.append(("other", len(tensor), float(tensor.sum())))
        tensor.zero_()
        # Of the small ones, all go by the group.
        job.stats.group_operations += len(tensor) == 10

    both = InTurn(PlainAllReduce(gloo, 3), PlainAllReduce(other, 3, job))
    measured = [exchange_worker.timed(both, size, 4) for size in (10, 20)]
    assert [(name, size) for name, size, _ in calls] == [("gloo", 10), ("other", 10)] * 3 + [
        ("gloo", 20),
        ("other", 20),
    ] * 3
    assert len({total for _, _, total in calls}) == 2, "both get the same tensor, each time anew"
    assert [len(each["seconds"]) for each in measured] == [4, 4]
    assert both.stats() == {"group_operations": 3, "by_group": [1.0, 0.0]}


def test_rows_take_the_slowest_worker_and_the_median_of_each_side() -> None:
    def worker(*seconds: float) -> dict[str, Any]:
        return {"sizes": [{"seconds": list(seconds)}], "stats": {"by_group": [0.5]}}

    # gloo: 3, 9, 6; the other one: 2, 4, 1.
    measured = [worker(3, 1, 9, 4, 2, 1), worker(1, 2, 8, 1, 6, 1)]
    (row,) = turn_rows(None, [1000], measured)
    times = {"gloo_s": 6, "seconds": 2, "speed_up": 3, "by_group": 0.5}
    assert row == {"links": "loopback", "values": 1000, **times}


def test_the_table_and_the_record() -> None:
    made = bench(InterleavedOptions((1000,), (None, 100.0), repeats=7, workers=2))
    assert made.needs_network and not bench(InterleavedOptions()).needs_network
    assert [(case["system"], case["link_mbit"]) for case in made.study.cases] == [
        *(("thc", None), ("auto", None), ("thc", 100.0), ("auto", 100.0))
    ]
    times = {"gloo_s": 0.03, "seconds": 0.02, "speed_up": 1.5, "by_group": 1.0}
    rows = [{"system": "auto", "link_mbit": None, "links": "loopback", "values": 1000, **times}]
    results = made.record(rows)["results"]
    assert results == [{"system": "auto", "links": "loopback", "values": 1000, **times}]
    shown = [(one.name, one.head, one.form) for one in made.study.columns]
    assert table(rows, made.study.options(), shown).splitlines()[1].split() == [
        *("loopback", "1000", "auto", "0.0300", "0.0200", "1.50", "100%")
    ]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--bw", "loopbak"], "bw='loopbak'"),
        (["--systems", "gloo"], "systems=gloo: known are thc, sign, sum32, auto, asking"),
        (["--sizes", "0"], "sizes='0'"),
        (["--repeats", "0"], "repeats=0: must be at least 1"),
    ],
)
def test_wrong_options_are_an_error_of_usage(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["bench", "interleaved", *arguments]) == 2
    assert told in capsys.readouterr().err
