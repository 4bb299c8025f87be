# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`make verify-acp`: the experiments and checks for every number promised for ACP-SGD, the baselines and the software
aggregator."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from nativelib import programs
from sumwire.lowrank import shapes
from sumwire.lowrank.shapes import MEGABYTE, Sizes

from sumwire_lab.bench import accuracy
from sumwire_lab.bench.accuracy import TrainingCase
from sumwire_lab.bench.benchmark import Rows, in_network
from sumwire_lab.errors import LabError
from sumwire_lab.options.bench_options import BenchOptions
from sumwire_lab.options.recipes import BASELINE, TASKS, TEXT, parse
from sumwire_lab.options.run_options import LinkOptions, RunOptions, TrainOptions
from sumwire_lab.run.results import RecordFollower, StepRecord
from sumwire_lab.run.training_run import run
from sumwire_lab.study.check import Check, at_least, at_most, equal, holds, reported
from sumwire_lab.verify.plan import ROOT, Experiments, Verification, target_check

# The paper's averages over its models.
OVER_SSGD_MIN: Final = 4.06
OVER_POWERSGD_MIN: Final = 1.43
AGGREGATOR_MIN: Final = 4.0
ACCURACY_RATIO_MIN: Final = 1.5
PUBLISHED: Final = (BASELINE, "fp16", "powersgd")
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
# A number with the unit of a measurement. Link rates and model sizes are settings and do not match.
_MEASURED: Final = re.compile(r"\d\s?(?:s|ms|us|µs|%|packets/s|times(?= (?:less|faster|more)))(?![\w/])")
_PLACEHOLDER: Final = re.compile(r"\bMEASURE\b")
_FENCE: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_COMMAND: Final = re.compile(r"\bmake ([a-z][a-z0-9-]*)")
_TARGET: Final = re.compile(r"^([a-z][a-z0-9-]*):", re.MULTILINE)


def reference_checks(found: Mapping[str, Any]) -> list[Check]:
    """Check ACP-SGD against a direct implementation of its equations; see `sumwire.lowrank.check`."""
    label = f"ACP-SGD against a plain reference, {found['workers']} workers, {found['steps']} steps, float64"
    return [
        at_most(f"{label}: largest difference", found["largest_difference"], found["target"]),
        equal(f"{label}: replicas bit-equal", bool(found["replicas_equal"]), True),
    ]


def printed(sizes: Sizes) -> dict[str, str]:
    """Return sizes in the form of GOLDEN."""

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


def golden_check(model: str, sizes: Sizes) -> Check:
    """Check all sizes of one model against GOLDEN."""
    found = printed(sizes)
    target = "; ".join(f"{name} {value}" for name, value in GOLDEN[model].items())
    return equal(f"golden sizes, {model}", found, GOLDEN[model], f"equal: {target}")


def step_seconds(workers: Sequence[Sequence[StepRecord]], warm_up: int) -> float | None:
    """Return the mean time of a whole step without the first `warm_up` steps; None if there are no others."""
    taken = [step.step_s for records in workers for step in records if step.step >= warm_up]
    return fmean(taken) if taken else None


def step_checks(label: str, seconds: Mapping[str, float | None], *, acp: str, gloo: str, powersgd: str) -> list[Check]:
    """Check the speed-up of ACP-SGD's time per step over both baselines."""

    def over(other: str) -> float | None:
        mine, theirs = seconds.get(acp), seconds.get(other)
        return theirs / mine if mine and theirs else None

    shown = {name: value and round(value, 4) for name, value in seconds.items()}
    return [
        at_least(f"{label}: time per step, S-SGD over gloo / ACP-SGD", over(gloo), OVER_SSGD_MIN),
        at_least(f"{label}: time per step, Power-SGD of the same rank / ACP-SGD", over(powersgd), OVER_POWERSGD_MIN),
        reported(f"{label}: seconds per step", shown, measured=None not in shown.values()),
    ]


def aggregator_checks(summary: Mapping[str, Any], label: str) -> list[Check]:
    """Check the communication speed-up of THC with the software aggregator over gloo, without a fall-back."""
    systems = summary["systems"]
    mine, theirs = systems["thc"], systems["gloo"]
    ratio = theirs["comm_s_per_step"] / mine["comm_s_per_step"]
    sound = bool(mine["replicas_equal"]) and mine["fallbacks"] == 0
    state = {"replicas_equal": mine["replicas_equal"], "fallbacks": mine["fallbacks"]}
    return [
        at_least(f"{label}: communication per step, gloo / Sumwire", ratio, AGGREGATOR_MIN),
        holds(f"{label}: replicas and fall-backs", state, "bit-equal, 0", sound),
    ]


def accuracy_ratio_checks(task: str, rows: Rows) -> list[Check]:
    """Check time to accuracy: the best baseline's over that of Sumwire's best system."""
    label = f"time to accuracy, {task}"
    times = {row["system"]: row["time_to_target_s"] for row in rows if row["task"] == task}
    found = accuracy.speed_up(task, rows)
    baselines = [name for name in PUBLISHED if name in times]
    name = f"{label}: best of {', '.join(baselines)} / best of Sumwire"
    missing = sorted(set(PUBLISHED) - times.keys())
    ratio = None if found is None or missing else found[2]
    reached = {system: value if value is None else round(value, 2) for system, value in times.items()}
    return [
        at_least(name if found is None else f"{name} ({found[0]} / {found[1]})", ratio, ACCURACY_RATIO_MIN),
        reported(f"{label}: seconds to the target (null: never)", reached, measured=bool(reached) and not missing),
    ]


def unsourced(page: str, targets: Collection[str]) -> list[str]:
    """Return the beginnings of paragraphs that still have a placeholder, or that have a measured number but no `make
    TARGET` that produces it. The target may be in an HTML comment of the paragraph."""
    paragraphs = re.split(r"\n\s*\n", _FENCE.sub("", page))
    found = []
    for paragraph in paragraphs:
        commands = _COMMAND.findall(paragraph)
        sourced = any(command in targets for command in commands)
        if _PLACEHOLDER.search(paragraph) or (_MEASURED.search(paragraph) and not sourced):
            found.append(" ".join(paragraph.split())[:100])
    return found


def readme_check(text: str, makefile: str) -> Check:
    """Check that every paragraph of the README with a measured number names a command that measures it."""
    found = unsourced(text, _TARGET.findall(makefile))
    return holds("README: paragraphs with a measured number and no command that makes it", found, "none", not found)


LINK: Final = LinkOptions(10.0)
ACP: Final = "acp"
POWERSGD: Final = "powersgd"
# Enough for a mean over P and Q steps after the warm-up steps.
STEPS: Final = 16
# The baselines, THC, Marsit and ACP-SGD. `make bench` has the other systems.
ACCURACY_SYSTEMS: Final = (*PUBLISHED, "thc", "marsit", "acp")
_REFERENCE_SECONDS: Final = 300.0
AGGREGATOR: Final = "aggregator"
AGGREGATOR_LINK: Final = LinkOptions(100.0)


def _reference(_: Verification) -> list[Check]:
    """Check the record of `python -m sumwire.lowrank.check --json`. Raises LabError if it prints none."""
    command = programs.module("sumwire.lowrank.check", "--json")
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_REFERENCE_SECONDS)
    if not done.stdout:
        raise LabError(f"{' '.join(command[1:])} ended with {done.returncode}: {done.stderr[-500:]}")
    return reference_checks(json.loads(done.stdout))


def _readme(_: Verification) -> list[Check]:
    return [readme_check((ROOT / "README.md").read_text(), (ROOT / "Makefile").read_text())]


def _steps(v: Verification) -> list[Check]:
    """Time per step of S-SGD, Power-SGD and ACP-SGD, trained one after the other in one run."""
    systems = (BASELINE, POWERSGD, ACP)
    train = TrainOptions.of(TEXT.name, max_steps=STEPS)
    _, folder = run(RunOptions(systems=systems, link=LINK, train=train), v.results, v.say)
    seconds = {name: mean_step(folder / name, RunOptions().workers, name) for name in systems}
    label = f"transformer, 4 workers, {LINK.mbit:g} Mbit/s, rank {train.rank}"
    return step_checks(label, seconds, acp=ACP, gloo=BASELINE, powersgd=POWERSGD)


def mean_step(folder: Path, workers: int, system: str) -> float | None:
    """Return the mean seconds of a system's steps after its warm-up, and after Power-SGD's. `folder`: the system's."""
    followers = [RecordFollower(folder / f"worker{rank}.jsonl") for rank in range(workers)]
    for follower in followers:
        follower.poll()
    # Power-SGD has the longest warm-up. The same steps are compared for all systems.
    warm_up = max(parse(name).recipe.warm_up_steps for name in (system, POWERSGD))
    return step_seconds([follower.record.steps for follower in followers], warm_up)


def _aggregator(v: Verification) -> list[Check]:
    summary = v.summary(RunOptions(systems=(BASELINE, "thc"), link=AGGREGATOR_LINK, switch=AGGREGATOR))
    return aggregator_checks(summary, f"software aggregator, THC, 4 workers, {AGGREGATOR_LINK.mbit:g} Mbit/s")


def _accuracy(task: str, v: Verification) -> list[Check]:
    """Measured as in the benchmark. A system that fails is reported and has no time."""
    cases = [TrainingCase(task, system, LINK.mbit, seed=1, quick=False) for system in ACCURACY_SYSTEMS]
    trained = in_network(accuracy.study(f"accuracy-{task}", cases, BenchOptions()), v.results, v.say)
    found = accuracy_ratio_checks(task, [row for one in trained.records for row in one.rows])
    return [*found, target_check(f"time to accuracy, {task}", TrainOptions.of(task, seed=1))]


EXPERIMENTS: Final[Experiments] = {
    "ACP-SGD against the reference": _reference,
    "golden sizes": lambda _: [golden_check(model, shapes.sizes(model)) for model in GOLDEN],
    "README": _readme,
    "transformer, time per step": _steps,
    "software aggregator": _aggregator,
    **{f"time to accuracy, {task}": partial(_accuracy, task) for task in TASKS},
}
