# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""THC tables: which integer in 0..granularity each index stands for.

The solver is :mod:`sumwire_protocol.tables`, because the controller solves tables too.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import tables as solver
from sumwire_protocol.tables import AUTO, DEFAULT_BITS, DEFAULT_P, KINDS, P_LEAST, SUM_MAX

from sumwire.codec.errors import TableError
from sumwire.numeric import is_number, is_whole

if TYPE_CHECKING:
    from sumwire.config.job_config import ThcParameters

BITS_MAX: Final = 8
GRANULARITY_MAX: Final = 4095

# Steps in which real indices are counted: as many as a random number of the rounding can take.
INDEX_STEPS: Final = 1 << 16

# The granularity and clipped share that the authors publish a table of, and that table, for DEFAULT_BITS.
PUBLISHED_GRANULARITY: Final = 30
PUBLISHED_P: Final = 1 / 32
PUBLISHED_TABLE: Final = (0, 3, 5, 7, 9, 11, 13, 14, 16, 17, 19, 21, 23, 25, 27, 30)

_NORMAL: Final = NormalDist()


def threshold(p: float) -> float:
    """Return t with P(|Z| > t) = p for a standard normal Z. Raises TableError unless P_LEAST <= p < 1."""
    if not is_number(p) or not solver.can_clip(p):
        raise TableError(f"clipped share p={p!r}: must be above 0 and below 1, and no less than {P_LEAST:g}")
    return solver.threshold(p)


@dataclass(frozen=True, slots=True)
class ThcTable:
    """One table: index z stands for the coordinate (values[z] - granularity / 2) * increment.

    Raises TableError unless there are 2**bits values that rise strictly from 0 to granularity. Only granularity itself
    may be repeated, where there are fewer levels than indices.
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
        if any(b <= a for a, b in zip(self.values, self.values[1:], strict=False) if a != self.granularity):
            raise TableError(f"table {self.values}: must rise strictly, and only its last value may be repeated")

    @classmethod
    def of(cls, thc: ThcParameters) -> ThcTable:
        """Return the table of a job's description."""
        return cls(thc.table, thc.bits, thc.granularity, thc.p)

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
        return solver.error(self.values, self.p)

    @property
    def clip_mse(self) -> float:
        """Mean squared clipping error of a standard normal coordinate: E[(|Z| - t_p)+^2]."""
        t = self.threshold
        return 2 * ((1 + t * t) * _NORMAL.cdf(-t) - t * solver.density(t))

    @property
    def levels(self) -> int:
        """Number of different values."""
        return self.values.index(self.granularity) + 1

    @property
    def max_workers(self) -> int:
        """Return the largest number of workers whose sum cannot overflow a value's sum planes; 0 if even one can."""
        return SUM_MAX // self.granularity


@dataclass(frozen=True, slots=True)
class CellTables:
    """A table in the float32 form that the codec computes with.

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


def uniform(bits: int, p: float, max_granularity: int = GRANULARITY_MAX) -> ThcTable:
    """Return the table 0, 1 .. 2**bits - 1, or up to `max_granularity`: uniform THC."""
    _check(bits, max_granularity)
    values = solver.evenly_spaced(bits, max_granularity)
    return ThcTable(values, bits, values[-1], p)


def for_workers(workers: int, bits: int = DEFAULT_BITS, p: float = DEFAULT_P, kind: str = AUTO) -> ThcTable:
    """Return the default table of a job with ``workers`` workers. `kind`: `auto` or `uniform`.

    Raises TableError like `solve`, for more workers than sums have room for, and for another kind.
    """
    if not is_whole(workers, 1, SUM_MAX):
        rule = f"must be a whole number in 1..{SUM_MAX}, the largest sum; ranks of one machine can share a worker"
        raise TableError(f"workers={workers!r}: {rule}")
    if kind not in KINDS:
        raise TableError(f"kind={kind!r}: must be one of {', '.join(KINDS)}")
    _check(bits, SUM_MAX // workers)
    threshold(p)
    values = solver.made(kind, bits, p, workers)
    return ThcTable(values, bits, values[-1], p)


def solve(bits: int, granularity: int, p: float, symmetric: bool = True) -> ThcTable:
    """Return the table with the least `mse` for this granularity, see `sumwire_protocol.tables.optimal`.

    Raises TableError for bits outside 1..8, a granularity outside 1..4095, or p outside (0, 1).
    """
    _check(bits, granularity)
    threshold(p)
    values, _ = solver.optimal(bits, granularity, p, symmetric)
    return ThcTable(values, bits, granularity, p)


def best_granularity(bits: int, p: float, max_granularity: int, symmetric: bool = False) -> ThcTable:
    """Return the table of least `mse` over every granularity up to `max_granularity`; among equals the one with the
    smallest granularity.

    For n workers pass SUM_MAX // n. Raises TableError like `solve`.
    """
    _check(bits, max_granularity)
    threshold(p)
    values = solver.best(bits, p, max_granularity, symmetric)
    return ThcTable(values, bits, values[-1], p)


def _check(bits: int, granularity: int) -> None:
    if not is_whole(bits, 1, BITS_MAX):
        raise TableError(f"bits={bits!r}: must be a whole number in 1..{BITS_MAX}")
    if not is_whole(granularity, 1, GRANULARITY_MAX):
        raise TableError(f"granularity={granularity!r}: must be a whole number in 1..{GRANULARITY_MAX}")
