# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of `make verify-papers` on THC."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sumwire.codec.tables import ThcTable

from sumwire_lab.study.check import Check, at_most, equal, reported

# Relative; both sides are computed in float64, in other orders.
SAME: Final = 1e-9
# Of all test images.
POINTS_MAX: Final = 0.01
# NMSE of 16 even levels and p = 1/32, as 17 workers have by THC.
FOUR_BITS: Final = 0.0206


def tables(found: Mapping[int, float], least: Mapping[int, float], seconds: float) -> list[Check]:
    """`found`: error of the controller's table by number of workers; `least`: of the best one there can be."""
    worse = [workers for workers, error in found.items() if abs(error - least[workers]) > SAME * least[workers]]
    span = f"n = {min(found)} .. {max(found)}"
    return [
        equal(f"THC's table, {span}: workers whose error is not the least over all g <= 255 // n", worse, []),
        reported(f"THC's table, {span}: seconds to solve all", seconds),
    ]


def ways(found: Mapping[str, Mapping[int, ThcTable]]) -> list[Check]:
    """`found`: the table of a job that is given none, by the way in which it is made and by its number of workers."""
    first = next(iter(found.values()))
    other = [
        f"{way}, {workers} workers"
        for way, tables in found.items()
        for workers, table in tables.items()
        if table != first[workers]
    ]
    return [equal(f"THC's table, jobs by {', '.join(found)}: those that have another one", other, [])]


def against_uniform(ratios: Mapping[int, float]) -> list[Check]:
    """`ratios`: expected NMSE of thc / thc-uniform by number of workers."""
    worst = max(ratios, key=lambda workers: ratios[workers])
    label = f"thc / thc-uniform NMSE, n = {min(ratios)} .. {max(ratios)}, largest (n = {worst})"
    return [at_most(label, ratios[worst], 1.0)]


def many(errors: Mapping[int, float]) -> list[Check]:
    """`errors`: NMSE of one worker's values by `thc-wide`, by number of workers."""
    worst = max(errors, key=lambda workers: errors[workers])
    label = f"thc-wide: NMSE of one of {min(errors)} to {max(errors)} workers, largest (n = {worst})"
    return [at_most(label, errors[worst], FOUR_BITS), reported("thc-wide: NMSE by number of workers", dict(errors))]


def accuracies(found: Mapping[int, tuple[float, ...]]) -> list[Check]:
    """By number of workers: accuracy with the exact mean, and with THC, each the mean of the seeds."""
    return [
        at_most(f"digits, {workers} workers: accuracy lost by THC (exact mean {exact:.1%})", exact - thc, POINTS_MAX)
        for workers, (exact, thc) in found.items()
    ]


def quorum(all_: Mapping[str, Any], some: Mapping[str, Any]) -> list[Check]:
    """`all_`: THC from all workers; `some`: with a quorum, one worker being slow."""
    label = "THC, one of 4 workers 3 times slower"
    return [
        reported(f"{label}: time per step, all / quorum 3", all_["step_s"] / some["step_s"]),
        at_most(f"{label}: accuracy lost by quorum 3", all_["accuracy"] - some["accuracy"], POINTS_MAX),
        equal(f"{label}: replicas bit-equal", some["replicas_equal"], True),
    ]
