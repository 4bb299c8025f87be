# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of `make verify-acp`, computed from what was measured."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from statistics import fmean, median
from typing import Any, Final

from sumwire.lowrank.shapes import MEGABYTE, Sizes

from sumwire_lab.bench import contenders
from sumwire_lab.bench.suites import accuracy
from sumwire_lab.bench.suites.accuracy import Row
from sumwire_lab.experiments import acp_digits, acp_steps, acp_systems
from sumwire_lab.run.records import StepRecord
from sumwire_lab.study.check import Check, at_least, at_most, equal, holds, reported

# The paper's averages over its models.
OVER_SSGD_MIN: Final = 4.06
OVER_POWERSGD_MIN: Final = 1.43
AGGREGATOR_MIN: Final = 4.0
ABLATION_MIN: Final = 1.15
ACCURACY_RATIO_MIN: Final = 1.5
# Power-SGD's two all-reduces, one after the other, against ACP-SGD's one, over the same transport.
POWERSGD_MIN: Final = 1.3
SEARCH_MAX: Final = 1.1
ACCURACY_LOSS_MAX: Final = 0.01
# Sizes that follow from the models' published shapes, as docs/acp.md prints them. 1 MB is 2**20 bytes.
GOLDEN: Final[Mapping[str, Mapping[str, str]]] = {
    "resnet50": {
        "parameters": "25.56 M",
        "gradient": "97.49 MB",
        "P": "0.627 MB",
        "Q": "1.045 MB",
        "P threshold": "0.161 MB",
        "Q threshold": "0.268 MB",
        "buffers P, Q, uncompressed": "4, 4, 5",
        "tensors, matrices": "161, 54",
        "ratio": "116.6, 58.3",
    },
    "resnet152": {
        "parameters": "60.19 M",
        "gradient": "229.62 MB",
        "P": "1.752 MB",
        "Q": "3.170 MB",
        "P threshold": "0.191 MB",
        "Q threshold": "0.345 MB",
        "buffers P, Q, uncompressed": "10, 10, 10",
        "tensors, matrices": "467, 156",
        "ratio": "93.3, 46.7",
    },
    "bert-large": {
        "parameters": "336.23 M",
        "gradient": "1282.62 MB",
        "P": "32.398 MB",
        "Q": "28.874 MB",
        "P threshold": "0.631 MB",
        "Q threshold": "0.563 MB",
        "buffers P, Q, uncompressed": "73, 73, 50",
        "tensors, matrices": "398, 150",
        "ratio": "41.9, 20.9",
    },
}
# What the row over the group compares.
USUAL: Final = "ACP-SGD"
LATE: Final = "ACP-SGD without overlap"
UNFUSED: Final = "ACP-SGD without fusion"
SMALL: Final = "ACP-SGD, batch of 4"
POWERSGD: Final = "Power-SGD, batch of 4"
# A number with the unit of a measurement. Link rates and model sizes are settings and do not match.
_MEASURED: Final = re.compile(r"\d\s?(?:s|ms|us|µs|%|packets/s|times(?= (?:less|faster|more)))(?![\w/])")
_PLACEHOLDER: Final = re.compile(r"\bMEASURE\b")
_FENCE: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_COMMAND: Final = re.compile(r"\bmake ([a-z][a-z0-9-]*)")
_TARGET: Final = re.compile(r"^([a-z][a-z0-9-]*):", re.MULTILINE)


def reference(found: Mapping[str, Any]) -> list[Check]:
    """ACP-SGD against a direct implementation of its equations; see `sumwire.lowrank.check`."""
    label = f"ACP-SGD against a plain reference, {found['workers']} workers, {found['steps']} steps, float64"
    return [
        at_most(f"{label}: largest difference", found["largest_difference"], found["target"]),
        equal(f"{label}: replicas bit-equal", bool(found["replicas_equal"]), True),
    ]


def printed(sizes: Sizes) -> dict[str, str]:
    """Sizes in the form of GOLDEN."""

    def megabytes(count: float, digits: int = 3) -> str:
        return f"{count / MEGABYTE:.{digits}f} MB"

    return {
        "parameters": f"{sizes.parameters / 1e6:.2f} M",
        "gradient": megabytes(sizes.dense_bytes, 2),
        "P": megabytes(sizes.p_bytes),
        "Q": megabytes(sizes.q_bytes),
        "P threshold": megabytes(sizes.p_threshold),
        "Q threshold": megabytes(sizes.q_threshold),
        "buffers P, Q, uncompressed": f"{sizes.p_groups}, {sizes.q_groups}, {sizes.dense_groups}",
        "tensors, matrices": f"{sizes.tensors}, {sizes.matrices}",
        "ratio": f"{sizes.ratio:.1f}, {sizes.ratio_both:.1f}",
    }


def golden(model: str, sizes: Sizes) -> Check:
    """All sizes of one model against GOLDEN."""
    found = printed(sizes)
    target = "; ".join(f"{name} {value}" for name, value in GOLDEN[model].items())
    return equal(f"golden sizes, {model}", found, GOLDEN[model], f"equal: {target}")


def step_seconds(workers: Sequence[Sequence[StepRecord]], warm_up: int) -> float | None:
    """Mean time of a whole step without the first `warm_up` steps; None if there are no others."""
    steps = [step.step_s for steps in workers for step in steps if step.step >= warm_up]
    return fmean(steps) if steps else None


def steps(label: str, seconds: Mapping[str, float | None], *, acp: str, gloo: str, powersgd: str) -> list[Check]:
    """Speed-up of ACP-SGD's time per step over both baselines."""

    def over(other: str) -> float | None:
        mine, theirs = seconds.get(acp), seconds.get(other)
        return theirs / mine if mine and theirs else None

    shown = {name: value and round(value, 4) for name, value in seconds.items()}
    return [
        at_least(f"{label}: time per step, S-SGD over gloo / ACP-SGD", over(gloo), OVER_SSGD_MIN),
        at_least(f"{label}: time per step, Power-SGD of the same rank / ACP-SGD", over(powersgd), OVER_POWERSGD_MIN),
        reported(f"{label}: seconds per step", shown, measured=None not in shown.values()),
    ]


def aggregator(summary: Mapping[str, Any], label: str) -> list[Check]:
    """Communication speed-up of THC with the software aggregator over gloo, without a fall-back."""
    systems = summary["systems"]
    mine, theirs = systems["thc"], systems["gloo"]
    ratio = theirs["comm_s_per_step"] / mine["comm_s_per_step"]
    sound = bool(mine["replicas_equal"]) and mine["fallbacks"] == 0
    state = {"replicas_equal": mine["replicas_equal"], "fallbacks": mine["fallbacks"]}
    return [
        at_least(f"{label}: communication per step, gloo / Sumwire", ratio, AGGREGATOR_MIN),
        holds(f"{label}: replicas and fall-backs", state, "bit-equal, 0", sound),
    ]


def accuracy_ratio(task: str, rows: Sequence[Row]) -> list[Check]:
    """Time to accuracy: the best baseline's over that of Sumwire's best system."""
    label = f"time to accuracy, {task}"
    times = {row.system: row.time_to_target_s for row in rows if row.task == task}
    found = accuracy.speed_up(task, rows)
    baselines = [name for name in contenders.PUBLISHED if name in times]
    name = f"{label}: best of {', '.join(baselines)} / best of Sumwire"
    missing = sorted(set(contenders.PUBLISHED) - times.keys())
    ratio = None if found is None or missing else found[2]
    reached = {system: value if value is None else round(value, 2) for system, value in times.items()}
    return [
        at_least(name if found is None else f"{name} ({found[0]} / {found[1]})", ratio, ACCURACY_RATIO_MIN),
        reported(f"{label}: seconds to the target (null: never)", reached, measured=bool(reached) and not missing),
    ]


def unsourced(readme: str, targets: Collection[str]) -> list[str]:
    """Beginnings of the paragraphs that have a measured number but no `make TARGET` that produces it, or that still
    have a placeholder. The target may stand in an HTML comment of the paragraph."""
    paragraphs = re.split(r"\n\s*\n", _FENCE.sub("", readme))
    found = []
    for paragraph in paragraphs:
        commands = _COMMAND.findall(paragraph)
        sourced = any(command in targets for command in commands)
        if _PLACEHOLDER.search(paragraph) or (_MEASURED.search(paragraph) and not sourced):
            found.append(" ".join(paragraph.split())[:100])
    return found


def readme(text: str, makefile: str) -> Check:
    """Every paragraph of the README with a measured number names a command that measures it."""
    found = unsourced(text, _TARGET.findall(makefile))
    return holds("README: paragraphs with a measured number and no command that makes it", found, "none", not found)


def modelled(turns: Sequence[Mapping[str, float]]) -> list[Check]:
    """What overlap and fusion bring on a modelled link, one at a time, and what a step's time is made of. Ratios are
    medians over the turns."""
    label = f"ACP-SGD, {acp_steps.BUFFERS} buffers, modelled link: time per step"
    ratios = [
        at_least(f"{label}, {name} / with", median(turn[name] / turn[acp_steps.ACP] for turn in turns), ABLATION_MIN)
        for name in (acp_steps.LATE, acp_steps.UNFUSED)
    ]
    seconds = {name: median(turn[name] for turn in turns) for name in turns[0]}
    split = {
        "computing": seconds[acp_steps.COMPUTING],
        "compression": seconds[acp_steps.COMPRESSING] - seconds[acp_steps.COMPUTING],
        "communication that is not hidden": seconds[acp_steps.ACP] - seconds[acp_steps.COMPRESSING],
    }
    return [*ratios, reported(f"{label}, seconds", seconds), reported(f"{label}, seconds by part", split)]


def systems(seconds: Mapping[acp_systems.Names, float]) -> list[Check]:
    """Seconds of a step by system and mode, all by the same hooks and buffers over one modelled link."""
    label = f"modelled link, {acp_steps.BUFFERS} buffers: time per step"
    shown = {f"{system}, {mode}": one for (system, mode), one in seconds.items()}
    acp = seconds[acp_steps.ACP, acp_systems.FUSION]
    power = seconds[acp_systems.POWER, acp_systems.FUSION]
    return [
        at_least(f"{label}, Power-SGD / ACP-SGD", power / acp, POWERSGD_MIN),
        reported(f"{label}, naive / with WFBP and fusion", _over(seconds, acp_systems.NAIVE)),
        reported(f"{label}, seconds", shown),
    ]


def _over(seconds: Mapping[acp_systems.Names, float], mode: str) -> dict[str, float]:
    return {one: seconds[one, mode] / seconds[one, acp_systems.FUSION] for one in acp_systems.SYSTEMS}


def swept(sweep: acp_steps.Sweep) -> list[Check]:
    """The number of buffers that ACP-SGD finds by itself, against the best one of a sweep."""
    label = "ACP-SGD, buffers by search, modelled link: time per step"
    seconds = {str(buffers): one for buffers, one in sweep.seconds.items()}
    return [
        at_most(f"{label} / that of the best of the sweep", sweep.over_best, SEARCH_MAX),
        reported(f"{label}, seconds by number of buffers", {**seconds, f"chosen: {sweep.chosen}": sweep.chosen_s}),
    ]


def trained(accuracies: Mapping[str, Sequence[float]]) -> list[Check]:
    """Accuracy by rank, and without error feedback or reuse; of each variant that of every seed."""
    means = {name: fmean(found) for name, found in accuracies.items()}
    lost = means[acp_digits.SSGD] - means[acp_digits.ACP]
    label = "ACP-SGD, digits"
    return [
        at_most(f"{label}, rank {acp_digits.RANK}: accuracy lost against S-SGD", lost, ACCURACY_LOSS_MAX),
        *(
            at_most(f"{label}, {name}: accuracy", means[name], means[acp_digits.ACP])
            for name in (acp_digits.NO_FEEDBACK, acp_digits.NO_REUSE)
        ),
        reported(f"{label}: mean accuracy", means),
    ]


def over_the_group(seconds: Mapping[str, float]) -> list[Check]:
    """Seconds of a step by name, all over the process group on the same links."""
    label = "transformer, 4 workers, over gloo, 9 buffers: time per step"
    usual = seconds[USUAL]
    return [
        at_least(f"{label}, {LATE} / with", seconds[LATE] / usual, ABLATION_MIN),
        at_least(f"{label}, {UNFUSED} / with", seconds[UNFUSED] / usual, ABLATION_MIN),
        at_least(f"{label}, Power-SGD / ACP-SGD", seconds[POWERSGD] / seconds[SMALL], POWERSGD_MIN),
        reported(f"{label}, seconds", dict(seconds)),
    ]
