# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The rows `headline` of `make verify-evidence`: time to equal accuracy, of baselines as users would choose them and of
Sumwire's systems. Trainings end when they reach the accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import median
from typing import Final

from sumwire_lab.bench.accuracy import ours
from sumwire_lab.options.recipes import BASELINE, BASELINES, DIGITS, DIGITS_CNN, TASKS
from sumwire_lab.options.run_options import LinkOptions, RunOptions, TrainOptions
from sumwire_lab.run.results import fastest
from sumwire_lab.study.check import Check, holds, reported
from sumwire_lab.verify.plan import Experiments, Verification, target_check

SYSTEMS: Final = (
    BASELINE, "fp16", "powersgd", "powersgd1", "powersgd4", "naive4", "thc", "acp", "ef-sign", "marsit-adaptive",
)  # fmt: skip
RATES: Final = (10.0, 100.0, 1000.0)
NAMES: Final = {"digits": DIGITS.name, "cnn": DIGITS_CNN.name}
RATIO_MIN: Final = 1.5
# Up to this rate the ratio has a target.
SLOW_MBIT: Final = 100.0
DEADLINE_S: Final = 2 * 3600.0


def checks(where: str, target: float, times: Mapping[str, Sequence[float | None]], least: float | None) -> list[Check]:
    """Check times to the accuracy. ``times``: seconds by system, seed by seed. ``least``: the target for the best
    baseline's time over that of Sumwire's best system; None for no target."""
    seconds = {name: _median(found) for name, found in times.items()}
    theirs, mine = fastest(seconds, BASELINES), fastest(seconds, ours(seconds))
    pairs = [(theirs, mine), (BASELINE, mine), (theirs, "thc")]
    ratios = {f"{one} / {other}": _ratio(seconds, one, other) for one, other in pairs}
    over_best = ratios[f"{theirs} / {mine}"]
    label = f"{where}: time to {target:.0%}, best baseline / best of Sumwire"
    shown = {name: "never" if one is None else round(one, 3) for name, one in seconds.items()}
    return [
        reported(label, ratios)
        if least is None
        else holds(label, ratios, f">= {least:g}", over_best is not None and over_best >= least),
        reported(f"{where}: seconds to {target:.0%}", shown),
    ]


def _median(found: Sequence[float | None]) -> float | None:
    """The median; None if some seed never reached the accuracy."""
    known = [one for one in found if one is not None]
    return median(known) if len(known) == len(found) else None


def _ratio(seconds: Mapping[str, float | None], theirs: str | None, mine: str | None) -> float | None:
    above, below = (None if name is None else seconds.get(name) for name in (theirs, mine))
    return above / below if above and below else None


def _measure(name: str, mbit: float, v: Verification) -> list[Check]:
    """All systems in turn, for each seed. On the slowest links one seed takes as long as three elsewhere."""
    task = TASKS[NAMES[name]]
    times: dict[str, list[float | None]] = {system: [] for system in SYSTEMS}
    for seed in v.options.seeds if mbit >= SLOW_MBIT else v.options.seeds[:1]:
        train = TrainOptions.of(task.name, seed=seed, until_target=True, nmse_samples=0)
        summary = v.summary(
            RunOptions(link=LinkOptions(mbit), train=train, systems=SYSTEMS, switch="soft", deadline_s=DEADLINE_S)
        )
        for system, entry in summary["systems"].items():
            times[system].append(entry["time_to_target_s"])
    least = RATIO_MIN if mbit <= SLOW_MBIT else None
    where = f"{name}, {mbit:g} Mbit/s"
    return [*checks(where, task.target, times, least), target_check(where, TrainOptions.of(task.name))]


EXPERIMENTS: Final[Experiments] = {
    f"{name}-{mbit:g}": partial(_measure, name, mbit) for name in NAMES for mbit in RATES
}
