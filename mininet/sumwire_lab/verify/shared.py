# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Checks that several topics make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sumwire_lab.bench.codec_time import THC_TARGETS_MS
from sumwire_lab.run.results import ratio
from sumwire_lab.study.check import Check, absent, at_least, at_most, holds

COMM_RATIO_MIN: Final = 5.0
TIME_RATIO_MIN: Final = 4.0
ACCURACY_MIN: Final = 0.96
ACCURACY_GAP_MAX: Final = 0.005
# Accuracies are fractions of a few hundred images, so that a difference of 0.005 may come out as 0.00500001.
ROUNDING: Final = 1e-6
WHY_ABSENT: Final[Mapping[str, str]] = {
    "native": "no compiler for the native engine (clang 16 or later)",
    "native-trains": "no compiler for the native engine (clang 16 or later)",
    "bmv2": "simple_switch_grpc is not on PATH",
}


def speed(summary: dict[str, Any], label: str) -> list[Check]:
    """Communication time and time to the target accuracy, gloo over THC."""
    comm = ratio(summary, "comm_s_per_step", "thc")
    target = ratio(summary, "time_to_target_s", "thc")
    return [
        at_least(f"{label}: communication time per step, gloo / Sumwire", comm, COMM_RATIO_MIN),
        at_least(f"{label}: time to 95 % test accuracy, gloo / Sumwire", target, TIME_RATIO_MIN),
    ]


def accuracy(label: str, thc: dict[str, Any], gloo: dict[str, Any]) -> Check:
    """Final accuracies: close to each other and both high enough, on replicas that are bit-equal."""
    mine, theirs = thc["accuracy"], gloo["accuracy"]
    close = abs(mine - theirs) <= ACCURACY_GAP_MAX + ROUNDING
    verdict = close and min(mine, theirs) >= ACCURACY_MIN and bool(thc["replicas_equal"] and gloo["replicas_equal"])
    return holds(
        f"{label}: final test accuracy, Sumwire and gloo",
        [mine, theirs],
        "within 0.5 points, both >= 96 %, replicas bit-equal",
        verdict,
    )


def switch_rate(label: str, rates: Mapping[str, float], over: str, under: str, least: float) -> Check:
    """Packets/s of one contender of bench-switch over another's; undecided where one of them is not here."""
    for name in (over, under):
        if name not in rates:
            return absent(label, f">= {least:g}", WHY_ABSENT[name], value=dict(rates))
    return at_least(label, rates[over] / rates[under], least)


def codec(record: Mapping[str, Any]) -> Check:
    """Encode and decode of a million values on one core, in CPU time. `record`: bench-codec's, with the form in use."""
    form = record["form"]
    label = f"encode + decode of 1 million float32 on one core, error feedback included, {form} form, ms"
    return at_most(label, record["cpu_median_ms"], THC_TARGETS_MS[form])
