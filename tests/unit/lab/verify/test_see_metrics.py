# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of Prometheus and of `sumwire top`, with values that hold and values that do not."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from sumwire.transport.stats import JobStats
from sumwire_lab.experiments.observed_runs import compared
from sumwire_lab.run.results import StepRecord
from sumwire_lab.verify.observability import step_ratio_check, summary_check, top_cost_check

RESENT = "sumwire_job_resent_packets_total"


def record() -> dict[str, Any]:
    """Of two workers that have sent 3 and 4 packets again."""
    from sumwire.job.metrics import FIELDS

    stats = {
        worker: asdict(
            JobStats(retransmissions=3 + worker, retransmissions_quick=1, retransmissions_timeout=2 + worker)
        )
        for worker in (0, 1)
    }
    values = [
        {"__name__": metric.served, "worker": str(worker), "sumwire_job": "1", "value": float(one[field])}
        | dict(zip(metric.labels[2:], labels, strict=True))
        for worker, one in stats.items()
        for field, (metric, labels) in FIELDS.items()
    ]
    summary = {"retransmissions": 7, "fallbacks": 0}
    return {"summary": summary, "stats": stats, "values": values, "top_cores": 0.01, "top_error": ""}


def test_equal_numbers_hold() -> None:
    check = summary_check(record())
    assert check.holds, check.why
    assert check.value["packets sent again"] == 7


@pytest.mark.parametrize("name", [RESENT, "sumwire_job_fallbacks_total", "sumwire_job_sent_bytes_total"])
def test_one_number_that_differs_does_not(name: str) -> None:
    wrong = record()
    next(one for one in wrong["values"] if one["__name__"] == name)["value"] += 1
    check = summary_check(wrong)
    assert check.holds is False and "in Prometheus" in check.why


def test_a_metric_that_is_missing_does_not() -> None:
    wrong = record()
    wrong["values"] = [one for one in wrong["values"] if one["__name__"] != "sumwire_job_values_total"]
    assert summary_check(wrong).holds is False


def test_a_run_without_losses_shows_nothing() -> None:
    quiet = record()
    quiet["summary"]["retransmissions"] = 0
    assert summary_check(quiet).holds is False


@pytest.mark.parametrize(("cores", "error", "holds"), [(0.02, "", True), (0.03, "", False), (0.0, "it ended", False)])
def test_cost_of_top(cores: float, error: str, holds: bool) -> None:
    assert top_cost_check({"top_cores": cores, "top_error": error}).holds is holds


def test_the_median_of_the_pairs_counts() -> None:
    check = step_ratio_check("x", [(0.1, 0.101), (0.2, 0.2), (0.1, 0.3)])
    assert (check.holds, check.value["ratio"], check.value["from, to"]) == (True, 1.01, [1.0, 3.0])
    assert step_ratio_check("x", [(0.1, 0.1), (0.2, 0.21), (0.1, 0.103)]).holds is False
    assert step_ratio_check("x", []).holds is False, "nothing was measured"


def test_windows_with_top_are_compared_with_their_neighbours() -> None:
    """Steps of 1 s where it works, of 0.5 s where it does not; one lies over a border."""

    def step(at_s: float, step_s: float) -> StepRecord:
        return StepRecord(0, None, 0.0, step_s, 0.0, 0, 0, None, at_s=at_s)

    steps = [step(10.0, 1.0), step(11.0, 1.0), step(13.6, 9.0), step(14.0, 0.5), step(15.0, 0.5), step(18.0, 1.0)]
    assert compared(steps, [10.0, 14.0, 18.0, 22.0]) == [(0.5, 1.0), (0.5, 1.0)]
    assert compared(steps, [10.0, 14.0]) == []
    assert compared([], [10.0, 14.0, 18.0]) == []
