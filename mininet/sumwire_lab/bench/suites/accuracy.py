# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Time to accuracy: the same trainings with every system, over the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from sumwire_lab.bench import contenders
from sumwire_lab.bench.benchmark import Context
from sumwire_lab.bench.network_training import train
from sumwire_lab.bench.suite import Chart, Presentation, Series, Suite, Table
from sumwire_lab.options.bench_options import BenchOptions
from sumwire_lab.options.recipes import BASELINE, BENCHED
from sumwire_lab.options.tasks import TASKS

LINK_MBIT: Final = 10.0
QUICK_LINK_MBIT: Final = 100.0
QUICK_SYSTEMS: Final = (*contenders.PUBLISHED, "thc", "marsit", "acp")
# Of the systems with two transports, the one that needs no switch is there as well.
ALL_SYSTEMS: Final = (*BENCHED, "acp@group", "thc@group")
QUICK_TASKS: Final = ("digits",)
# Points of a curve in the record and on the page.
CURVE_POINTS: Final = 200


@dataclass(frozen=True)
class Case:
    """One training."""

    task: str
    system: str
    link_mbit: float
    seed: int
    quick: bool

    @property
    def label(self) -> str:
        return f"{self.task}, {self.system}, {self.link_mbit:g} Mbit/s"


@dataclass(frozen=True)
class Row:
    """One training. Accuracies are 0 to 1. Seconds are training time, without tests and logging."""

    task: str
    system: str
    link_mbit: float
    target: float
    accuracy: float
    time_to_target_s: float | None
    comm_s_per_step: float
    step_s: float
    wire_bytes_per_step: float
    steps: int
    parameters: int
    replicas_equal: bool
    fallbacks: int
    curve: tuple[tuple[float, float], ...]
    """(seconds, accuracy)"""


class Accuracy(Suite[Case, Row]):
    """Real trainings on real data."""

    name: ClassVar = "accuracy"
    title: ClassVar = "Time to accuracy"
    question: ClassVar = "How long until a model is as good as it should be, and does compression spoil it?"
    how: ClassVar = (
        "Four workers train the same model, from the same weights and on the same data, once with each system. "
        "The time counts whole steps (forward pass, backward pass, communication, optimizer), but not the tests. "
        "The learning rate was chosen for each system. The target accuracy of a model is the same for all "
        "systems. Systems over the process group run on kernel bridges, without Sumwire. The ratio compares the "
        "best of gloo, fp16 and powersgd with the best system that uses the switch."
    )

    def plan(self, options: BenchOptions) -> list[Case]:
        tasks = [task for task in TASKS if task in QUICK_TASKS] if options.quick else TASKS
        systems = QUICK_SYSTEMS if options.quick else ALL_SYSTEMS
        link = QUICK_LINK_MBIT if options.quick else LINK_MBIT
        return [Case(task, system, link, options.seed, options.quick) for task in tasks for system in systems]

    def left_out(self, options: BenchOptions) -> list[str]:
        gone = [task for task in TASKS if options.quick and task not in QUICK_TASKS]
        return [f"{task}: takes longer than a quick run." for task in gone]

    def measure(self, case: Case, context: Context) -> list[Row]:
        trained = train(
            case.task,
            case.system,
            link_mbit=case.link_mbit,
            seed=case.seed,
            quick=case.quick,
            switch=context.options.switch,
            engine=context.options.engine,
            folder=context.folder / "accuracy",
            say=context.say,
        )
        entry = trained.entry
        return [
            Row(
                task=case.task,
                system=case.system,
                link_mbit=case.link_mbit,
                target=trained.target,
                curve=thinned(trained.curve),
                fallbacks=entry.get("fallbacks", 0),
                **{name: entry[name] for name in _FROM_SUMMARY},
            )
        ]

    def present(self, rows: Sequence[Row]) -> Presentation:
        tasks = list(dict.fromkeys(row.task for row in rows))
        return Presentation(
            tables=(*(_table(task, rows) for task in tasks), _verdicts(tasks, rows)),
            charts=tuple(_chart(task, rows) for task in tasks),
            behind=tuple(sentence for task in tasks for sentence in _behind(task, rows)),
        )


_FROM_SUMMARY: Final = (
    *("accuracy", "time_to_target_s", "comm_s_per_step", "step_s", "wire_bytes_per_step", "steps", "parameters"),
    "replicas_equal",
)


def thinned(curve: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """About CURVE_POINTS of the points at most, including the last one."""
    stride = max(1, -(-len(curve) // CURVE_POINTS))
    kept = list(curve[::stride])
    return tuple(kept if kept and kept[-1] == curve[-1] else [*kept, *curve[-1:]])


def speed_up(task: str, rows: Sequence[Row]) -> tuple[str, str, float] | None:
    """Best baseline, best system of Sumwire, and the speed-up in time to accuracy; None if one never reached the
    target."""
    times: Mapping[str, float | None] = {row.system: row.time_to_target_s for row in rows if row.task == task}
    theirs = contenders.best(times, contenders.PUBLISHED)
    mine = contenders.best(times, contenders.ours(times))
    if theirs is None or mine is None:
        return None
    return theirs, mine, float(times[theirs] or 0.0) / float(times[mine] or 1.0)


def _table(task: str, rows: Sequence[Row]) -> Table:
    here = [row for row in rows if row.task == task]
    head = (
        *("system", "final accuracy, %", f"to {here[0].target:.0%}, s", "communication a step, s", "whole step, s"),
        *("MB on a link a step", "steps", "replicas equal", "fall-backs"),
    )
    cells = tuple(
        (
            row.system,
            f"{100 * row.accuracy:.2f}",
            _seconds(row.time_to_target_s),
            f"{row.comm_s_per_step:.3f}",
            f"{row.step_s:.3f}",
            f"{row.wire_bytes_per_step / 1e6:.3f}",
            str(row.steps),
            "yes" if row.replicas_equal else "no",
            str(row.fallbacks),
        )
        for row in here
    )
    title = f"{task}, {here[0].parameters / 1e6:.2f} million parameters, {here[0].link_mbit:g} Mbit/s"
    return Table(title, head, cells)


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f}"


def _verdicts(tasks: Sequence[str], rows: Sequence[Row]) -> Table:
    cells = []
    for task in tasks:
        found = speed_up(task, rows)
        cells.append((task, "-", "-", "-") if found is None else (task, found[0], found[1], f"{found[2]:.2f}"))
    return Table(
        "Time to the target", ("model", "best baseline", "best of Sumwire", "baseline / Sumwire"), tuple(cells)
    )


def _chart(task: str, rows: Sequence[Row]) -> Chart:
    here = [row for row in rows if row.task == task]
    series = tuple(Series(row.system, tuple((x, 100 * y) for x, y in row.curve)) for row in here)
    end = max(x for row in here for x, _ in row.curve)
    target = Series("target", ((0.0, 100 * here[0].target), (end, 100 * here[0].target)), bound=True)
    title = f"Accuracy over training time, {task}, {here[0].link_mbit:g} Mbit/s"
    return Chart(title, "training time, s", "test accuracy, %", (*series, target))


def _behind(task: str, rows: Sequence[Row]) -> list[str]:
    """Sentences on systems of Sumwire that miss the target, are slower than the best baseline or less accurate than
    gloo."""
    here = {row.system: row for row in rows if row.task == task}
    theirs = contenders.best({name: row.time_to_target_s for name, row in here.items()}, contenders.PUBLISHED)
    sentences = []
    for name in contenders.ours(here):
        row = here[name]
        if row.time_to_target_s is None:
            sentences.append(f"{task}: {name} never reached {row.target:.0%} accuracy (last: {row.accuracy:.1%}).")
        elif theirs is not None and row.time_to_target_s > (here[theirs].time_to_target_s or 0.0):
            sentences.append(
                f"{task}: {name} needs {row.time_to_target_s:.1f} s to the target, {theirs} "
                f"{here[theirs].time_to_target_s:.1f} s."
            )
        if BASELINE in here and row.accuracy < here[BASELINE].accuracy:
            points = 100 * (here[BASELINE].accuracy - row.accuracy)
            sentences.append(f"{task}: {name} ends {points:.2f} points below gloo's accuracy.")
    return sentences
