# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of `make verify-papers` on THC."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sumwire_lab.verify.check import Check, at_most, equal, reported

# Relative; both sides are computed in float64, in other orders.
SAME: Final = 1e-9


def tables(found: Mapping[int, float], least: Mapping[int, float], seconds: float) -> list[Check]:
    """`found`: error of the controller's table by number of workers; `least`: of the best one there can be."""
    worse = [workers for workers, error in found.items() if abs(error - least[workers]) > SAME * least[workers]]
    span = f"n = {min(found)} .. {max(found)}"
    return [
        equal(f"THC's table, {span}: workers whose error is not the least over all g <= 255 // n", worse, []),
        reported(f"THC's table, {span}: seconds to solve all", seconds),
    ]


def against_uniform(ratios: Mapping[int, float]) -> list[Check]:
    """`ratios`: expected NMSE of thc / thc-uniform by number of workers."""
    worst = max(ratios, key=lambda workers: ratios[workers])
    label = f"thc / thc-uniform NMSE, n = {min(ratios)} .. {max(ratios)}, largest (n = {worst})"
    return [at_most(label, ratios[worst], 1.0)]
