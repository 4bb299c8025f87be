# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The row `pays-steps` of `make verify-ways`: what `sumwire pays` predicts for a model, and the lab's steps with its
tensors."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Final

from sumwire.start import trial
from sumwire.systems import pays

from sumwire_lab.bench.exchange_worker import exchanges
from sumwire_lab.bench.timing import slowest_s
from sumwire_lab.network import switches
from sumwire_lab.options.recipes import TASKS, parse
from sumwire_lab.options.run_options import LinkOptions, RunOptions, TrainOptions
from sumwire_lab.run.session import open_session
from sumwire_lab.study.check import Check, at_least, reported
from sumwire_lab.training import workload
from sumwire_lab.verify.plan import Experiments, Verification

SYSTEMS: Final[Mapping[str, str]] = {
    "gloo": pays.GLOO, "fp16": "fp16", "powersgd": pays.POWER_SGD, "sum32": pays.EXACT, "thc": "thc", "acp": "acp",
}  # fmt: skip
"""Systems as the lab names them, and as `sumwire pays` does."""
WORKERS: Final = 4
RANK: Final = 4
# Even, because ACP-SGD's steps are of two kinds by turns.
REPEATS: Final = 4
# By rate. Processors of a virtual machine are faster in one minute than in another.
ROUNDS: Final[Mapping[float, int]] = {10.0: 1, 100.0: 3, 1000.0: 3}
# The default of `sumwire pays`.
_RTT_S: Final = 2e-4
_WITHIN: Final = 0.25
_SHARE_LEAST: Final = 0.9
# Where one system is faster by as much, it must be predicted to be.
_APART: Final = 1.1
CELLS: Final = "pays-steps.json"


@dataclass(frozen=True)
class Cell:
    """Seconds of a step's communication, nothing of it hidden: predicted, and measured as the slowest worker's."""

    model: str
    mbit: float
    system: str
    predicted_s: float
    measured_s: float

    @property
    def off(self) -> float:
        """The predicted seconds over the measured ones, less 1."""
        return self.predicted_s / self.measured_s - 1


def models() -> dict[str, list[tuple[int, ...]]]:
    """Return the shapes of the tensors of each task's model."""
    return {name: [tuple(p.shape) for p in workload.network(TrainOptions.of(name)).parameters()] for name in TASKS}


def predicted(shapes: Sequence[tuple[int, ...]], mbit: float, costs: pays.Measured) -> dict[str, float]:
    """Return the seconds of a step by system, with these costs. Switch and workers share the cores."""
    return {one.system: one.seconds for one in pays.answers(_question(shapes, mbit), costs)}


def _question(shapes: Sequence[tuple[int, ...]], mbit: float) -> pays.Question:
    # The soft switch has a link for each worker, and its packets cost what an aggregator's do.
    cores = len(os.sched_getaffinity(0))
    return pays.question_of(shapes, WORKERS, mbit * 1e6, _RTT_S, math.inf, cores=cores, rank=RANK)


def measured(system: str, mbit: float, tensors: Sequence[Sequence[tuple[int, ...]]], folder: Path) -> list[float]:
    """Measure in the lab, one model after the other. Returns the median of the repeats. Raises LabError."""
    run = RunOptions(workers=WORKERS, link=LinkOptions(mbit), switch="soft", systems=(system,))
    kind = switches.choose_for(run) if parse(system).switched else None
    sizes = [sum(map(math.prod, shapes)) for shapes in tensors]
    told = {
        "exchange": "steps", "system": system, "sizes": sizes, "repeats": REPEATS, "options": {"rank": RANK},
        "tensors": tensors,
    }  # fmt: skip
    with open_session(run, kind, folder) as session:
        workers = exchanges(session, told)
    return [slowest_s([worker["sizes"][k] for worker in workers]) for k in range(len(sizes))]


def steps(v: Verification) -> list[Check]:
    """In each round ask `sumwire pays`, then measure. Writes the medians to pays-steps.json."""
    shapes, cells = models(), list[Cell]()
    for mbit, rounds in [*ROUNDS.items()][-1 if v.quick else 0 :]:
        found = [cell for _ in range(1 if v.quick else rounds) for cell in _round(v, mbit, shapes)]
        cells += medians(found)
    (v.results / CELLS).write_text(json.dumps([asdict(cell) for cell in cells], indent=1) + "\n")
    return checks(cells)


def _round(v: Verification, mbit: float, shapes: Mapping[str, Sequence[tuple[int, ...]]]) -> list[Cell]:
    # Costs are those of a value, but for low rank: of the model.
    costs = {name: trial.measured(_question(of, mbit), [*SYSTEMS.values()]) for name, of in shapes.items()}
    cells = []
    for system in SYSTEMS:
        seconds = measured(system, mbit, [*shapes.values()], v.results / f"pays-{system}-{mbit:g}")
        for (model, of), measured_s in zip(shapes.items(), seconds, strict=True):
            cell = Cell(model, mbit, system, predicted(of, mbit, costs[model])[SYSTEMS[system]], measured_s)
            cells.append(cell)
            v.say(
                f"{model}, {mbit:g} Mbit/s, {system}: predicted {cell.predicted_s:.4f} s, measured {measured_s:.4f} s"
            )
    return cells


def medians(cells: Sequence[Cell]) -> list[Cell]:
    """Return one cell for each model, rate and system: the medians of its rounds."""
    rounds: dict[tuple[str, float, str], list[Cell]] = {}
    for cell in cells:
        rounds.setdefault((cell.model, cell.mbit, cell.system), []).append(cell)
    return [
        replace(
            of[0],
            predicted_s=median(one.predicted_s for one in of),
            measured_s=median(one.measured_s for one in of),
        )
        for of in rounds.values()
    ]


def checks(cells: Sequence[Cell]) -> list[Check]:
    """Check how near the predictions are, and whether the fastest system is the predicted one."""
    near = sum(abs(cell.off) <= _WITHIN for cell in cells) / len(cells)
    worst = max(cells, key=lambda cell: abs(math.log(cell.predicted_s / cell.measured_s)))
    right, judged = ranked(cells)
    label = f"`sumwire pays` on {len(cells)} steps, predicted / measured seconds"
    return [
        at_least(f"{label}: share within {_WITHIN:.0%}", near, _SHARE_LEAST),
        reported(f"{label}: the largest difference", asdict(worst)),
        at_least(
            f"{label}: the fastest system is the predicted one, of {judged} that win by 10 %", right / judged, 1.0
        ),
    ]


def ranked(cells: Sequence[Cell]) -> tuple[int, int]:
    """Return in how many places the fastest system is as predicted, and in how many one wins by 10 %."""
    places: dict[tuple[str, float], list[Cell]] = {}
    for cell in cells:
        places.setdefault((cell.model, cell.mbit), []).append(cell)
    right = judged = 0
    for found in places.values():
        first, second = sorted(found, key=lambda cell: cell.measured_s)[:2]
        if second.measured_s >= _APART * first.measured_s:
            judged += 1
            right += min(found, key=lambda cell: cell.predicted_s) is first
    return right, max(judged, 1)


EXPERIMENTS: Final[Experiments] = {"steps": steps}
