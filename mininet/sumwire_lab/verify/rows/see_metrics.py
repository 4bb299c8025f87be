# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of what Prometheus has of a run, and of what `sumwire top` costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

from sumwire.job.metrics import FIELDS

from sumwire_lab.experiments.watched_steps import METRICS, PLAIN, TOP
from sumwire_lab.verify.check import Check, at_most, holds

TOP_CORES_MAX: Final = 0.02
STEP_RATIO_MAX: Final = 1.02
# Numbers of summary.json, and what they are sums of over the workers: a metric's name.
_SUMS: Final = {
    "retransmissions": "sumwire_job_resent_packets_total",
    "fallbacks": "sumwire_job_fallbacks_total",
    "missing": "sumwire_job_missing_contributions_total",
    "left_out": "sumwire_job_left_out_chunks_total",
    "flushed": "sumwire_job_flushed_packets_total",
    "probes": "sumwire_job_probes_total",
    "ahead": "sumwire_job_ahead_chunks_total",
}
_SHOWN: Final = 3


def against_summary(record: Mapping[str, Any]) -> Check:
    """The sums of summary.json, and every number of every worker's own statistics."""
    values: Sequence[Mapping[str, Any]] = record["values"]
    different, compared = [], 0
    for name, metric in _SUMS.items():
        if name in record["summary"]:
            found = sum(one["value"] for one in values if one["__name__"] == metric)
            compared += 1
            if found != record["summary"][name]:
                different.append(f"{name}: {found:g} in Prometheus, {record['summary'][name]:g} in summary.json")
    for worker, stats in record["stats"].items():
        for field, (metric_of, labels) in FIELDS.items():
            wanted = {"__name__": metric_of.served, "worker": str(worker)}
            wanted |= dict(zip(metric_of.labels[2:], labels, strict=True))
            own = [one["value"] for one in values if wanted.items() <= one.items()]
            compared += 1
            if own != [stats[field]]:
                different.append(f"worker {worker}, {field}: {own} in Prometheus, {stats[field]} at its end")
    resent = record["summary"]["retransmissions"]
    value = {"equal": f"{compared - len(different)} of {compared}", "packets sent again": resent}
    why = "; ".join(different[:_SHOWN])
    return holds(
        "metrics of a lossy run, scraped by Prometheus",
        value,
        "equal to summary.json",
        not different and resent > 0,
        why,
    )


def step_ratios(seconds: Mapping[str, Sequence[float]]) -> list[Check]:
    """Of the median step: with metrics, and with `sumwire top`, against neither. The median of the rounds counts."""
    checks = []
    for way, beside in ((METRICS, "with metrics that nobody reads"), (TOP, "with sumwire top beside the run")):
        ratios = [watched / plain for watched, plain in zip(seconds[way], seconds[PLAIN], strict=True)]
        ratio = round(median(ratios), 4)
        value = {"ratio": ratio, "rounds": [round(one, 3) for one in ratios]}
        label = f"time of a step {beside}, against neither, in turn"
        checks.append(holds(label, value, f"ratio <= {STEP_RATIO_MAX:g}", ratio <= STEP_RATIO_MAX))
    return checks


def top_cost(record: Mapping[str, Any]) -> Check:
    """Of a core, from the first step to the end."""
    cores = record["top_cores"]
    if record["top_error"]:
        return holds("sumwire top beside the run", None, f"<= {TOP_CORES_MAX:g}", False, record["top_error"])
    return at_most("sumwire top beside the run, share of a core", round(cores, 4), TOP_CORES_MAX)
