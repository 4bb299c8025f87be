# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of `make verify-papers` on Marsit, computed from what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sumwire_lab.study.check import Check, at_most, holds
from sumwire_lab.verify.rows.shared import ROUNDING

README_MIN: Final = 0.96
GAP_MAX: Final = 0.015
SSDM_MIN: Final = 0.88
EF_SIGN_ERROR_MAX: Final = 1e-3
MATCHING_GAP_MAX: Final = 0.02


def readme(accuracies: Sequence[float]) -> Check:
    """README's example, seed by seed."""
    label = "README's Marsit example as printed, digits: test accuracy by seed"
    return holds(label, list(accuracies), f">= {README_MIN:g} each", min(accuracies) >= README_MIN)


def periods(inner: str, means: Mapping[str, float]) -> Check:
    """Accuracy of S-SGD and of Marsit by K, with one local optimizer."""
    lowest = min(means.values())
    return holds(
        f"Marsit around {inner}, digits: mean test accuracy of S-SGD, and by K",
        dict(means),
        f"not more than {100 * GAP_MAX:g} points below S-SGD",
        lowest >= means["S-SGD"] - GAP_MAX - ROUNDING,
    )


def matching(name: str, found: Mapping[int, float], expected: Mapping[int, float]) -> Check:
    """Matching rates by number of workers."""
    return holds(
        f"matching rate by workers, {name}",
        {str(workers): rate for workers, rate in found.items()},
        f"within {MATCHING_GAP_MAX:g} of {', '.join(f'{rate:.2f}' for rate in expected.values())}",
        all(abs(found[workers] - rate) <= MATCHING_GAP_MAX for workers, rate in expected.items()),
    )


def ssdm(accuracies: Sequence[float]) -> Check:
    """SSDM on the digits, seed by seed."""
    label = "SSDM, digits: test accuracy by seed"
    return holds(label, list(accuracies), f">= {SSDM_MIN:g} each", min(accuracies) >= SSDM_MIN)


def ef_sign(error: float, scales: Sequence[float], rounds: int) -> Check:
    """What EF-signSGD leaves out in the mean over the rounds."""
    named = ", ".join(f"{one:g}" for one in scales)
    label = f"EF-signSGD over a switch, scales {named}: NMSE of the mean of {rounds} rounds"
    return at_most(label, error, EF_SIGN_ERROR_MAX)
