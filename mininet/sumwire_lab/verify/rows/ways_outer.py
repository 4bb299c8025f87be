# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of `make verify-ways` on outer steps over slow links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any, Final

from sumwire_lab.study.check import Check, holds, reported

GLOO_LEAST: Final = 6.0
RING_LEAST: Final = 2.0
LOSS_MOST: Final = 0.01
DEFAULT_CONTROL: Final = "cubic"
_WHERE: Final = "outer step, 4 workers, 50 ms round trip, 1 % loss, 20 Mbit/s"


def times(record: Mapping[str, Any]) -> list[Check]:
    """`record`: what `experiments.outer_time` measures. The targets are those beside the default congestion control of
    Linux; with another one the same ratios are told."""
    checks = []
    for control, found in record.items():
        for name, least in (("gloo", GLOO_LEAST), ("int8 ring", RING_LEAST)):
            seconds: Mapping[str, float] = found["seconds"]
            ratio = seconds[name] / seconds["4bit"]
            value = {
                "ratio": round(ratio, 2),
                **{one: round(seconds[one], 3) for one in (name, "4bit")},
                "values": found["values"],
            }
            label = f"{_WHERE}, TCP with {control}: {name} / sumwire 4 bit"
            decides = control == DEFAULT_CONTROL
            checks.append(holds(label, value, f">= {least:g}", ratio >= least) if decides else reported(label, value))
    return checks


def losses(found: Mapping[str, Sequence[float]]) -> Check:
    """`found`: what `experiments.outer_loss` measures. The target is that of 4 bits; 1 bit is told beside it."""
    exact = mean(found["exact"])
    more = {name: mean(found[name]) / exact - 1 for name in ("4bit", "1bit")}
    value = {
        **{name: _rounded(found[name]) for name in found},
        **{f"{name} more": round(more[name], 4) for name in more},
    }
    label = f"character transformer, outer steps, {len(found['exact'])} seeds: final loss at 4 bits, over uncompressed"
    return holds(label, value, f"at most {LOSS_MOST:.0%} more", more["4bit"] <= LOSS_MOST)


def _rounded(values: Sequence[float]) -> list[float]:
    return [round(value, 4) for value in values]
