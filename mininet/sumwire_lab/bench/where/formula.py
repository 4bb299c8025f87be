# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Fits the constants of the formula in docs/where-it-pays.md (`sumwire.systems.formula`) to a grid's record.

They come from half of the cells of each system and switch, and are checked against the other half. The module only
computes; it measures nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from scipy.optimize import minimize
from sumwire.systems.formula import Costs, OneAllReduce, WireTraffic, ring_steps, round_trips, seconds
from sumwire_protocol.ops import BY_NAME

from sumwire_lab.bench.timing import all_reduce_bytes
from sumwire_lab.bench.where.grid import Cell, CellKey, GridRecord, SystemAt
from sumwire_lab.options.recipes import BASELINE


def traffic(system: str, values: int, workers: int) -> WireTraffic:
    """Return the traffic that follows from the wire's format; nothing is measured."""
    octets = all_reduce_bytes(system, values, workers)
    if system == BASELINE:
        return WireTraffic(octets, ring_steps(workers))
    return WireTraffic(octets, round_trips(values / BY_NAME[system].values, asks=system != "sign"))


TOLERANCE: Final = 0.2
_MILLION: Final = 1e6
# Of `step_s`, `busy` and `apart`. Several starts, since the search ends in the valley that is next to it.
_BOUNDS: Final = ((1e-6, 0.1), (0.05, 8.0), (0.001, 1.0))
_STARTS: Final = ((5e-4, 0.8, 0.3), (1e-3, 0.8, 0.6), (2e-4, 1.0, 0.1))
_PATIENT: Final = {"maxiter": 4000, "xatol": 1e-4, "fatol": 1e-6}


@dataclass(frozen=True)
class Fitted:
    """The constants of one system on one switch, and the cells that they were fitted to."""

    costs: Costs
    cells: frozenset[CellKey]


@dataclass(frozen=True)
class CheckedCell:
    """A cell that was not used to fit constants, and the formula's seconds for it."""

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


def fit_all(record: GridRecord) -> dict[SystemAt, Fitted]:
    """Return the constants of every place with at least two sizes."""
    found = {place: fit(record, place) for place in record.places()}
    return {place: fitted for place, fitted in found.items() if fitted is not None}


def fit(record: GridRecord, place: SystemAt) -> Fitted | None:
    """Fit the constants of one place. CPU time comes from its smallest and largest size at the fastest rate. The other
    three come from the seconds of every second cell, like the black fields of a chessboard of rates and sizes.

    They minimise the sum of differences between formula and measurement, as logarithms, so that one disturbed cell does
    not decide. Returns None with fewer than two sizes at the fastest rate.
    """
    mine = [cell for cell in record.cells.values() if cell.key.place == place]
    fastest = max(cell.key.link_mbit for cell in mine)
    at_fastest = sorted((cell for cell in mine if cell.key.link_mbit == fastest), key=lambda cell: cell.key.values)
    if len(at_fastest) < 2:
        return None
    costs = _processor_costs(at_fastest[0], at_fastest[-1], record.workers)
    rates, sizes = record.rates(), record.sizes()
    black = [cell for cell in mine if (rates.index(cell.key.link_mbit) + sizes.index(cell.key.values)) % 2 == 0]
    return Fitted(_nearest(record, costs, black), frozenset(cell.key for cell in black))


def check_fit(record: GridRecord, fitted: Mapping[SystemAt, Fitted]) -> list[CheckedCell]:
    """Return all cells that no constant was taken from, checked."""
    return [
        CheckedCell(cell, formula_s(record, fitted[key.place].costs, key))
        for key, cell in record.cells.items()
        if key.place in fitted and key not in fitted[key.place].cells
    ]


def formula_s(record: GridRecord, costs: Costs, key: CellKey) -> float:
    """Return the formula's seconds for a key, on the record's machine."""
    return seconds(_sent(record, key), costs, _setting(record, key))


def _sent(record: GridRecord, key: CellKey) -> WireTraffic:
    return traffic(key.place.system, key.values, record.workers)


def _setting(record: GridRecord, key: CellKey) -> OneAllReduce:
    return OneAllReduce(key.values, key.link_mbit, record.workers, record.cores)


def _processor_costs(small: Cell, large: Cell, workers: int) -> Costs:
    """CPU time alone; the other constants are still neutral."""
    host_s = large.host_cpu_s / _MILLION
    switch_s = (large.switch_cpu_s or 0.0) / _MILLION / workers
    operation_s = max(0.0, (small.host_cpu_s / _MILLION - host_s) * small.key.values)
    return Costs(host_s, switch_s, operation_s, step_s=0.0, busy=1.0, apart=0.0)


def _nearest(record: GridRecord, costs: Costs, cells: Sequence[Cell]) -> Costs:
    """The costs with that `step_s`, `busy` and `apart` with which the formula is nearest to the cells."""

    def with_(logs: Iterable[float]) -> Costs:
        step_s, busy, apart = (math.exp(one) for one in logs)
        return replace(costs, step_s=step_s, busy=busy, apart=apart)

    def off(logs: Iterable[float]) -> float:
        return sum(abs(math.log(formula_s(record, with_(logs), cell.key) / cell.seconds)) for cell in cells)

    bounds = [(math.log(least), math.log(most)) for least, most in _BOUNDS]
    ends = [
        minimize(off, [math.log(one) for one in start], method="Nelder-Mead", bounds=bounds, options=_PATIENT)
        for start in _STARTS
    ]
    best = with_(min(ends, key=lambda end: float(end.fun)).x)
    return replace(best, step_s=_rounded(best.step_s), busy=_rounded(best.busy), apart=_rounded(best.apart))


def _rounded(number: float) -> float:
    """Three digits: more mean nothing, and may differ between versions of the search."""
    return float(f"{number:.3g}")
