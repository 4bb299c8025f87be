# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""THC tables: which integer in 0..granularity each index stands for.

A table is optimal for stochastic rounding of a standard normal coordinate truncated to +-threshold
(THC, NSDI'24, section 5.2). Its levels lie on an even grid, so that sums of table values decode linearly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.codec.errors import TableError

BITS_MAX: Final = 8
GRANULARITY_MAX: Final = 4095
# Largest sum of table values that a value's planes hold in a slot.
SUM_MAX: Final = 2**p4.SLOT_WORDS - 1

# Steps in which real indices are counted: as many as a random number of the rounding can take.
INDEX_STEPS: Final = 1 << 16

DEFAULT_BITS: Final = 4
DEFAULT_GRANULARITY: Final = 30
DEFAULT_P: Final = 1 / 32
# The table of these defaults, as its authors publish it.
PUBLISHED_TABLE: Final = (0, 3, 5, 7, 9, 11, 13, 14, 16, 17, 19, 21, 23, 25, 27, 30)

_NORMAL: Final = NormalDist()


def threshold(p: float) -> float:
    """Return t with P(|Z| > t) = p for a standard normal Z. Raises TableError unless 0 < p < 1."""
    if not 0.0 < p < 1.0:
        raise TableError(f"clipped share p={p}: must lie between 0 and 1")
    return -_NORMAL.inv_cdf(p / 2)


@dataclass(frozen=True, slots=True)
class ThcTable:
    """One table: index z stands for the coordinate (values[z] - granularity / 2) * increment.

    Raises TableError unless there are 2**bits values that rise strictly from 0 to granularity.
    """

    values: tuple[int, ...]
    bits: int
    granularity: int
    p: float

    def __post_init__(self) -> None:
        _check(self.bits, self.granularity)
        threshold(self.p)
        if len(self.values) != 2**self.bits:
            raise TableError(f"table of {len(self.values)} values: bits={self.bits} needs {2**self.bits}")
        if self.values[0] != 0 or self.values[-1] != self.granularity:
            raise TableError(f"table {self.values}: must start at 0 and end at granularity {self.granularity}")
        if any(b <= a for a, b in zip(self.values, self.values[1:], strict=False)):
            raise TableError(f"table {self.values}: must rise strictly, an equal pair wastes an index")

    @property
    def threshold(self) -> float:
        """t_p: coordinates beyond it are clipped, in standard deviations."""
        return threshold(self.p)

    @property
    def increment(self) -> float:
        """Width of one grid cell, in standard deviations."""
        return 2 * self.threshold / self.granularity

    @property
    def mse(self) -> float:
        """Mean squared rounding error of a standard normal coordinate, clipping not included."""
        costs = _segment_costs(self.granularity, self.threshold)
        return float(sum(costs[a, b] for a, b in zip(self.values, self.values[1:], strict=False)))

    @property
    def clip_mse(self) -> float:
        """Mean squared clipping error of a standard normal coordinate: E[(|Z| - t_p)+^2]."""
        t = self.threshold
        return 2 * ((1 + t * t) * _NORMAL.cdf(-t) - t * _density(t))

    @property
    def max_workers(self) -> int:
        """Most workers whose sum cannot overflow a value's sum planes; 0 if even one can."""
        return SUM_MAX // self.granularity


@dataclass(frozen=True, slots=True)
class CellTables:
    """A table as the codec computes with it, in float32.

    A grid position w in cell c, 0..granularity, has the real index (slope[c] w + offset[c]) / INDEX_STEPS. Index z is
    at levels[z], a grid position counted from the middle.
    """

    slope: NDArray[np.float32]
    offset: NDArray[np.float32]
    levels: NDArray[np.float32]

    @classmethod
    def of(cls, table: ThcTable) -> CellTables:
        """Return the columns of one table."""
        cells = np.arange(table.granularity + 1)
        values = np.array(table.values)
        lower = np.searchsorted(values, cells, side="right") - 1
        gaps = np.append(np.diff(values), 1)[lower]
        # The position w = g is the last index itself, with nothing above it to round to.
        slope = np.where(cells < table.granularity, 1.0 / gaps, 0.0)
        offset = np.where(cells < table.granularity, lower - values[lower] / gaps, lower)
        columns = slope * INDEX_STEPS, offset * INDEX_STEPS, values - table.granularity / 2
        return cls(*(column.astype(np.float32) for column in columns))


def uniform(bits: int, p: float) -> ThcTable:
    """Return the identity table, of granularity 2**bits - 1: uniform THC."""
    _check(bits, 2**bits - 1)
    return ThcTable(tuple(range(2**bits)), bits, 2**bits - 1, p)


def solve(bits: int, granularity: int, p: float, symmetric: bool = True) -> ThcTable:
    """Return the table of least `mse`, exact, by dynamic programming over the grid 0..granularity.

    With `symmetric`, values[z] + values[-1-z] = granularity, as in the published tables. Without it the error is never
    larger; of a table and its equally good mirror image the lexicographically larger one is returned.
    Raises TableError for bits outside 1..8, a granularity outside 2**bits-1..4095, or p
    outside (0, 1).
    """
    _check(bits, granularity)
    costs = _segment_costs(granularity, threshold(p))
    levels = 2**bits
    values = _solve_symmetric(costs, levels) if symmetric else _solve_free(costs, levels)
    return ThcTable(values, bits, granularity, p)


def best_granularity(bits: int, p: float, max_granularity: int, symmetric: bool = True) -> ThcTable:
    """Return the table of least `mse` over every granularity up to `max_granularity`; of equals the coarsest.

    The error does not fall steadily with granularity, so "as large as fits" may be worse than a smaller one.
    For n workers pass SUM_MAX // n. Raises TableError as `solve`.
    """
    _check(bits, max_granularity)
    tables = [solve(bits, g, p, symmetric) for g in range(2**bits - 1, max_granularity + 1)]
    return min(tables, key=lambda table: table.mse)


def _check(bits: int, granularity: int) -> None:
    if not 1 <= bits <= BITS_MAX:
        raise TableError(f"bits={bits}: must be 1..{BITS_MAX}")
    if not 2**bits - 1 <= granularity <= GRANULARITY_MAX:
        raise TableError(
            f"granularity={granularity}: {2**bits} strictly rising values from 0 need {2**bits - 1}..{GRANULARITY_MAX}"
        )


def _density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _segment_costs(granularity: int, t: float) -> NDArray[np.float64]:
    """C[i, j] = integral of (q_j - x)(x - q_i) phi(x) over [q_i, q_j]; infinite where j <= i.

    With m0, m1, m2 the moments of phi over [a, b]: (a + b) m1 - m2 - a b m0.
    """
    q = (np.arange(granularity + 1) - granularity / 2) * (2 * t / granularity)
    phi = np.array([_density(x) for x in q])
    cdf = np.array([_NORMAL.cdf(x) for x in q])
    a, b = q[:, None], q[None, :]
    m0 = cdf[None, :] - cdf[:, None]
    m1 = phi[:, None] - phi[None, :]
    m2 = m0 + (q * phi)[:, None] - (q * phi)[None, :]
    costs = (a + b) * m1 - m2 - a * b * m0
    return np.where(np.arange(granularity + 1)[:, None] < np.arange(granularity + 1)[None, :], costs, np.inf)


def _best_paths(costs: NDArray[np.float64], steps: int) -> tuple[NDArray[np.float64], list[NDArray[np.intp]]]:
    """Cheapest rising paths of `steps` segments from grid point 0 to every point, and each step's predecessors."""
    best = np.full(len(costs), np.inf)
    best[0] = 0.0
    before: list[NDArray[np.intp]] = []
    for _ in range(steps):
        total = best[:, None] + costs
        before.append(np.argmin(total, axis=0))
        best = np.min(total, axis=0)
    return best, before


def _walk_back(end: int, before: list[NDArray[np.intp]]) -> list[int]:
    path = [end]
    for predecessors in reversed(before):
        path.append(int(predecessors[path[-1]]))
    return path[::-1]


def _solve_free(costs: NDArray[np.float64], levels: int) -> tuple[int, ...]:
    _, before = _best_paths(costs, levels - 1)
    values = tuple(_walk_back(len(costs) - 1, before))
    mirrored = tuple(values[-1] - value for value in reversed(values))
    return max(values, mirrored)


def _solve_symmetric(costs: NDArray[np.float64], levels: int) -> tuple[int, ...]:
    """The left half decides: twice its segments, plus the one segment across the middle."""
    granularity = len(costs) - 1
    best, before = _best_paths(costs, levels // 2 - 1)
    left_ends = np.arange((granularity + 1) // 2)
    totals = 2 * best[left_ends] + costs[left_ends, granularity - left_ends]
    left = _walk_back(int(np.argmin(totals)), before)
    return tuple(left + [granularity - value for value in reversed(left)])
