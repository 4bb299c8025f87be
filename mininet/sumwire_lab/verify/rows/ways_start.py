# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of `make verify-ways` on the way from a wheel to the first training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any, Final

from sumwire_lab.study.check import Check, at_most, equal, holds, reported

LINES_MAX: Final = 3
POINTS_MAX: Final = 0.5
# Retransmissions of single packets differ from run to run.
_BYTES_SLACK: Final = 0.02


def lines(record: Mapping[str, Any]) -> list[Check]:
    """`record`: what `experiments.ways_lines` measures."""
    away = 100 * (mean(record["sumwire"]) - mean(record["gloo"]))
    value = {"gloo": _points(record["gloo"]), "sumwire": _points(record["sumwire"]), "points": round(away, 2)}
    label = f"digits, 4 ranks, {len(record['gloo'])} seeds: accuracy of a plain DDP script with three lines more"
    return [
        at_most("lines added to a plain DDP script", record["lines"], LINES_MAX),
        holds(label, value, f"within {POINTS_MAX} points of gloo", abs(away) <= POINTS_MAX),
    ]


def _points(accuracies: Sequence[float]) -> list[float]:
    return [round(100 * accuracy, 2) for accuracy in accuracies]


def nodes(record: Mapping[str, Any]) -> Check:
    """`record`: what `experiments.ways_nodes` measures."""
    ranks = record["ranks"]
    share = record["node"] / record["flat"]
    label = f"{record['nodes']} x {ranks} ranks: bytes that a node sends, against {ranks} workers on it"
    target = f"1 / {ranks}, by {_BYTES_SLACK:.0%}"
    value = {"share": round(share, 4), "node": record["node"], "flat": record["flat"]}
    return holds(label, value, target, abs(share * ranks - 1) <= _BYTES_SLACK)


def tree(record: Mapping[str, Any]) -> list[Check]:
    """`record`: what `experiments.ways_tree` measures."""
    workers, leaves = record["workers"], record["leaves"]
    label = f"{workers} workers below {leaves} leaves and a root, against one aggregator"
    flat, with_leaves = record["flat"]["exact"], record["tree"]["exact"]
    value = {"tree": with_leaves["received"], "flat": flat["received"]}
    value["share"] = round(value["tree"] / value["flat"], 4)
    return [
        equal(f"{label}: sums equal to the bit, exact ones and THC's", record["same"], {"exact": True, "thc": True}),
        holds(
            f"{label}: bytes to the root, exact sums", value, f"{leaves} / {workers}, by {_BYTES_SLACK:.0%}",
            abs(value["share"] * workers / leaves - 1) <= _BYTES_SLACK,
        ),
        *(
            reported(f"{label}: {way} mean of {record['values']:,} values, {shape}", record[shape][way])
            for way in record["same"]
            for shape in ("flat", "tree")
        ),
    ]  # fmt: skip
