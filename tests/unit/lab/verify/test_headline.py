# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The rows `headline`: which systems count on which side, and what a ratio needs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sumwire_lab.experiments import signs_alone
from sumwire_lab.options.recipes import BASELINES
from sumwire_lab.options.run_options import RunOptions
from sumwire_lab.options.verify_options import VerifyOptions
from sumwire_lab.verify import headline
from sumwire_lab.verify.plan import Verification

TIMES: dict[str, Sequence[float | None]] = {
    "gloo": [12.0, 11.0, 13.0],
    "powersgd4": [3.0, 5.0, 4.0],
    "naive4": [9.0, 9.0, 9.0],
    "thc": [4.0, 4.0, 5.0],
    "acp": [1.0, None, 1.0],
    "marsit-adaptive": [2.0, 2.0, 2.5],
}


def test_the_best_of_each_side_reaches_the_accuracy_with_every_seed() -> None:
    ratio, table = headline.checks("digits", 0.95, TIMES, 1.5)
    assert ratio.value == {"powersgd4 / marsit-adaptive": 2.0, "gloo / marsit-adaptive": 6.0, "powersgd4 / thc": 1.0}
    assert (ratio.holds, ratio.target) == (True, ">= 1.5")
    assert table.value["acp"] == "never" and table.value["gloo"] == 12.0
    assert headline.checks("digits", 0.95, TIMES, 2.1)[0].holds is False
    assert headline.checks("digits", 0.95, TIMES, None)[0].target == "reported"


def _steps(accuracies: Sequence[float | None]) -> str:
    """A worker's file, whose steps send 2 MB each."""
    step = {"kind": "step", "loss": 1.0, "clock_s": 1.0, "step_s": 1.0, "comm_s": 1.0, "rx_bytes": 0}
    return "".join(
        json.dumps({**step, "step": number, "tx_bytes": 2_000_000, "accuracy": accuracy}) + "\n"
        for number, accuracy in enumerate(accuracies)
    )


def test_what_was_sent_is_told_for_accuracies_on_the_way_and_never_where_a_seed_did_not_get_there(
    tmp_path: Path,
) -> None:
    (tmp_path / "worker0.jsonl").write_text(_steps([0.1, 0.5, None, 0.4, 0.72, 0.9]))
    sent = headline.megabytes_sent(tmp_path, 0.96)
    assert sent == [4.0, 10.0, 12.0, None]
    told = headline.sent_check("cnn", 0.96, {"thc": [sent, [6.0, 8.0, 10.0, 20.0]]})
    assert (told.value, told.holds) == ({"thc": [5.0, 9.0, 11.0, "never"]}, True)


def test_naive_quantization_is_no_system_of_sumwire() -> None:
    without = {name: times for name, times in TIMES.items() if name in ("gloo", "naive4")}
    ratio, _ = headline.checks("digits", 0.95, without, 1.5)
    assert ratio.holds is False and set(ratio.value.values()) == {None}


def test_all_systems_are_trained_in_turn_for_each_seed_up_to_the_target(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[RunOptions] = []

    def run(options: RunOptions, *_: object) -> tuple[dict[str, Any], Path]:
        asked.append(options)
        for name in options.systems:
            (tmp_path / name).mkdir(exist_ok=True)
            (tmp_path / name / "worker0.jsonl").write_text(_steps([0.3, None, 0.96]))
        entries = {name: {"time_to_target_s": 1.0 + (name in BASELINES)} for name in options.systems}
        return {"systems": entries}, tmp_path

    monkeypatch.setattr(headline, "run", run)
    v = Verification(tmp_path, print, VerifyOptions("evidence"))
    for row, seeds, best in (("cnn-10", [1], 0.9), ("cnn-1000", [1, 2, 3], 0.96)):
        monkeypatch.setattr(signs_alone, "by_step", lambda train, best=best: [0.5, best, 0.7])
        asked.clear()
        ratio, _, sent, known_bad = headline.EXPERIMENTS[row](v)
        assert (known_bad.holds, known_bad.target) == (best < 0.96, "not: >= 0.96"), "signs must not reach it"
        assert ratio.value["gloo / thc"] == 2.0
        assert "[50, 75, 90, 100] % of 96%" in sent.check and sent.value["thc"] == [6.0, 6.0, 6.0, 6.0]
        assert [options.train.seed for options in asked] == seeds
        assert {(options.train.task, options.train.until_target) for options in asked} == {("digits-cnn", True)}
        assert {options.systems for options in asked} == {headline.SYSTEMS}


def test_a_server_is_compared_with_the_switch_by_the_same_trainings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[RunOptions] = []

    def entry(_: Verification, options: RunOptions) -> dict[str, float]:
        asked.append(options)
        return {"time_to_target_s": 3.0 + options.server, "comm_s_per_step": 0.1 + 0.3 * options.server}

    monkeypatch.setattr(Verification, "entry", entry)
    monkeypatch.setattr(signs_alone, "by_step", lambda train: [0.5])
    gain, communication, _, known_bad = headline.EXPERIMENTS["server"](
        Verification(tmp_path, print, VerifyOptions("evidence"))
    )
    assert (gain.value, gain.holds, communication.value) == (4 / 3, True, pytest.approx(4))
    assert known_bad.holds
    switch, server = asked[::2], asked[1::2]
    assert [one.train.seed for one in switch] == [1, 2, 3]
    assert server == [replace(one, server=True) for one in switch], "nothing else differs"
    assert {(one.workers, one.switch, one.systems) for one in asked} == {(8, "soft", ("thc",))}


def test_a_server_that_is_as_fast_or_never_there_does_not_hold() -> None:
    def side(seconds: float | None) -> list[dict[str, Any]]:
        return [{"time_to_target_s": seconds, "comm_s_per_step": 1.0}]

    assert headline.server_checks(side(3.0), side(3.0))[0].holds is False
    assert not headline.server_checks(side(3.0), side(None))[0].holds


def test_low_rank_systems_are_compared_over_the_same_group(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[RunOptions] = []

    def run(options: RunOptions, *_: object) -> tuple[dict[str, Any], Path]:
        asked.append(options)
        return {"systems": {name: {"time_to_target_s": 10.0 + len(name)} for name in options.systems}}, tmp_path

    def step(folder: Path, workers: int, system: str) -> float:
        assert (folder, workers) == (tmp_path / system, 4)
        return {"powersgd": 1.2, "acp@group": 0.4 * len(asked)}[system]

    monkeypatch.setattr(headline, "run", run)
    monkeypatch.setattr(headline, "mean_step", step)
    monkeypatch.setattr(signs_alone, "by_step", lambda train: [0.1])
    ratio, until, seconds, known_bad = headline.EXPERIMENTS["low-rank"](
        Verification(tmp_path, print, VerifyOptions("evidence"))
    )
    assert (ratio.value, ratio.holds, until.value) == (pytest.approx(1.5), True, 18 / 19)
    assert known_bad.holds
    assert seconds.value["powersgd"] == [(1.2, 18.0)] * 3
    assert [(one.train.seed, one.train.until_target) for one in asked] == [(1, True), (2, True), (3, True)]
    assert {(one.train.task, one.link.mbit, one.systems) for one in asked} == {
        ("text", 10.0, ("powersgd", "acp@group"))
    }
    assert not headline.low_rank_checks({"powersgd": [(1.2, 5.0)], "acp@group": [(None, 4.0)]})[0].holds
