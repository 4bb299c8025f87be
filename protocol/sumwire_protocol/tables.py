# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The best THC table of a job: which integer in 0..granularity each index stands for.

A table is optimal for stochastic rounding of a standard normal coordinate truncated to +-threshold(p) (THC, NSDI'24,
section 5.2). Its levels lie on an even grid, so that sums of table values decode linearly. With a granularity below
2**bits - 1 there are fewer levels than indices. Every grid point is then a level, and the last value is repeated.

Numpy is loaded where a table is solved: it starts threads, and most of the controller needs none.

Callers check: bits 1..8, granularity 1..4095, P_LEAST <= p < 1, workers 1..SUM_MAX.
"""

from __future__ import annotations

import functools
import math
from itertools import pairwise
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

from sumwire_protocol import constants as p4

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Largest sum of table values that a value's planes hold in a slot.
SUM_MAX: Final = 2**p4.SLOT_WORDS - 1
DEFAULT_BITS: Final = 4
# The power of two with the least error of a mean of up to 17 workers, by correlated rounding. Published is 1/32.
DEFAULT_P: Final = 1 / 64
# Half of a smaller one may be 0, and then no threshold belongs to it.
P_LEAST: Final = 1e-300
AUTO: Final = "auto"
UNIFORM: Final = "uniform"
# Tables that a job can ask for, instead of giving one.
KINDS: Final = (AUTO, UNIFORM)

_NORMAL: Final = NormalDist()
# Errors closer than this are the same, computed in another order.
_NOISE: Final = 1e-12


def made(kind: str, bits: int, p: float, workers: int, granularity: int | None = None) -> tuple[int, ...]:
    """Return the table of a kind in KINDS, with this granularity, or with the best one that fits ``workers``
    workers."""
    most = SUM_MAX // workers
    if kind == UNIFORM:
        return evenly_spaced(bits, granularity or most)
    return best(bits, p, most) if granularity is None else optimal(bits, granularity, p)[0]


def evenly_spaced(bits: int, most: int) -> tuple[int, ...]:
    """Return 0, 1 .. 2**bits - 1, but no value above `most`."""
    return tuple(min(z, most) for z in range(2**bits))


@functools.cache
def best(bits: int, p: float, most: int, symmetric: bool = False) -> tuple[int, ...]:
    """Return the table of least error over every granularity up to `most`; among equals the one with the smallest
    granularity.

    The error does not fall steadily with granularity, so "as large as fits" may be worse than a smaller one.
    """
    found, least = evenly_spaced(bits, most), math.inf
    for granularity in range(min(2**bits - 1, most), most + 1):
        table, error = optimal(bits, granularity, p, symmetric)
        if error < least * (1 - _NOISE):
            found, least = table, error
    return found


@functools.cache
def optimal(bits: int, granularity: int, p: float, symmetric: bool = False) -> tuple[tuple[int, ...], float]:
    """Return the table of least error, exact, by dynamic programming over the grid 0..granularity, and its error.

    With `symmetric`, values[z] + values[-1-z] = granularity, as in the published tables. Without it the error is never
    larger; of a table and its equally good mirror image the lexicographically larger one is returned.
    """
    costs = _segment_costs(granularity, threshold(p))
    levels = min(2**bits, granularity + 1)
    symmetric = symmetric and levels == 2**bits
    values = _solve_symmetric(costs, levels) if symmetric else _solve_free(costs, levels)
    return values + (granularity,) * (2**bits - levels), _error(values, costs)


def error(values: tuple[int, ...], p: float) -> float:
    """Return the mean squared rounding error of a standard normal coordinate, clipping not included."""
    return _error(values, _segment_costs(values[-1], threshold(p)))


def can_clip(p: float) -> bool:
    """Return whether a table can be solved for the clipped share ``p``."""
    return P_LEAST <= p < 1


def threshold(p: float) -> float:
    """Return t with P(|Z| > t) = p for a standard normal Z."""
    return -_NORMAL.inv_cdf(p / 2)


def density(x: float) -> float:
    """Return the standard normal density at x."""
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _error(values: tuple[int, ...], costs: NDArray[np.float64]) -> float:
    return float(sum(costs[a, b] for a, b in pairwise(values) if a < b))


def _segment_costs(granularity: int, t: float) -> NDArray[np.float64]:
    """C[i, j] = integral of (q_j - x)(x - q_i) phi(x) over [q_i, q_j]; infinite where j <= i.

    With m0, m1, m2 the moments of phi over [a, b]: (a + b) m1 - m2 - a b m0.
    """
    import numpy as np

    q = (np.arange(granularity + 1) - granularity / 2) * (2 * t / granularity)
    phi = np.array([density(x) for x in q])
    cdf = np.array([_NORMAL.cdf(x) for x in q])
    a, b = q[:, None], q[None, :]
    m0 = cdf[None, :] - cdf[:, None]
    m1 = phi[:, None] - phi[None, :]
    m2 = m0 + (q * phi)[:, None] - (q * phi)[None, :]
    costs = (a + b) * m1 - m2 - a * b * m0
    return np.where(np.arange(granularity + 1)[:, None] < np.arange(granularity + 1)[None, :], costs, np.inf)


def _best_paths(costs: NDArray[np.float64], steps: int) -> tuple[NDArray[np.float64], list[NDArray[np.intp]]]:
    """Cheapest rising paths of `steps` segments from grid point 0 to every point, and each step's predecessors."""
    import numpy as np

    cheapest = np.full(len(costs), np.inf)
    cheapest[0] = 0.0
    before: list[NDArray[np.intp]] = []
    for _ in range(steps):
        total = cheapest[:, None] + costs
        before.append(np.argmin(total, axis=0))
        cheapest = np.min(total, axis=0)
    return cheapest, before


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
    import numpy as np

    granularity = len(costs) - 1
    cheapest, before = _best_paths(costs, levels // 2 - 1)
    left_ends = np.arange((granularity + 1) // 2)
    totals = 2 * cheapest[left_ends] + costs[left_ends, granularity - left_ends]
    left = _walk_back(int(np.argmin(totals)), before)
    return tuple(left + [granularity - value for value in reversed(left)])
