# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Where Sumwire loses: what the numbers of a run say against its systems, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from sumwire_lab.options.recipes import BASELINE
from sumwire_lab.run.page import wording

# Differences below this share are within what two runs of the same system differ by.
_NOTABLE: Final = 0.05
_POINTS: Final = 0.2
# A system that stays further below the bound of its bytes says why.
_OF_BOUND: Final = 0.8
_WORSE: Final = {
    "comm_s_per_step": "communication takes {mine} a step; gloo's takes {base}",
    "compute_s_per_step": "the rest of a step takes {mine}; gloo's takes {base}",
    "time_to_target_s": "the target accuracy comes after {mine}; gloo's after {base}",
    "comm_s_per_step_p99": "one step in a hundred communicates for {mine} or longer; gloo's for {base}",
}


def sentences(summary: Mapping[str, Any]) -> list[str]:
    """One sentence for everything in which a system is behind gloo, or short of what its bytes allow."""
    systems = summary["systems"]
    return [
        f"{name}: {text}."
        for name, entry in systems.items()
        if name != BASELINE
        for text in _of(summary, name, entry, systems.get(BASELINE))
    ]


def _of(
    summary: Mapping[str, Any], name: str, entry: Mapping[str, Any], base: Mapping[str, Any] | None
) -> Iterator[str]:
    if base is not None:
        yield from _against(entry, base)
        found = summary["answer"][name]
        if found["communication"] and found["bound"] and found["communication"] < _OF_BOUND * found["bound"]:
            reached = found["communication"] / found["bound"]
            codec = entry.get("codec_s_per_step")
            why = "" if codec is None else f"; encoding and decoding take {wording.seconds(codec)} of a step"
            yield f"communication reaches {reached:.0%} of the speed-up that its bytes allow{why}"
    if entry.get("nmse"):
        yield f"a mean gradient is not exact: its squared error is {entry['nmse']:.2%} of its squared norm (NMSE)"
    for key, what in (
        ("retransmissions", "packets were sent again"),
        ("fallbacks", "fall-backs to gloo, counted at each worker"),
    ):
        if entry.get(key):
            yield f"{entry[key]} {what}"
    if entry.get("replicas_equal") is False:
        yield "the workers' models differ at the end"


def _against(entry: Mapping[str, Any], base: Mapping[str, Any]) -> Iterator[str]:
    for key, form in _WORSE.items():
        mine, theirs = entry.get(key), base.get(key)
        if mine is not None and theirs is not None and mine > (1 + _NOTABLE) * theirs:
            yield form.format(mine=wording.seconds(mine), base=wording.seconds(theirs))
    if entry.get("time_to_target_s") is None and base.get("time_to_target_s") is not None:
        yield "it does not reach the target accuracy, and gloo does"
    mine, theirs = entry.get("accuracy"), base.get("accuracy")
    if mine is not None and theirs is not None and 100 * (theirs - mine) > _POINTS:
        yield f"it ends at {wording.accuracy(mine)} test accuracy, gloo at {wording.accuracy(theirs)}"
    steps, others = entry.get("steps_to_target"), base.get("steps_to_target")
    if steps and others and steps > (1 + _NOTABLE) * others:
        yield f"it needs {steps} steps to the target accuracy, gloo {others}"
