# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of what Prometheus has of a run, and of what `sumwire top` costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

from sumwire.job.metrics import FIELDS

from sumwire_lab.study.check import Check, at_most, holds

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


def step_ratio(beside: str, pairs: Sequence[tuple[float, float]]) -> Check:
    """Of a step's seconds, without and with something beside the run. The median of the pairs counts."""
    ratios = sorted(watched / plain for plain, watched in pairs)
    ratio = round(median(ratios), 4) if ratios else None
    value = {"ratio": ratio, "pairs": len(ratios), "from, to": [round(one, 3) for one in (*ratios[:1], *ratios[-1:])]}
    verdict = ratio is not None and ratio <= STEP_RATIO_MAX
    return holds(f"time of a step {beside}, against none, in turn", value, f"ratio <= {STEP_RATIO_MAX:g}", verdict)


def top_cost(record: Mapping[str, Any]) -> Check:
    """Of a core, from the first step to the end."""
    cores = record["top_cores"]
    if record["top_error"]:
        return holds("sumwire top beside the run", None, f"<= {TOP_CORES_MAX:g}", False, record["top_error"])
    return at_most("sumwire top beside the run, share of a core", round(cores, 4), TOP_CORES_MAX)
