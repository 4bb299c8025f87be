# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The rows of `make verify-papers` on ACP-SGD: experiments, and the checks computed from their measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Final

from sumwire_lab.experiments import acp_modelled, digits_accuracy
from sumwire_lab.experiments.digits_accuracy import EPOCHS
from sumwire_lab.options import bench_options
from sumwire_lab.options.bench_options import ACP, FUSION, NO_WFBP, WFBP, AcpBenchOptions
from sumwire_lab.options.recipes import TEXT
from sumwire_lab.study.check import Check, at_least, at_most, reported
from sumwire_lab.verify.plan import Experiments, Verification

ABLATION_MIN: Final = 1.15
# Power-SGD's two all-reduces, one after the other, against ACP-SGD's one, over the same transport.
POWERSGD_MIN: Final = 1.3
SEARCH_MAX: Final = 1.1
ACCURACY_LOSS_MAX: Final = 0.01
# What the row over the group compares.
USUAL: Final = "ACP-SGD"
LATE: Final = "ACP-SGD without overlap"
UNFUSED: Final = "ACP-SGD without fusion"
SMALL: Final = "ACP-SGD, batch of 4"
POWERSGD: Final = "Power-SGD, batch of 4"


def modelled_checks(turns: Sequence[Mapping[str, float]]) -> list[Check]:
    """Check the gain of overlap and of fusion on a modelled link, and the parts of a step's time. Ratios are medians
    over the turns."""
    label = f"ACP-SGD, {acp_modelled.BUFFERS} buffers, modelled link: time per step"
    ratios = [
        at_least(f"{label}, {name} / with", median(turn[name] / turn[acp_modelled.ACP] for turn in turns), ABLATION_MIN)
        for name in (acp_modelled.LATE, acp_modelled.UNFUSED)
    ]
    seconds = {name: median(turn[name] for turn in turns) for name in turns[0]}
    split = {
        "computing": seconds[acp_modelled.COMPUTING],
        "compression": seconds[acp_modelled.COMPRESSING] - seconds[acp_modelled.COMPUTING],
        "communication that is not hidden": seconds[acp_modelled.ACP] - seconds[acp_modelled.COMPRESSING],
    }
    return [*ratios, reported(f"{label}, seconds", seconds), reported(f"{label}, seconds by part", split)]


def system_checks(seconds: Mapping[acp_modelled.Names, float]) -> list[Check]:
    """Check the seconds of a step by system and mode, all with the same hooks and buffers over one modelled link."""
    label = f"modelled link, {acp_modelled.BUFFERS} buffers: time per step"
    shown = {f"{system}, {mode}": one for (system, mode), one in seconds.items()}
    acp = seconds[acp_modelled.ACP, acp_modelled.FUSION_MODE]
    power = seconds[acp_modelled.POWER, acp_modelled.FUSION_MODE]
    return [
        at_least(f"{label}, Power-SGD / ACP-SGD", power / acp, POWERSGD_MIN),
        reported(f"{label}, naive / with WFBP and fusion", _over(seconds, acp_modelled.NAIVE)),
        reported(f"{label}, seconds", shown),
    ]


def _over(seconds: Mapping[acp_modelled.Names, float], mode: str) -> dict[str, float]:
    return {one: seconds[one, mode] / seconds[one, acp_modelled.FUSION_MODE] for one in acp_modelled.SYSTEMS}


def swept_checks(sweep: acp_modelled.Sweep) -> list[Check]:
    """Check the number of buffers that ACP-SGD finds itself against the best one of a sweep."""
    label = "ACP-SGD, buffers by search, modelled link: time per step"
    seconds = {str(buffers): one for buffers, one in sweep.seconds.items()}
    return [
        at_most(f"{label} / that of the best of the sweep", sweep.over_best, SEARCH_MAX),
        reported(f"{label}, seconds by number of buffers", {**seconds, f"chosen: {sweep.chosen}": sweep.chosen_s}),
    ]


def trained_checks(accuracies: Mapping[str, Sequence[float]]) -> list[Check]:
    """Check accuracy by rank, and without error feedback or reuse; for each variant that of every seed."""
    means = {name: fmean(found) for name, found in accuracies.items()}
    lost = {name: means[digits_accuracy.SSGD] - mean for name, mean in means.items()}
    label = "accuracy lost against S-SGD"
    return [
        at_most(f"ACP-SGD, digits, {digits_accuracy.ACP}: {label}", lost[digits_accuracy.ACP], ACCURACY_LOSS_MAX),
        *(
            at_least(f"ACP-SGD, digits, {name}, known to be bad: {label}", lost[name], ACCURACY_LOSS_MAX)
            for name in (digits_accuracy.NO_FEEDBACK, digits_accuracy.NO_REUSE)
        ),
        reported("ACP-SGD, digits: mean accuracy", means),
    ]


def group_checks(seconds: Mapping[str, float]) -> list[Check]:
    """Check the seconds of a step by name, all over the process group on the same links."""
    label = "transformer, 4 workers, over gloo, 9 buffers: time per step"
    usual = seconds[USUAL]
    return [
        at_least(f"{label}, {LATE} / with", seconds[LATE] / usual, ABLATION_MIN),
        at_least(f"{label}, {UNFUSED} / with", seconds[UNFUSED] / usual, ABLATION_MIN),
        at_least(f"{label}, Power-SGD / ACP-SGD", seconds[POWERSGD] / seconds[SMALL], POWERSGD_MIN),
        reported(f"{label}, seconds", dict(seconds)),
    ]


QUICK_STEPS: Final = 4
QUICK_EPOCHS: Final = 2
# What the row compares; bench-acp has all. Overlap needs some computing; against Power-SGD what counts
# is communication, so its steps have the task's own smaller batch.
ABLATED: Final = AcpBenchOptions()
AGAINST: Final = AcpBenchOptions(batch=TEXT.batch)
COMPARED: Final = {
    USUAL: ABLATED.case(ACP, FUSION),
    LATE: ABLATED.case(ACP, NO_WFBP),
    UNFUSED: ABLATED.case(ACP, WFBP),
    SMALL: AGAINST.case(ACP, FUSION),
    POWERSGD: AGAINST.case(bench_options.POWERSGD, FUSION),
}


def _digits(v: Verification) -> list[Check]:
    return trained_checks(digits_accuracy.by_variant(v.options.seeds, QUICK_EPOCHS if v.quick else EPOCHS))


def _over_the_group(v: Verification) -> list[Check]:
    """All in turn, once for every seed, so that what disturbs the machine disturbs all."""
    found: dict[str, list[float]] = {name: [] for name in COMPARED}
    for _ in v.options.seeds:
        for name, case in COMPARED.items():
            found[name].append(v.summary(case.options)["systems"][case.system]["step_s_p50"])
    return group_checks({name: fmean(seconds) for name, seconds in found.items()})


def _steps(v: Verification) -> int:
    return QUICK_STEPS if v.quick else acp_modelled.STEPS


EXPERIMENTS: Final[Experiments] = {
    "steps": lambda v: modelled_checks(acp_modelled.measured(_steps(v))),
    "systems": lambda v: system_checks(acp_modelled.measured_systems(2 if v.quick else acp_modelled.SYSTEM_STEPS)),
    "search": lambda v: swept_checks(acp_modelled.swept(_steps(v))),
    "digits": _digits,
    "group": _over_the_group,
}
