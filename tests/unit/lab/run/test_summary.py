# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Numbers of summary.json out of records made by hand, and how they are shown."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sumwire_lab.errors import LabError
from sumwire_lab.options.recipes import DIGITS, TEXT
from sumwire_lab.options.run_options import RunOptions
from sumwire_lab.run import report
from sumwire_lab.run.results import (
    RecordFollower,
    StepRecord,
    SystemResult,
    WorkerRecord,
    bits_per_value,
    percentile,
    ratio,
    run_summary,
    steps_to_target,
    system_summary,
    time_to_target,
)
from sumwire_lab.run.training_run import TrainingProgress, line


def step(number: int, **changes: Any) -> StepRecord:
    base: dict[str, Any] = {
        "step": number,
        "loss": 1.0,
        "clock_s": 2.0 * (number + 1),
        "step_s": 2.0,
        "comm_s": 1.0,
        "tx_bytes": 100,
        "rx_bytes": 300,
        "accuracy": 0.5,
    }
    return StepRecord(**{**base, **changes})


def worker(steps: list[StepRecord], fingerprint: str | None = "f", **stats: int) -> WorkerRecord:
    return WorkerRecord(rank=0, total_steps=len(steps), parameters=7, steps=steps, fingerprint=fingerprint, stats=stats)


def test_times_to_the_target() -> None:
    steps = [step(0, accuracy=0.2), step(1, accuracy=0.95), step(2, accuracy=0.4), step(3, accuracy=0.99)]
    assert time_to_target(steps, 0.95) == 4.0
    assert steps_to_target(steps, 0.95) == 2
    assert time_to_target(steps, 0.995) is None
    assert steps_to_target([], 0.5) is None


def test_averages_leave_out_the_first_two_steps_and_take_all_workers() -> None:
    first = [step(0, comm_s=90.0), step(1, comm_s=90.0), step(2, comm_s=1.0), step(3, comm_s=2.0, accuracy=0.97)]
    second = [step(0, comm_s=90.0), step(1), step(2, comm_s=3.0, tx_bytes=500), step(3, comm_s=6.0)]
    entry = system_summary(SystemResult("gloo", (worker(first), worker(second)), wall_s=11.0), DIGITS)
    assert entry["comm_s_per_step"] == pytest.approx(3.0)
    assert entry["wire_bytes_per_step"] == pytest.approx(500.0)  # 400 and once 800
    assert (entry["accuracy"], entry["steps"], entry["time_to_target_s"]) == (0.97, 4, 8.0)
    assert (entry["train_s"], entry["wall_s"], entry["parameters"]) == (8.0, 11.0, 7)
    assert "nmse" not in entry


def test_the_codecs_share_of_the_communication_where_it_is_counted() -> None:
    counted = [step(k, codec_s=0.25 * k) for k in range(4)]
    assert system_summary(SystemResult("thc", (worker(counted),), 1.0), DIGITS)["codec_s_per_step"] == 0.625
    assert system_summary(SystemResult("gloo", (worker([step(0), step(1)]),), 1.0), DIGITS)["codec_s_per_step"] is None


def test_the_distribution_of_a_steps_time_and_what_is_not_communication() -> None:
    steps = [step(0, step_s=99.0), step(1, step_s=99.0), *(step(2 + k, step_s=2.0 + k) for k in range(4))]
    entry = system_summary(SystemResult("gloo", (worker(steps),), 1.0), DIGITS)
    assert (entry["step_s"], entry["step_s_p50"], entry["step_s_p99"]) == (3.5, 3.0, 5.0)
    assert entry["compute_s_per_step"] == pytest.approx(2.5)
    assert entry["comm_s_per_step_p99"] == 1.0


@pytest.mark.parametrize(("percent", "expected"), [(0, 1.0), (50, 2.0), (75, 3.0), (76, 4.0), (99, 4.0), (100, 4.0)])
def test_percentiles(percent: int, expected: float) -> None:
    assert percentile([3.0, 1.0, 4.0, 2.0], percent) == expected


def test_powersgds_first_steps_with_whole_gradients_are_not_measured() -> None:
    steps = [*(step(k, comm_s=50.0) for k in range(3)), step(3, comm_s=1.0), step(4, comm_s=3.0)]
    entry = system_summary(SystemResult("powersgd", (worker(steps),), 1.0), DIGITS)
    assert (entry["comm_s_per_step"], entry["warm_up_steps"]) == (2.0, 3)


def test_steps_without_a_look_at_the_test_count_for_all_but_accuracy() -> None:
    steps = [step(k, accuracy=None if k % 2 == 0 else 0.2 * k, bits=None if k % 2 == 0 else 5.0 - k) for k in range(5)]
    entry = system_summary(SystemResult("gloo", (worker(steps),), 1.0), TEXT)
    assert (entry["accuracy"], entry["bits_per_answer"]) == (pytest.approx(0.6), 2.0)
    assert (entry["time_to_target_s"], entry["steps_to_target"]) == (8.0, 4)
    text = line("gloo", worker(steps), 1.0)
    assert "accuracy  60.00 %" in text
    assert "accuracy       -" in line("gloo", worker(steps[:1]), 1.0)


def test_a_system_through_the_switch_has_more_numbers() -> None:
    workers = (
        worker([step(k, nmse=0.02 if k == 1 else 0.04 if k == 2 else None) for k in range(4)], retransmissions=3),
        worker([step(k, nmse=9.0) for k in range(4)], retransmissions=4, fallbacks=1),
    )
    entry = system_summary(SystemResult("thc", workers, 1.0, extra={"more": 5}), DIGITS)
    assert entry["nmse"] == pytest.approx(0.03)
    assert (entry["nmse_samples"], entry["retransmissions"], entry["fallbacks"], entry["more"]) == (2, 7, 1, 5)


@pytest.mark.parametrize(("prints", "equal"), [(("a", "a"), True), (("a", "b"), False), ((None, None), False)])
def test_replicas_are_equal_only_if_all_ended_alike(prints: tuple[str | None, ...], equal: bool) -> None:
    result = SystemResult("gloo", tuple(worker([step(0)], p) for p in prints), 1.0)
    assert system_summary(result, DIGITS)["replicas_equal"] is equal


@pytest.mark.parametrize("counts", [(0, 0), (2, 3)])
def test_workers_without_or_with_unequal_steps_are_an_error(counts: tuple[int, ...]) -> None:
    workers = tuple(worker([step(k) for k in range(count)]) for count in counts)
    with pytest.raises(LabError, match="thc"):
        system_summary(SystemResult("thc", workers, 1.0), DIGITS)


def both() -> tuple[dict[str, Any], list[SystemResult]]:
    gloo = [step(k, comm_s=6.0, clock_s=10.0 * (k + 1), accuracy=0.5 + 0.1 * k) for k in range(6)]
    thc = [step(k, comm_s=1.0, clock_s=2.0 * (k + 1), accuracy=0.5 + 0.1 * k) for k in range(6)]
    results = [SystemResult("gloo", (worker(gloo),), 1.0), SystemResult("thc", (worker(thc),), 1.0)]
    return run_summary(RunOptions(workers=1), "soft", results), results


def test_the_summary_has_the_promised_keys() -> None:
    summary, _ = both()
    assert {"workers", "link_mbit", "switch", "systems"} <= set(summary)
    promised = {"accuracy", "time_to_target_s", "comm_s_per_step", "wire_bytes_per_step", "steps"}
    assert promised <= set(summary["systems"]["gloo"])
    assert promised | {"nmse", "retransmissions", "fallbacks"} <= set(summary["systems"]["thc"])
    json.dumps(summary)


def test_ratios() -> None:
    summary, _ = both()
    assert ratio(summary, "comm_s_per_step", "thc") == pytest.approx(6.0)
    assert ratio(summary, "time_to_target_s", "thc") == pytest.approx(5.0)
    assert ratio(summary, "nmse", "thc") is None
    assert ratio(summary, "comm_s_per_step", "marsit") is None


def test_the_table_shows_the_numbers() -> None:
    summary, _ = both()
    lines = {text.split("  ")[0]: text.split() for text in report.table(summary).splitlines()}
    assert lines["communication per step, s"][-3:] == ["6.000", "1.000", "6.00"]
    assert lines["test accuracy, %"][-2:] == ["100.00", "100.00"]
    assert lines["NMSE of the gradient"][-2:] == ["-", "-"]
    assert lines["replicas bit-equal"][-2:] == ["yes", "yes"]
    compared = [text for text in report.table(summary).splitlines() if "step, s" in text]
    assert len(compared) > 1 and len({len(text) for text in compared}) == 1, "columns line up"


def test_unlike_settings_are_told_below_the_table() -> None:
    _, (gloo, thc) = both()

    def text(*, gloo_on: bool, thc_on: bool) -> str:
        results = [replace(gloo, extra={"offloads": gloo_on}), replace(thc, extra={"offloads": thc_on})]
        return report.table(run_summary(RunOptions(workers=1), "bmv2", results))

    differ = text(gloo_on=True, thc_on=False)
    assert "offloads are on for gloo, and off for thc. The switch (bmv2)" in differ
    assert "hosts' offloads on" in differ
    assert "Not the same" not in text(gloo_on=True, thc_on=True)


def test_a_run_of_one_system_has_no_comparison() -> None:
    _, results = both()
    text = report.table(run_summary(RunOptions(), "soft", results[1:]))
    assert "gloo /" not in text
    assert len(text.splitlines()[0].split()) == 1


def test_of_several_systems_each_is_compared_in_a_row() -> None:
    _, results = both()
    more = [*results, SystemResult("marsit", (worker([step(k, comm_s=0.5) for k in range(4)]),), 1.0)]
    text = report.table(run_summary(RunOptions(workers=1), "soft", more))
    lines = {line.split("  ")[0]: line.split() for line in text.splitlines()}
    assert text.splitlines()[0].split() == ["gloo", "thc", "marsit"]
    assert lines["communication speed-up over gloo"][-3:] == ["1.00", "6.00", "12.00"]


def test_bits_per_value_count_every_step_and_can_leave_headers_out() -> None:
    # 7 parameters; 2 workers with 3 steps each: 42 values.
    headers = {"tx_header_bytes": 74, "rx_header_bytes": 148}
    steps = [step(k, tx_bytes=74 + 7, rx_bytes=2 * 74 + 14, **headers) for k in range(2)]
    steps.append(step(2, tx_bytes=74 + 70, rx_bytes=74, tx_header_bytes=74, rx_header_bytes=74))
    bits = bits_per_value([worker(steps), worker(steps)])
    assert bits["payload_bits_per_value_up"] == pytest.approx(8 * (7 + 7 + 70) / 21)
    assert bits["payload_bits_per_value_down"] == pytest.approx(8 * (14 + 14 + 0) / 21)
    assert bits["bits_per_value_up"] == pytest.approx(8 * (84 + 3 * 74) / 21)
    assert bits["bits_per_value_down"] == pytest.approx(8 * (28 + 5 * 74) / 21)


def test_a_line_half_written_waits_for_its_end(tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    follower = RecordFollower(path)
    assert follower.poll() is False
    whole = json.dumps({"kind": "start", "rank": 2, "steps": 9, "parameters": 5}) + "\n"
    path.write_text(whole + '{"kind": "end", "fin')
    assert follower.poll() is True
    assert (follower.record.rank, follower.record.total_steps, follower.record.fingerprint) == (2, 9, None)
    with path.open("a") as file:
        file.write('gerprint": "x", "stats": {"stale": 1}}\n')
    assert follower.poll() is True
    assert (follower.record.fingerprint, follower.record.stats) == ("x", {"stale": 1})
    assert follower.poll() is False


def test_a_line_of_unknown_kind_is_an_error() -> None:
    with pytest.raises(LabError, match="gossip"):
        WorkerRecord().take('{"kind": "gossip"}')


def test_progress_names_step_and_time_left() -> None:
    record = worker([step(0), step(1, loss=0.25, accuracy=0.9)])
    record.total_steps = 8
    text = line("thc", record, elapsed_s=10.0)
    assert re.search(r"thc +step +2/8 .*0\.2500.* 90\.00 %.* left +30 s", text)


def test_progress_speaks_of_the_last_step_and_calls_back_once(tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    said: list[str] = []
    calls: list[int] = []
    progress = TrainingProgress("thc", [RecordFollower(path)], said.append, lambda: calls.append(1))
    progress.tick()
    assert (said, calls) == ([], [])
    record = {"kind": "step", "loss": 1, "clock_s": 1, "step_s": 1, "comm_s": 1, "tx_bytes": 1, "rx_bytes": 1}
    lines = [{"kind": "start", "rank": 0, "steps": 2, "parameters": 1}]
    lines += [{**record, "step": k, "accuracy": 0.5, "nmse": None} for k in range(2)]
    path.write_text("".join(json.dumps(entry) + "\n" for entry in lines))
    progress.tick()
    progress.tick()
    assert calls == [1]
    assert len(said) == 1
    assert "2/2" in said[0]
