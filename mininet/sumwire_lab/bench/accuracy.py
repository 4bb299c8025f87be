# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Time to accuracy: trains with every system over the network. It is a suite of the page and, at several link rates,
the papers' figure (`bench-rates`)."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sumwire_lab.bench import page
from sumwire_lab.bench.benchmark import Bench, Chart, PageTable, Presentation, Row, Rows, Series, Suite
from sumwire_lab.options.bench_options import BenchOptions, RatesOptions, SwitchOptions
from sumwire_lab.options.recipes import BASELINE, BASELINES, BENCHED, TASKS, parse
from sumwire_lab.options.run_options import LinkOptions, RunOptions, TrainOptions
from sumwire_lab.run.results import RecordFollower, fastest
from sumwire_lab.run.training_run import run
from sumwire_lab.study.experiment import Say
from sumwire_lab.study.figures import aligned
from sumwire_lab.study.study import Context, Study


def ours(systems: Iterable[str]) -> list[str]:
    """Return the systems whose packets Sumwire's switch or software aggregator sums, without baselines."""
    return [name for name in systems if parse(name).switched and name not in BASELINES]


# By then a digits model has reached its accuracy.
QUICK_EPOCHS: Final = 8
# The slowest training: the transformer over gloo at 10 Mbit/s.
DEADLINE_S: Final = 3 * 3600.0
LINK_MBIT: Final = 10.0
QUICK_LINK_MBIT: Final = 100.0
QUICK_SYSTEMS: Final = (BASELINE, "fp16", "powersgd4", "naive4", "thc", "marsit", "acp")
# Of the systems with two transports, the one that needs no switch is there as well.
ALL_SYSTEMS: Final = (*BENCHED, "acp@group", "thc@group")
QUICK_TASKS: Final = ("digits",)
# Points of a curve in the record and on the page.
CURVE_POINTS: Final = 200


HOW: Final = (
    "Four workers train the same model, from the same weights and on the same data, once with each system. "
    "The time counts whole steps (forward pass, backward pass, communication, optimizer), but not the tests. "
    "The learning rate was chosen for each system. The target accuracy of a model is the same for all "
    "systems. Systems over the process group run on kernel bridges, without Sumwire. The ratio compares the "
    "best baseline (gloo, torch's hooks, methods of others, naive 4 bits) with the best system that uses the switch."
)
_FROM_SUMMARY: Final = (
    *("accuracy", "time_to_target_s", "comm_s_per_step", "step_s", "wire_bytes_per_step", "steps", "parameters"),
    "replicas_equal",
)


@dataclass(frozen=True)
class TrainingCase:
    """One training. ``quick``: train for QUICK_EPOCHS instead of the task's own epochs."""

    task: str
    system: str
    link_mbit: float
    seed: int
    quick: bool

    def measure(self, options: SwitchOptions, folder: Path, say: Say) -> dict[str, Any]:
        """Train over the network. Raises LabError.

        Accuracies are 0 to 1. Seconds are training time, without tests and logging. `curve`: (seconds, accuracy).
        """
        task = TASKS[self.task]
        run_options = RunOptions(
            link=LinkOptions(self.link_mbit),
            train=TrainOptions.of(self.task, seed=self.seed, epochs=QUICK_EPOCHS if self.quick else None),
            systems=(self.system,),
            switch=options.switch,
            engine=options.engine,
            deadline_s=DEADLINE_S,
        )
        summary, where = run(run_options, folder, say)
        follower = RecordFollower(where / self.system / "worker0.jsonl")
        follower.poll()
        curve = [(step.clock_s, step.accuracy) for step in follower.record.steps if step.accuracy is not None]
        entry = summary["systems"][self.system]
        return {
            "task": self.task,
            "system": self.system,
            "link_mbit": self.link_mbit,
            "target": task.target,
            **{name: entry[name] for name in _FROM_SUMMARY},
            "fallbacks": entry.get("fallbacks", 0),
            "curve": thinned(curve),
        }


def cases(options: BenchOptions) -> list[TrainingCase]:
    """Return the cases: every system with every model."""
    tasks = [task for task in TASKS if task in QUICK_TASKS] if options.quick else TASKS
    systems = QUICK_SYSTEMS if options.quick else ALL_SYSTEMS
    link = QUICK_LINK_MBIT if options.quick else LINK_MBIT
    return [TrainingCase(task, system, link, options.seed, options.quick) for task in tasks for system in systems]


def study(name: str, trainings: Sequence[TrainingCase], options: SwitchOptions) -> Study:
    """Return the study: trainings of models on real data."""

    def measure(case: TrainingCase, context: Context) -> dict[str, Any]:
        return case.measure(options, context.folder, context.say)

    return Study(name, "time to accuracy", trainings, measure)


def left_out(options: BenchOptions) -> list[str]:
    """Return the tasks that take too long for a quick run."""
    gone = [task for task in TASKS if options.quick and task not in QUICK_TASKS]
    return [f"{task}: takes longer than a quick run." for task in gone]


def present(rows: Rows) -> Presentation:
    """Present a table and a chart for each model, and who is faster."""
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    return Presentation(
        tables=(*(_table(task, rows) for task in tasks), _verdicts(tasks, rows)),
        charts=tuple(_chart(task, rows) for task in tasks),
        behind=tuple(sentence for task in tasks for sentence in _behind(task, rows)),
    )


ACCURACY: Final = Suite(
    "accuracy",
    "Time to accuracy",
    "How long until a model is as good as it should be, and does compression spoil it?",
    HOW,
    lambda options: study("accuracy", cases(options), options),
    present,
    left_out,
)


def thinned(curve: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Return at most about CURVE_POINTS of the points, including the last one."""
    stride = max(1, -(-len(curve) // CURVE_POINTS))
    kept = list(curve[::stride])
    return tuple(kept if kept and kept[-1] == curve[-1] else [*kept, *curve[-1:]])


def speed_up(task: str, rows: Rows) -> tuple[str, str, float] | None:
    """Return the best baseline, Sumwire's best system, and its speed-up in time to accuracy; None if one never reached
    the target."""
    times: Mapping[str, float | None] = {row["system"]: row["time_to_target_s"] for row in rows if row["task"] == task}
    theirs = fastest(times, BASELINES)
    mine = fastest(times, ours(times))
    if theirs is None or mine is None:
        return None
    return theirs, mine, float(times[theirs] or 0.0) / float(times[mine] or 1.0)


def _table(task: str, rows: Rows) -> PageTable:
    here = [row for row in rows if row["task"] == task]
    head = (
        *("system", "final accuracy, %", f"to {here[0]['target']:.0%}, s", "communication a step, s", "whole step, s"),
        *("MB on a link a step", "steps", "replicas equal", "fall-backs"),
    )
    cells = tuple(
        (
            row["system"],
            f"{100 * row['accuracy']:.2f}",
            _seconds_or_never(row["time_to_target_s"]),
            f"{row['comm_s_per_step']:.3f}",
            f"{row['step_s']:.3f}",
            f"{row['wire_bytes_per_step'] / 1e6:.3f}",
            str(row["steps"]),
            "yes" if row["replicas_equal"] else "no",
            str(row["fallbacks"]),
        )
        for row in here
    )
    title = f"{task}, {here[0]['parameters'] / 1e6:.2f} million parameters, {here[0]['link_mbit']:g} Mbit/s"
    return PageTable(title, head, cells)


def _seconds_or_never(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f}"


def _verdicts(tasks: Sequence[str], rows: Rows) -> PageTable:
    cells = []
    for task in tasks:
        found = speed_up(task, rows)
        cells.append((task, "-", "-", "-") if found is None else (task, found[0], found[1], f"{found[2]:.2f}"))
    return PageTable(
        "Time to the target", ("model", "best baseline", "best of Sumwire", "baseline / Sumwire"), tuple(cells)
    )


def _chart(task: str, rows: Rows) -> Chart:
    here = [row for row in rows if row["task"] == task]
    series = tuple(Series(row["system"], tuple((x, 100 * y) for x, y in row["curve"])) for row in here)
    end = max(x for row in here for x, _ in row["curve"])
    target = Series("target", ((0.0, 100 * here[0]["target"]), (end, 100 * here[0]["target"])), bound=True)
    title = f"Accuracy over training time, {task}, {here[0]['link_mbit']:g} Mbit/s"
    return Chart(title, "training time, s", "test accuracy, %", (*series, target))


def _behind(task: str, rows: Rows) -> list[str]:
    """Sentences on systems of Sumwire that miss the target, are slower than the best baseline or less accurate than
    gloo."""
    here = {row["system"]: row for row in rows if row["task"] == task}
    theirs = fastest({name: row["time_to_target_s"] for name, row in here.items()}, BASELINES)
    sentences = []
    for name in ours(here):
        row = here[name]
        if row["time_to_target_s"] is None:
            sentences.append(
                f"{task}: {name} never reached {row['target']:.0%} accuracy (last: {row['accuracy']:.1%})."
            )
        elif theirs is not None and row["time_to_target_s"] > (here[theirs]["time_to_target_s"] or 0.0):
            sentences.append(
                f"{task}: {name} needs {row['time_to_target_s']:.1f} s to the target, {theirs} "
                f"{here[theirs]['time_to_target_s']:.1f} s."
            )
        if BASELINE in here and row["accuracy"] < here[BASELINE]["accuracy"]:
            points = 100 * (here[BASELINE]["accuracy"] - row["accuracy"])
            sentences.append(f"{task}: {name} ends {points:.2f} points below gloo's accuracy.")
    return sentences


PICTURE: Final = "bench-rates.svg"


def bench(options: RatesOptions) -> Bench:
    """Measure each system at each rate, seed by seed. The picture is drawn again after each training."""
    trainings = [
        TrainingCase(options.task, system, rate, seed, options.quick)
        for rate in options.bw
        for seed in options.seeds
        for system in options.systems
    ]
    rows: list[Row] = []

    def measure(case: TrainingCase, context: Context) -> dict[str, Any]:
        row = case.measure(options, context.folder, context.say)
        rows.append(row)
        # The study's folder, beside its records.
        (context.folder.parents[1] / PICTURE).write_text(page.svg(rates_chart(rows)))
        return row

    made = Study("bench-rates", "time to accuracy at several link rates", trainings, measure, stops=True)
    return Bench(made, lambda found: {"options": options, "rows": found}, rates_text)


def rates_text(rows: Rows) -> str:
    """Return a text of the seconds to the target by system and rate, the median of the seeds."""
    found = median_times(rows)
    rates = sorted({rate for _, rate in found})
    lines = [["seconds to the target", *(f"{rate:g} Mbit/s" for rate in rates)]]
    for system in dict.fromkeys(row["system"] for row in rows):
        lines.append([system, *(_seconds_or_never(found.get((system, rate))) for rate in rates)])
    return "\n".join(aligned(lines))


def median_times(rows: Rows) -> dict[tuple[str, float], float | None]:
    """Return, by system and rate, the median seconds to the target; None if some seed never reached it."""
    found: dict[tuple[str, float], list[float | None]] = {}
    for row in rows:
        found.setdefault((row["system"], row["link_mbit"]), []).append(row["time_to_target_s"])
    return {
        key: None if None in seconds else statistics.median(one for one in seconds if one is not None)
        for key, seconds in found.items()
    }


def rates_chart(rows: Rows) -> Chart:
    """Return a chart of the seconds to the target over the link rate, with a line for each system."""
    found = median_times(rows)
    series = []
    for system in dict.fromkeys(row["system"] for row in rows):
        points = sorted((rate, time) for (name, rate), time in found.items() if name == system and time is not None)
        series.append(Series(system, tuple(points)))
    title = f"Time to {rows[0]['target']:.0%} accuracy, {rows[0]['task']}"
    return Chart(title, "link rate, Mbit/s", "training time, s", tuple(series), log_x=True, log_y=True)
