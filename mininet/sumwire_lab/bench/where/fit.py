# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The formula's constants from three cells of each system and switch, and its check against all other cells."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from sumwire_lab.bench.where import model
from sumwire_lab.bench.where.model import Costs, Setting, Traffic
from sumwire_lab.bench.where.record import Cell, Key, Place, Record

TOLERANCE: Final = 0.2
_MILLION: Final = 1e6
# A machine whose cores are used less than this at the limit was not measured alone.
_BUSY_MIN: Final = 0.05


@dataclass(frozen=True)
class Fitted:
    """The constants of one place, and the cells that they are from."""

    costs: Costs
    cells: frozenset[Key]


@dataclass(frozen=True)
class Checked:
    """A cell that no constant is from, and the formula's seconds for it."""

    cell: Cell
    formula_s: float

    @property
    def ratio(self) -> float:
        """The formula's seconds over the measured ones."""
        return self.formula_s / self.cell.seconds

    @property
    def holds(self) -> bool:
        """Whether the two differ by no more than the tolerance."""
        return abs(self.ratio - 1) <= TOLERANCE


def fit_all(record: Record) -> dict[Place, Fitted]:
    """The constants of every place with at least two sizes."""
    found = {place: fit(record, place) for place in record.places()}
    return {place: fitted for place, fitted in found.items() if fitted is not None}


def fit(record: Record, place: Place) -> Fitted | None:
    """The constants of one place, from:

    1. its largest size at the fastest rate: CPU per value, and how busy the cores were;
    2. its smallest size at the fastest rate: CPU per all-reduce, and the time of a step;
    3. its largest size at that lower rate at which wire and processors need most nearly the same time: how much of the
       shorter is hidden.

    None with fewer than two sizes at the fastest rate.
    """
    mine = [cell for cell in record.cells.values() if cell.key.place == place]
    fastest = max(cell.key.link_mbit for cell in mine)
    at_fastest = sorted((cell for cell in mine if cell.key.link_mbit == fastest), key=lambda cell: cell.key.values)
    if len(at_fastest) < 2:
        return None
    small, large = at_fastest[0], at_fastest[-1]
    costs = _processor_costs(small, large, record.workers)
    costs = replace(costs, busy=_busy(costs, large, record))
    used = {small.key, large.key}
    slower = [cell for cell in mine if cell.key.link_mbit < fastest]
    if slower:
        largest = max(cell.key.values for cell in slower)
        of_largest = [cell for cell in slower if cell.key.values == largest]
        middle = min(of_largest, key=partial(_imbalance, costs, record))
        costs = replace(costs, apart=_apart(costs, middle, record))
        used.add(middle.key)
    return Fitted(replace(costs, step_s=_step_s(costs, small, record)), frozenset(used))


def check(record: Record, fitted: Mapping[Place, Fitted]) -> list[Checked]:
    """All cells that no constant is from."""
    return [
        Checked(cell, formula_s(record, fitted[key.place].costs, key))
        for key, cell in record.cells.items()
        if key.place in fitted and key not in fitted[key.place].cells
    ]


def formula_s(record: Record, costs: Costs, key: Key) -> float:
    """The formula's seconds for a key, on the record's machine."""
    return model.seconds(_sent(record, key), costs, _setting(record, key))


def _sent(record: Record, key: Key) -> Traffic:
    return model.traffic(key.place.system, key.values, record.workers)


def _setting(record: Record, key: Key) -> Setting:
    return Setting(key.values, key.link_mbit, record.workers, record.cores)


def _processor_costs(small: Cell, large: Cell, workers: int) -> Costs:
    """CPU time alone; the other constants are still neutral."""
    host_s = large.host_cpu_s / _MILLION
    switch_s = (large.switch_cpu_s or 0.0) / _MILLION / workers
    operation_s = max(0.0, (small.host_cpu_s / _MILLION - host_s) * small.key.values)
    return Costs(host_s, switch_s, operation_s, step_s=0.0, busy=1.0, apart=0.0)


def _busy(costs: Costs, large: Cell, record: Record) -> float:
    """What the cores did of what they could have done, if they and not the links were the limit."""
    setting = _setting(record, large.key)
    processors = model.processors_s(costs, setting)
    if model.wire_s(_sent(record, large.key), setting.link_mbit) > processors:
        return 1.0
    return max(_BUSY_MIN, processors / large.seconds)


def _parts(costs: Costs, record: Record, cell: Cell) -> tuple[float, float]:
    """Wire and processors of a cell."""
    setting = _setting(record, cell.key)
    return model.wire_s(_sent(record, cell.key), setting.link_mbit), model.processors_s(costs, setting)


def _imbalance(costs: Costs, record: Record, cell: Cell) -> float:
    wire, processors = _parts(costs, record, cell)
    return abs(math.log(wire / processors))


def _apart(costs: Costs, cell: Cell, record: Record) -> float:
    shorter, longer = sorted(_parts(costs, record, cell))
    return min(1.0, max(0.0, (cell.seconds - longer) / shorter))


def _step_s(costs: Costs, small: Cell, record: Record) -> float:
    """What is left of the smallest tensor's time, by the step."""
    explained = formula_s(record, costs, small.key)
    return max(0.0, small.seconds - explained) / _sent(record, small.key).steps
