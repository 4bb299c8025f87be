# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The answer of a run: how much less communication, how much sooner, and how accurate, against gloo. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sumwire_lab.options.recipes import BASELINE


def answers(systems: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, float | None]]:
    """By system, from the entries of summary.json; empty without gloo.

    Ratios are gloo's value over the system's. `bound` is the ratio of the bytes in the busier direction of a link: what
    the communication's ratio could be if nothing but the links took time. `accuracy_points` are percentage points
    above gloo's test accuracy.
    """
    if BASELINE not in systems:
        return {}
    base = systems[BASELINE]
    return {
        name: {
            "communication": _ratio(base, entry, "comm_s_per_step"),
            "bound": _over(busier(base), busier(entry)),
            "time_to_accuracy": _ratio(base, entry, "time_to_target_s"),
            "bytes": _ratio(base, entry, "wire_bytes_per_step"),
            "accuracy_points": _points(base.get("accuracy"), entry.get("accuracy")),
        }
        for name, entry in systems.items()
        if name != BASELINE
    }


def busier(entry: Mapping[str, Any]) -> float | None:
    """Bytes per step in the busier direction of a worker's link."""
    both = [entry.get("tx_bytes_per_step"), entry.get("rx_bytes_per_step")]
    known = [count for count in both if count is not None]
    return max(known) if known else None


def _ratio(base: Mapping[str, Any], entry: Mapping[str, Any], key: str) -> float | None:
    return _over(base.get(key), entry.get(key))


def _over(theirs: float | None, mine: float | None) -> float | None:
    return theirs / mine if theirs and mine else None


def _points(theirs: float | None, mine: float | None) -> float | None:
    return None if theirs is None or mine is None else 100 * (mine - theirs)
