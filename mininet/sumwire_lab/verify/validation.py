# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The row `validation` of `make verify-scale`: all-reduces that the lab measures, and the same ones simulated.

A cell is one tensor's all-reduce by one system on one network. What hosts and switches cost is measured first, on this
machine, by as many workers with tensors of other sizes on links without a limit. Earlier runs were looked at when costs
and rings were modelled, so the grid is not untouched. All is measured in two turns, which tell how far a measurement
repeats itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import fmean, median
from typing import Any, Final

from sumwire.systems import formula
from sumwire.systems.formula import ring_steps

from sumwire_lab.bench.exchange_worker import exchanges
from sumwire_lab.bench.timing import slowest_s
from sumwire_lab.network import switches
from sumwire_lab.network.shaping import kept
from sumwire_lab.options.conditions import Conditions
from sumwire_lab.options.recipes import BASELINE
from sumwire_lab.options.run_options import UNLIMITED, LinkOptions, RunOptions
from sumwire_lab.options.simulate_options import LAB_CORES, of_run
from sumwire_lab.run.conditions import apply_conditions
from sumwire_lab.run.session import open_session
from sumwire_lab.simulate import packets
from sumwire_lab.simulate.costs import Measured, costs_of
from sumwire_lab.simulate.systems import system_of
from sumwire_lab.simulate.workloads import Bucket
from sumwire_lab.study.check import Check, at_least, at_most, reported
from sumwire_lab.verify.plan import Verification

SYSTEMS: Final = (BASELINE, "thc")
SIZES: Final = (100_000, 1_000_000)
REPEATS: Final = 3
TURNS: Final = 2
NEAR: Final = 0.1
FAR: Final = 0.2
CELLS: Final = "validation.json"
_BUSY: Final = 0.25


@dataclass(frozen=True)
class Place:
    """A network and a system; each has a cell for every size."""

    system: str
    workers: int
    mbit: float
    topology: str = "star"
    loss: float = 0.0
    delay_ms: float = 0.0
    background: float = 0.0

    @property
    def run(self) -> RunOptions:
        """The lab's options."""
        conditions = Conditions(loss=self.loss, delay_ms=self.delay_ms, background=self.background)
        return RunOptions(
            workers=self.workers, link=LinkOptions(self.mbit), topology=self.topology, switch="soft",
            systems=(self.system,), conditions=conditions,
        )  # fmt: skip

    @property
    def offloads(self) -> bool:
        """Whether the lab's hosts keep their offloads here, without which packets cost more."""
        return kept(None if self.system == BASELINE else self.run.switch, self.run)


@dataclass(frozen=True)
class Cell:
    """What was measured in each turn and what was predicted, in seconds of the slowest worker. ``busy``: the part of
    all cores' time that processors work, as predicted."""

    place: Place
    values: int
    turns_s: tuple[float, ...]
    predicted_s: float
    busy: float

    @property
    def measured_s(self) -> float:
        """The mean of the turns."""
        return fmean(self.turns_s)

    @property
    def moved(self) -> float:
        """The last turn's seconds over the first one's, less 1."""
        return self.turns_s[-1] / self.turns_s[0] - 1

    @property
    def off(self) -> float:
        """The predicted seconds over the measured ones, less 1."""
        return self.predicted_s / self.measured_s - 1


def places() -> list[Place]:
    """Return all places: stars by workers and rates, trees, losses, long paths and cross traffic."""
    stars = [
        Place(system, workers, mbit) for workers, mbit, system in product((2, 4, 8, 16), (10.0, 100.0, 1000.0), SYSTEMS)
    ]
    others = [
        *(Place(system, workers, 100.0, "leaf-spine") for workers in (4, 8) for system in SYSTEMS),
        *(Place(system, 4, 100.0, loss=0.01) for system in SYSTEMS),
        *(Place(system, 4, 100.0, delay_ms=5.0) for system in SYSTEMS),
        *(Place(system, 4, mbit, background=0.5) for mbit in (10.0, 100.0) for system in SYSTEMS),
    ]
    return [*stars, *others]


def measured(place: Place, folder: Path) -> list[float]:
    """Measure in the lab. Returns seconds by size, the slowest worker's, the median of the repeats. Raises LabError."""
    run = place.run
    kind = None if place.system == BASELINE else switches.choose_for(run)
    told = {"exchange": "all-reduce", "system": place.system, "sizes": SIZES, "repeats": REPEATS}
    with open_session(run, kind, folder) as session, apply_conditions(session, run.conditions):
        workers = exchanges(session, told)
    of_sizes = [[worker["sizes"][k] for worker in workers] for k in range(len(SIZES))]
    return [slowest_s(of) for of in of_sizes]


@dataclass(frozen=True)
class Worked:
    """Seconds of an exchange on links without a limit: the slowest worker's, those of a host's processor, and of the
    switch's."""

    seconds: float
    host_s: float
    switch_s: float


def calibrated(place: Place, folder: Path) -> dict[int, Worked]:
    """Measure what processors cost by this system with so many workers, and with the place's offloads. Returns it by
    size. Raises LabError."""
    kind = None if place.system == BASELINE else "soft"
    told = {"exchange": "all-reduce", "system": place.system, "sizes": _CALIBRATED, "repeats": REPEATS}
    # Hosts of a run with losses have no offloads. No packet is lost here: only apply_conditions sets up losses.
    conditions = Conditions() if place.offloads else Conditions(loss=0.5)
    run = RunOptions(workers=place.workers, link=LinkOptions(UNLIMITED), switch="soft", conditions=conditions)
    with open_session(run, kind, folder) as session:
        found = exchanges(session, told)
    of_sizes = {size: [worker["sizes"][k] for worker in found] for k, size in enumerate(_CALIBRATED)}
    return {
        size: Worked(
            slowest_s(of), _each(of, "cpu_each_s"), 0.0 if kind is None else _each(of[:1], "switch_cpu_each_s")
        )
        for size, of in of_sizes.items()
    }


# Between these are the sizes of the cells.
_CALIBRATED: Final = (30_000, 300_000, 3_000_000)


def costs_at(place: Place, values: int, known: Mapping[int, Worked]) -> Measured:
    """Return the costs of processors for a tensor of so many values, on the line between the two sizes beside it. The
    smallest one tells the seconds of a round trip or message."""
    smaller, larger = max(size for size in known if size <= values), min(size for size in known if size > values)
    low, high, least = known[smaller], known[larger], known[min(known)]
    host_s = max(0.0, (high.host_s - low.host_s) / (larger - smaller))
    added_s = low.switch_s + (high.switch_s - low.switch_s) * (values - smaller) / (larger - smaller)
    worked = (place.workers * least.host_s + least.switch_s) / min(LAB_CORES, place.workers)
    plain = place.system == BASELINE
    messages = ring_steps(place.workers) if plain else 1
    costs = formula.Costs(
        host_s=host_s,
        switch_s=added_s / values / place.workers,
        operation_s=max(0.0, low.host_s - host_s * smaller),
        step_s=max(0.0, least.seconds - worked) / messages,
        busy=1.0,
        apart=0.0,
    )
    return {(place.system, "bridge" if plain else "soft"): costs}


def _each(workers: Sequence[Mapping[str, Any]], what: str) -> float:
    """The mean of the workers of an exchange's median."""
    return fmean(median(worker[what]) for worker in workers)


def predicted(place: Place, values: int, measured_costs: Measured) -> tuple[float, float]:
    """Simulate it with these costs. Returns the seconds of an exchange, and the busy part of all cores' time."""
    options = of_run(place.run)
    system = system_of(place.system)
    known = costs_of(options.costs, system, options.fabric, measured_costs)
    costs = replace(known, cores=options.cores, busy=1.0, apart=0.0)
    passes = packets.Passes(0.0, 0.0, [Bucket(values, 0.0)])
    found = packets.train(options.fabric, system, passes, costs, steps=REPEATS, background=options.background)
    return median(found.step_s), found.busy / costs.cores


def checks(cells: Sequence[Cell]) -> list[Check]:
    """Check how near predictions are, and whether they rank systems as measurements do."""
    off = sorted(abs(cell.off) for cell in cells)
    near = sum(one <= NEAR for one in off) / len(off)
    worst = max(cells, key=lambda cell: abs(cell.off))
    right, judged = _ranked(cells)
    idle = [cell for cell in cells if cell.busy < _BUSY]
    return [
        at_least(f"predicted / measured seconds, {len(cells)} cells: share within 10 %", near, 0.9),
        at_most("... the largest difference", off[-1], FAR),
        reported("... in", f"{worst.place}, {worst.values} values"),
        reported("... the median difference", median(off)),
        reported(
            "... measured again / measured: share within 10 %, 20 %",
            [sum(abs(cell.moved) <= most for cell in cells) / len(cells) for most in (NEAR, FAR)],
        ),
        at_least("... the faster system is the same, where they differ by 10 %", right / judged, 1.0),
        reported(
            f"... of the {len(idle)} whose cores are busy for less than a quarter of the time: share within 10 %, 20 %",
            [sum(abs(cell.off) <= most for cell in idle) / max(len(idle), 1) for most in (NEAR, FAR)],
        ),
    ]


def _ranked(cells: Sequence[Cell]) -> tuple[int, int]:
    """Pairs of systems whose order is right, and all pairs that differ by 10 % and more."""
    pairs: dict[Any, list[Cell]] = {}
    for cell in cells:
        pairs.setdefault((replace(cell.place, system=""), cell.values), []).append(cell)
    judged = [
        pair for pair in pairs.values() if len(pair) == 2 and abs(pair[0].measured_s / pair[1].measured_s - 1) >= NEAR
    ]
    right = sum((one.measured_s < other.measured_s) == (one.predicted_s < other.predicted_s) for one, other in judged)
    return right, max(len(judged), 1)


def _turn(v: Verification, chosen: Sequence[Place], turn: int) -> list[list[float]]:
    """Measure these places one after the other. Returns seconds by place and size."""
    found = []
    for number, place in enumerate(chosen):
        v.say(f"turn {turn + 1} of {TURNS}, place {number + 1} of {len(chosen)}: {place}")
        found.append(measured(place, v.results / f"validation-{turn}-{number}"))
    return found


def validation(v: Verification) -> list[Check]:
    """Measure all places in two turns, and simulate each. Writes the cells to validation.json."""
    chosen = places()
    chosen = chosen[:: max(1, len(chosen) // v.options.amount(len(chosen)))]
    turns = [_turn(v, chosen, turn) for turn in range(TURNS)]
    known: dict[tuple[str, int, bool], dict[int, Worked]] = {}
    cells = []
    for place, *of_turns in zip(chosen, *turns, strict=True):
        hosts = place.system, place.workers, place.offloads
        if hosts not in known:
            known[hosts] = calibrated(place, v.results / f"calibration-{len(known)}")
            v.say(f"costs of {hosts}: {known[hosts]}")
        for values, *seconds in zip(SIZES, *of_turns, strict=True):
            costs = costs_at(place, values, known[hosts])
            cells.append(Cell(place, values, tuple(seconds), *predicted(place, values, costs)))
            v.say(f"{place}, {values} values: measured {seconds} s, predicted {cells[-1].predicted_s:.4f} s")
    (v.results / CELLS).write_text(json.dumps([as_row(cell) for cell in cells], indent=1) + "\n")
    return checks(cells)


def as_row(cell: Cell) -> Mapping[str, Any]:
    """Return a cell as JSON has it."""
    return {
        **vars(cell.place),
        "values": cell.values,
        "turns_s": cell.turns_s,
        "predicted_s": cell.predicted_s,
        "busy": cell.busy,
    }
