# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The rows `headline` of `make verify-evidence`: time to equal accuracy, of baselines as users would choose them and of
Sumwire's systems, and what they send until then. Trainings end when they reach the accuracy.

Two rows change one thing alone: where THC's packets are summed, and which of two low-rank systems has the group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

from sumwire_lab.bench.accuracy import ours
from sumwire_lab.options.recipes import BASELINE, BASELINES, DIGITS, DIGITS_CNN, TASKS, TEXT
from sumwire_lab.options.run_options import LinkOptions, RunOptions, TrainOptions
from sumwire_lab.run.results import RecordFollower, fastest, steps_to_target
from sumwire_lab.run.training_run import run
from sumwire_lab.study.check import Check, at_least, holds, reported
from sumwire_lab.verify.acp import OVER_POWERSGD_MIN, POWERSGD, mean_step
from sumwire_lab.verify.plan import Experiments, Verification, target_check

SYSTEMS: Final = (
    BASELINE, "fp16", "powersgd", "powersgd1", "powersgd4", "naive4", "thc", "acp", "ef-sign", "marsit-adaptive",
)  # fmt: skip
RATES: Final = (10.0, 100.0, 1000.0)
NAMES: Final = {"digits": DIGITS.name, "cnn": DIGITS_CNN.name, "text": TEXT.name}
RATIO_MIN: Final = 1.5
# Up to this rate the ratio has a target.
SLOW_MBIT: Final = 100.0
SLOWEST: Final = LinkOptions(RATES[0])
# Of the target accuracy: what was sent is also told for accuracies on the way.
PARTS: Final = (0.5, 0.75, 0.9, 1.0)
MB: Final = 1e6
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
    shown = {name: _shown(one) for name, one in seconds.items()}
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


def _shown(one: float | None) -> float | str:
    return "never" if one is None else round(one, 3)


def _ratio(seconds: Mapping[str, float | None], theirs: str | None, mine: str | None) -> float | None:
    return _over(*(None if name is None else seconds.get(name) for name in (theirs, mine)))


def _over(theirs: float | None, mine: float | None) -> float | None:
    return theirs / mine if theirs and mine else None


def megabytes_sent(folder: Path, target: float) -> list[float | None]:
    """Return what the first worker had sent when its test accuracy first reached each part of ``target``; None where it
    never did. ``folder``: a system's."""
    follower = RecordFollower(folder / "worker0.jsonl")
    follower.poll()
    steps = follower.record.steps
    reached = [steps_to_target(steps, part * target) for part in PARTS]
    return [None if count is None else sum(step.tx_bytes for step in steps[:count]) / MB for count in reached]


def sent_check(where: str, target: float, sent: Mapping[str, Sequence[Sequence[float | None]]]) -> Check:
    """Report medians over the seeds. ``sent``: megabytes by system, seed by seed, for each part of the target."""
    levels = ", ".join(f"{100 * part:g}" for part in PARTS)
    shown = {name: [_shown(_median(seeds)) for seeds in zip(*of, strict=True)] for name, of in sent.items()}
    return reported(f"{where}: MB that a worker sends until [{levels}] % of {target:.0%}", shown)


def _measure(name: str, mbit: float, v: Verification) -> list[Check]:
    """All systems in turn, for each seed. On the slowest links one seed takes as long as three elsewhere."""
    task = TASKS[NAMES[name]]
    times: dict[str, list[float | None]] = {system: [] for system in SYSTEMS}
    sent: dict[str, list[list[float | None]]] = {system: [] for system in SYSTEMS}
    for seed in v.options.seeds if mbit >= SLOW_MBIT else v.options.seeds[:1]:
        train = TrainOptions.of(task.name, seed=seed, until_target=True, nmse_samples=0)
        options = RunOptions(link=LinkOptions(mbit), train=train, systems=SYSTEMS, switch="soft", deadline_s=DEADLINE_S)
        summary, folder = run(options, v.results, v.say)
        for system, entry in summary["systems"].items():
            times[system].append(entry["time_to_target_s"])
            sent[system].append(megabytes_sent(folder / system, task.target))
    least = RATIO_MIN if mbit <= SLOW_MBIT else None
    where = f"{name}, {mbit:g} Mbit/s"
    return [
        *checks(where, task.target, times, least),
        sent_check(where, task.target, sent),
        target_check(where, TrainOptions.of(task.name)),
    ]


SERVER_MIN: Final = 1.1
SERVER_WORKERS: Final = 8
SERVER_LINK: Final = LinkOptions(100.0)


def server_checks(switch: Sequence[Mapping[str, Any]], server: Sequence[Mapping[str, Any]]) -> list[Check]:
    """Check entries of the same THC, summed by the switch and by a server, seed by seed."""
    label = f"digits, {SERVER_WORKERS} workers, {SERVER_LINK.mbit:g} Mbit/s, THC by a server / by the switch"
    until = [_median([entry["time_to_target_s"] for entry in side]) for side in (server, switch)]
    steps = [median(entry["comm_s_per_step"] for entry in side) for side in (server, switch)]
    return [
        at_least(f"{label}: time to {DIGITS.target:.0%}", _over(*until), SERVER_MIN),
        reported(f"{label}: communication of a step", _over(*steps)),
        reported("... seconds to the accuracy, and of communication", [until, steps]),
    ]


def _server(v: Verification) -> list[Check]:
    """A server's link takes the packets of all workers, and its results to all."""
    switch, server = [], []
    for seed in v.options.seeds:
        train = TrainOptions.of(DIGITS.name, seed=seed, until_target=True, nmse_samples=0)
        options = RunOptions(workers=SERVER_WORKERS, link=SERVER_LINK, train=train, systems=("thc",), switch="soft")
        switch.append(v.entry(options))
        server.append(v.entry(replace(options, server=True)))
    return [*server_checks(switch, server), target_check("digits by a server", TrainOptions.of(DIGITS.name))]


ACP: Final = "acp@group"
Seconds = tuple[float | None, float | None]
"""Of a step, and until the accuracy; None for a system without steps behind its warm-up, or that never reached it."""


def low_rank_checks(found: Mapping[str, Sequence[Seconds]]) -> list[Check]:
    """Check the times of systems, seed by seed."""
    label = f"transformer, {SLOWEST.mbit:g} Mbit/s, over the same group, Power-SGD / ACP-SGD of rank {TEXT.rank}"
    ratios = [_over(theirs[0], mine[0]) for theirs, mine in zip(found[POWERSGD], found[ACP], strict=True)]
    until = (_median([seconds for _, seconds in found[name]]) for name in (POWERSGD, ACP))
    return [
        at_least(f"{label}: time of a step", _median(ratios), OVER_POWERSGD_MIN),
        reported(f"{label}: time to {TEXT.target:.0%}", _over(*until)),
        reported("... seconds of a step and until then, by seed", {name: list(pairs) for name, pairs in found.items()}),
    ]


def _low_rank(v: Verification) -> list[Check]:
    found: dict[str, list[Seconds]] = {POWERSGD: [], ACP: []}
    for seed in v.options.seeds:
        train = TrainOptions.of(TEXT.name, seed=seed, until_target=True, nmse_samples=0)
        options = RunOptions(link=SLOWEST, train=train, systems=(POWERSGD, ACP), deadline_s=DEADLINE_S)
        summary, folder = run(options, v.results, v.say)
        for name, pairs in found.items():
            step = mean_step(folder / name, options.workers, name)
            pairs.append((step, summary["systems"][name]["time_to_target_s"]))
    return [*low_rank_checks(found), target_check("transformer of low rank", TrainOptions.of(TEXT.name))]


EXPERIMENTS: Final[Experiments] = {
    **{f"{name}-{mbit:g}": partial(_measure, name, mbit) for name in NAMES for mbit in RATES},
    "server": _server,
    "low-rank": _low_rank,
}
