# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of verify-speed and their order, with the experiments replaced."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sumwire_lab.bench.benchmark import Bench
from sumwire_lab.errors import LabError
from sumwire_lab.experiments import signs_alone
from sumwire_lab.options.run_options import RunOptions
from sumwire_lab.system.counters import Losses
from sumwire_lab.verify import plan, speed
from sumwire_lab.verify.commands import verify
from sumwire_lab.verify.plan import Verification
from sumwire_lab.verify.speed import SETTINGS, SMALL_SIZES

FAST: dict[str, Any] = {
    "packets_per_second": {"native": 400_000.0, "native-trains": 1.7e6, "python": 60_000.0, "bmv2": 20_000.0},
    "cpu_us": {"native": 4.0, "bmv2": 120.0},
    "generator_alone": 600_000.0,
    "generator_alone_trains": 2e6,
}
# Eight times the values in a packet, at two thirds of the rate and three times the price.
LONG = {"packets_per_second": {"native": 266_000.0, "bmv2": 13_000.0}, "cpu_us": {"native": 12.0, "bmv2": 200.0}}
CLEAN = asdict(Losses(0, 0, 0, 0))


def verdicts(rows: list[Any]) -> list[bool | None]:
    return [row.holds for row in rows]


def test_rows_of_the_packet_rates() -> None:
    assert verdicts(speed.rate_checks(FAST)) == [True] * 7
    slow = {"native": 159_999.0, "native-trains": 639_000.0, "python": 60_000.0, "bmv2": 20_000.0}
    assert verdicts(speed.rate_checks({**FAST, "packets_per_second": slow})) == [False] * 3 + [True] * 4
    assert verdicts(speed.rate_checks({**FAST, "generator_alone": 400_000.0}))[-2:] == [False, True]
    assert verdicts(speed.rate_checks({**FAST, "generator_alone_trains": 1.7e6}))[-2:] == [True, False]
    without = {"native": 400_000.0, "native-trains": 1.7e6, "python": 60_000.0}
    without_bmv2 = speed.rate_checks({**FAST, "packets_per_second": without})
    assert verdicts(without_bmv2) == [None, *[True] * 3, None, True, True]
    singles = {"native": 400_000.0, "python": 60_000.0}
    assert verdicts(speed.rate_checks({**FAST, "packets_per_second": singles})) == [None, True, None, True, None, True]
    told = speed.rate_checks(FAST)[4]
    assert (told.value, told.target) == (20_000, "reported") and "12,000" in told.check


def result(
    system: str,
    seconds: float,
    share: float = 0.9,
    lost: dict[str, int | None] = CLEAN,
    values: int = 2_500_000,
    cpu: float = 0.03,
    offloads: bool = True,
) -> dict[str, Any]:
    switch = None if system == "gloo" else 0.012345678
    one = {"values": values, "seconds": seconds, "link_share": share, "host_cpu_s": cpu, "switch_cpu_s": switch}
    return {"system": system, "link_mbit": 100.0, "rows": [one], "lost": lost, "offloads": offloads}


SETTING = SETTINGS[0]
RESULTS = [result("gloo", 1.65, lost=asdict(Losses(9, 0, 0, None))), result("thc", 0.3), result("sign", 0.043)]


def test_rows_of_an_all_reduce() -> None:
    rows = speed.all_reduce_checks(SETTING, RESULTS)
    assert verdicts(rows) == [True] * 8
    assert [row.target for row in rows] == [">= 5.5", ">= 38", ">= 0.85", "all", "reported", "reported", "0", "0"]
    assert rows[5].value == {"thc": 0.01235, "sign": 0.01235}, "no process is charged for a bridge's work"
    slow = [RESULTS[0], result("thc", 0.301, share=0.849), result("sign", 0.044)]
    assert verdicts(speed.all_reduce_checks(SETTING, slow))[:3] == [False, False, False]


def test_a_host_must_not_cost_more_per_value_than_one_with_gloo() -> None:
    def verdict(cpu: float) -> bool | None:
        size = SETTINGS[1].values
        done = [result("gloo", 3.6, values=size), result("thc", 1.0, values=size, cpu=cpu)]
        rows = speed.all_reduce_checks(SETTINGS[1], [*done, result("sign", 0.2, values=size, cpu=1.0)])
        (row,) = (row for row in rows if "CPU time of a host per value, THC / gloo" in row.check)
        return row.holds

    assert [verdict(0.03), verdict(0.0301)] == [True, False]


@pytest.mark.parametrize("unequal", [0, 1])
def test_a_comparison_under_unequal_offloads_does_not_hold(unequal: int) -> None:
    done = [result(name, 0.01 if k else 1.0, offloads=k != unequal) for k, name in enumerate(("gloo", "thc", "sign"))]
    (row,) = (row for row in speed.all_reduce_checks(SETTING, done) if "offloads" in row.check)
    assert row.holds is False


@pytest.mark.parametrize(
    ("lost", "holds"),
    [
        (Losses(0, 0, 0, 0), True),
        (Losses(1, 0, 0, 0), False),
        (Losses(0, 1, 0, 0), False),
        (Losses(0, 0, 1, 0), False),
        (Losses(0, 0, 0, 1), False),
        (Losses(0, 0, 0, None), None),
        (Losses(0, 0, 1, None), False),
    ],
)
def test_a_lost_packet_anywhere_does_not_hold(lost: Losses, holds: bool | None) -> None:
    rows = speed.all_reduce_checks(SETTING, [RESULTS[0], result("thc", 0.3, lost=asdict(lost)), RESULTS[2]])
    assert rows[-2].holds is holds
    assert "THC" in rows[-2].check
    assert rows[-1].holds is True


def test_the_settings_are_those_of_the_targets() -> None:
    assert [(s.link_mbit, s.mtu, 4 * s.values, dict(s.ratios), dict(s.cpu)) for s in SETTINGS] == [
        (100.0, 1500, 10_000_000, {"thc": 5.5, "sign": 38.0}, {}),
        (1000.0, 1500, 40_000_000, {"thc": 3.5, "sign": 16.0}, {"thc": 1.0}),
        (10_000.0, 1500, 100_000_000, {"thc": 1.0, "sign": 3.0}, {}),
        (10_000.0, 9000, 100_000_000, {"thc": 2.0}, {"thc": 0.4}),
    ]


def small(ratio: float, rate: float | None = 100.0, sizes: Sequence[int] = SMALL_SIZES) -> list[dict[str, Any]]:
    about = {"system": "auto", "link_mbit": rate, "speed_up": ratio, "by_group": 0.0}
    return [{**about, "values": size} for size in sizes]


def test_rows_of_small_tensors() -> None:
    rows = speed.small_tensor_checks(100.0, small(1.5))
    assert verdicts(rows) == [True] * 6
    assert [row.target for row in rows] == [">= 0.95"] * 3 + [">= 1.5"] * 2 + ["reported"]
    assert verdicts(speed.small_tensor_checks(100.0, small(1.49))) == [True] * 3 + [False] * 2 + [True]
    assert verdicts(speed.small_tensor_checks(1000.0, small(0.95, 1000.0))) == [True] * 6
    assert verdicts(speed.small_tensor_checks(1000.0, small(0.94, 1000.0))) == [False] * 5 + [True]
    assert SMALL_SIZES == (1_000, 3_000, 10_000, 30_000, 100_000)


def test_the_codecs_and_the_aggregators_numbers_are_those_of_their_benchmarks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def run(command: list[str], **_: Any) -> SimpleNamespace:
        asked.append(command)
        Path(command[-1]).write_text('{"cpu_us": 0.5}')
        return SimpleNamespace(returncode=1, stdout="")

    monkeypatch.setattr(plan.subprocess, "run", run)
    assert plan.aggregator_us(tmp_path) == 0.5, "its own target is another matter"
    assert plan.codec_record(tmp_path) == {"cpu_us": 0.5}
    assert ["aggregator" in asked[0], "codec" in asked[1]] == [True, True]


def test_a_benchmark_that_writes_nothing_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of an earlier run is none of this one."""
    (tmp_path / "bench-aggregator.json").write_text('{"cpu_us": 0.1}')
    ended = SimpleNamespace(returncode=1, stdout="port taken\n")
    monkeypatch.setattr(plan.subprocess, "run", lambda *_, **__: ended)
    with pytest.raises(LabError, match=r"sumwire_lab bench aggregator .* ended with 1: port taken"):
        plan.aggregator_us(tmp_path)


@pytest.fixture
def experiments(monkeypatch: pytest.MonkeyPatch) -> None:
    """All succeed, with the numbers above."""

    def measured(_: Verification, bench: Bench) -> list[Any]:
        if bench.study.name == "turns":
            systems = [case["system"] for case in bench.study.cases]
            return [row | {"system": name} for name in systems for row in small(2.0)]
        if bench.study.name != "allreduce":
            return []
        taken = {"gloo": (1.65, 0.03), "thc": (0.3, 0.012), "sign": (0.04, 0.03)}
        of = {one.link_mbit: one.values for one in SETTINGS}
        cases = [(case["system"], of[case["link_mbit"]]) for case in bench.study.cases]
        return [result(name, taken[name][0], values=values, cpu=taken[name][1]) for name, values in cases]

    entry = {"accuracy": 0.98, "comm_s_per_step": 0.03, "time_to_target_s": 1.0, "replicas_equal": True}
    systems = {"gloo": {**entry, "comm_s_per_step": 0.17, "time_to_target_s": 5.0}, "thc": entry}
    summary = {"switch": "soft", "engine": "native", "link_mbit": 100.0, "systems": systems}
    monkeypatch.setattr(plan.shutil, "which", lambda name: f"/usr/bin/{name}")
    made = speed.switch.bench(speed.SwitchBenchOptions(switches=("python",)))
    rated = replace(made, record=lambda _: {"ops": {"thc": FAST, "jumbo": LONG}})
    monkeypatch.setattr(speed.switch, "present", lambda: ["native", "python", "bmv2"])
    monkeypatch.setattr(speed.switch, "bench", lambda _: rated)
    monkeypatch.setattr(Verification, "rows", measured)
    monkeypatch.setattr(speed, "codec_record", lambda _: {"form": "native", "cpu_median_ms": 1.9})
    monkeypatch.setattr(speed, "aggregator_us", lambda _: 0.5)
    monkeypatch.setattr(plan, "run", lambda options, results, say: (summary, results))
    monkeypatch.setattr(signs_alone, "accuracy", lambda train: 0.9)


def test_all_rows_are_made_and_written(experiments: None, tmp_path: Path) -> None:
    done = verify("speed", tmp_path, lambda line: None)
    rows = json.loads((tmp_path / "verify-speed.json").read_text())
    assert rows == [check.as_dict() for check in done]
    assert [row for row in rows if not row["holds"]] == []
    assert all({"check", "value", "target", "holds"} <= set(row) for row in rows)
    assert len(rows) == 7 + 8 + 8 + 7 + 6 + 2 * 6 + 3 + 2 + 1 + 6 + 1 + 2 + 1
    assert len({row["check"] for row in rows}) == len(rows), "no two rows of one name"


def test_rows_of_long_packets() -> None:
    rate, cpu = speed.long_packet_checks({"thc": FAST, "jumbo": LONG})
    assert (rate.value, cpu.value) == (pytest.approx(8 * 0.65), pytest.approx(3 / 8)) and rate.holds and cpu.holds
    slow = {"packets_per_second": {"bmv2": 9_999.0}, "cpu_us": {"native": 16.1}}
    assert verdicts(speed.long_packet_checks({"thc": FAST, "jumbo": slow})) == [False, False]
    alone = {"packets_per_second": {}, "cpu_us": {}}
    assert speed.long_packet_checks({"thc": alone, "jumbo": alone}) == []


def test_medians_are_of_many_repeats(experiments: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, set[int]] = {}
    sent: list[tuple[int, tuple[str, ...]]] = []
    for name, module in (("allreduce", speed.allreduce), ("turns", speed.interleaved)):
        make, found = module.bench, asked.setdefault(name, set())

        def noted(options: Any, make: Any = make, found: set[int] = found) -> Bench:
            found.add(options.repeats)
            if isinstance(options, speed.AllReduceOptions):
                sent.append((options.mtu, options.systems))
            made: Bench = make(options)
            return made

        monkeypatch.setattr(module, "bench", noted)
    verify("speed", tmp_path, lambda line: None)
    assert asked == {"allreduce": {9}, "turns": {200, 100}}
    assert sent == [(1500, ("gloo", "thc", "sign"))] * 3 + [(9000, ("gloo", "thc"))]


def test_bmv2s_run_is_undecided_without_it(experiments: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan.shutil, "which", lambda name: None)
    monkeypatch.setattr(plan, "run", lambda *_: pytest.fail("nothing to run on"))
    (row,) = speed.EXPERIMENTS["make run SWITCH=bmv2"](Verification(tmp_path, print))
    assert (row.holds, row.target) == (None, ">= 2.8") and "simple_switch_grpc" in row.why


@pytest.mark.parametrize(
    ("name", "mtu"), [("make run SWITCH=bmv2", 1500), ("make run SWITCH=bmv2, long packets", 9000)]
)
def test_bmv2s_runs_are_short_and_at_the_default_rate(
    name: str, mtu: int, experiments: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[RunOptions] = []

    def run(options: RunOptions, results: Path, say: Any) -> tuple[dict[str, Any], Path]:
        asked.append(options)
        return {"systems": {}}, results

    monkeypatch.setattr(plan, "run", run)
    speed.EXPERIMENTS[name](Verification(tmp_path, print))
    (options,) = asked
    assert (options.switch, options.link.mbit, options.link.mtu, options.train.max_steps) == ("bmv2", 100.0, mtu, 30)
