# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of verify-speed and their order, with the experiments replaced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sumwire_lab.bench.commands.allreduce import AllReduceCommand, Row, SizeRow
from sumwire_lab.errors import ProcessDiedError
from sumwire_lab.system.drop_counters import Losses
from sumwire_lab.verify.plans import speed as verify_speed
from sumwire_lab.verify.rows import speed as speed_checks
from sumwire_lab.verify.rows.shared import codec
from sumwire_lab.verify.rows.speed import SETTINGS, Setting

FAST: dict[str, Any] = {
    "packets_per_second": {"native": 400_000.0, "native-trains": 1.7e6, "python": 60_000.0, "bmv2": 20_000.0},
    "generator_alone": 600_000.0,
    "generator_alone_trains": 2e6,
}
CLEAN = Losses(0, 0, 0, 0)


def verdicts(rows: list[Any]) -> list[bool | None]:
    return [row.holds for row in rows]


def test_rows_of_the_packet_rates() -> None:
    assert verdicts(speed_checks.rates(FAST)) == [True] * 6
    slow = {"native": 159_999.0, "native-trains": 639_000.0, "python": 60_000.0, "bmv2": 20_000.0}
    assert verdicts(speed_checks.rates({**FAST, "packets_per_second": slow})) == [False] * 3 + [True] * 3
    assert verdicts(speed_checks.rates({**FAST, "generator_alone": 400_000.0}))[-2:] == [False, True]
    assert verdicts(speed_checks.rates({**FAST, "generator_alone_trains": 1.7e6}))[-2:] == [True, False]
    without = {"native": 400_000.0, "native-trains": 1.7e6, "python": 60_000.0}
    assert verdicts(speed_checks.rates({**FAST, "packets_per_second": without})) == [None, *[True] * 5]
    singles = {"native": 400_000.0, "python": 60_000.0}
    assert verdicts(speed_checks.rates({**FAST, "packets_per_second": singles})) == [None, True, None, True, True]


def result(system: str, seconds: float, share: float = 0.9, lost: Losses = CLEAN, values: int = 2_500_000) -> Row:
    switch = None if system == "gloo" else 0.012345678
    one = SizeRow(100.0, values, system, seconds, 0.1, share, 0.03, switch)
    return Row(system, 100.0, (one,), lost, 0, offloads=True)


SETTING = SETTINGS[0]
RESULTS = [result("gloo", 1.5, lost=Losses(9, 0, 0, None)), result("thc", 0.3), result("sign", 0.05)]


def test_rows_of_an_all_reduce() -> None:
    rows = speed_checks.all_reduce(SETTING, RESULTS)
    assert verdicts(rows) == [True] * 7
    assert [row.target for row in rows] == [">= 5", ">= 30", ">= 0.85", "reported", "reported", "0", "0"]
    assert rows[4].value == {"thc": 0.01235, "sign": 0.01235}, "no process is charged for a bridge's work"
    slow = [RESULTS[0], result("thc", 0.301, share=0.849), result("sign", 0.051)]
    assert verdicts(speed_checks.all_reduce(SETTING, slow))[:3] == [False, False, False]


@pytest.mark.parametrize(
    ("lost", "holds"),
    [
        (CLEAN, True),
        (Losses(1, 0, 0, 0), False),
        (Losses(0, 1, 0, 0), False),
        (Losses(0, 0, 1, 0), False),
        (Losses(0, 0, 0, 1), False),
        (Losses(0, 0, 0, None), None),
        (Losses(0, 0, 1, None), False),
    ],
)
def test_a_lost_packet_anywhere_does_not_hold(lost: Losses, holds: bool | None) -> None:
    rows = speed_checks.all_reduce(SETTING, [RESULTS[0], result("thc", 0.3, lost=lost), RESULTS[2]])
    assert rows[-2].holds is holds
    assert "THC" in rows[-2].check
    assert rows[-1].holds is True


def test_the_settings_are_those_of_the_targets() -> None:
    assert [(s.link_mbit, 4 * s.values, dict(s.ratios)) for s in SETTINGS] == [
        (100.0, 10_000_000, {"thc": 5.0, "sign": 30.0}),
        (1000.0, 40_000_000, {"thc": 1.2, "sign": 6.0}),
    ]


def test_rows_of_the_run() -> None:
    def of(switch: str, engine: str | None, mbit: float) -> list[bool | None]:
        return verdicts(speed_checks.engine({"switch": switch, "engine": engine, "link_mbit": mbit}))

    assert of("soft", "native", 100.0) == [True, True]
    assert of("soft", "python", 100.0) == [None, True]
    assert of("bmv2", None, 10.0) == [False, False]


def test_codec() -> None:
    assert [codec(ms, speed_checks.CODEC_MS_MAX).holds for ms in (15.0, 15.1)] == [True, False]


@pytest.fixture
def experiments(monkeypatch: pytest.MonkeyPatch) -> None:
    """All succeed, with the numbers above."""

    def measured(command: Any, *_: Any) -> list[Any]:
        if not isinstance(command, AllReduceCommand):
            return []
        gloo, thc, sign = (3.0, 0.6, 0.1) if command._rates == [1000.0] else (1.5, 0.3, 0.05)
        times = (("gloo", gloo), ("thc", thc), ("sign", sign))
        return [result(name, s, values=command._sizes[0]) for name, s in times]

    entry = {"accuracy": 0.98, "comm_s_per_step": 0.03, "time_to_target_s": 1.0, "replicas_equal": True}
    systems = {"gloo": {**entry, "comm_s_per_step": 0.17, "time_to_target_s": 5.0}, "thc": entry}
    summary = {"switch": "soft", "engine": "native", "link_mbit": 100.0, "systems": systems}
    monkeypatch.setattr(verify_speed.bench_switch, "present", lambda: ["native", "python", "bmv2"])
    monkeypatch.setattr(verify_speed.SwitchCommand, "record", lambda *_: {"ops": {"thc": FAST}})
    monkeypatch.setattr(verify_speed, "run_in_network", measured)
    monkeypatch.setattr(verify_speed, "codec_ms", lambda _: 12.0)
    monkeypatch.setattr(verify_speed, "run", lambda options, results, say: (summary, results))


def test_all_rows_are_made_and_written(experiments: None, tmp_path: Path) -> None:
    done = verify_speed.plan(tmp_path, lambda line: None).carry_out(tmp_path, lambda line: None)
    rows = json.loads((tmp_path / "verify-speed.json").read_text())
    assert rows == [check.as_dict() for check in done]
    assert {row["holds"] for row in rows} == {True}
    assert all({"check", "value", "target", "holds"} <= set(row) for row in rows)
    assert len(rows) == 6 + 7 + 6 + 1 + 5
    assert len({row["check"] for row in rows}) == len(rows), "no two rows of one name"


def test_a_failed_experiment_is_a_row_and_no_end(
    experiments: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = verify_speed.run_in_network

    def run_in_network(command: Any, *others: Any) -> Any:
        if isinstance(command, AllReduceCommand):
            raise ProcessDiedError("worker1 ended with -9")
        return measured(command, *others)

    monkeypatch.setattr(verify_speed, "run_in_network", run_in_network)
    done = verify_speed.plan(tmp_path, lambda line: None).carry_out(tmp_path, lambda line: None)
    failed = [check for check in done if check.holds is False]
    assert [check.check for check in failed] == [f"all-reduce, {setting.name}" for setting in SETTINGS]
    assert isinstance(SETTINGS[0], Setting) and done[-1].holds is True
