# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The least error of any THC table, found in another way than the solver's: errors by quadrature, a forward search."""

from __future__ import annotations

from math import pi
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

_NODES = 12


def least_errors(bits: int, p: float, most: int) -> dict[int, float]:
    """By granularity 1..most: the least mean squared rounding error of a table with 2**bits indices."""
    return {granularity: _least_error(2**bits, granularity, p) for granularity in range(1, most + 1)}


def _least_error(indices: int, granularity: int, p: float) -> float:
    """Cheapest path from the lowest to the highest grid point with at most `indices` points on it.

    A further level never makes the error larger, so paths with fewer points need no care of their own.
    """
    edge = NormalDist().inv_cdf(1 - p / 2)
    points = np.linspace(-edge, edge, granularity + 1)
    reach = np.append(0.0, np.full(granularity, np.inf))
    for _ in range(indices - 1):
        after = reach.copy()
        for start in range(granularity):
            after[start + 1 :] = np.minimum(after[start + 1 :], reach[start] + _errors(points, start))
        reach = after
    return float(reach[-1])


def _errors(points: NDArray[np.float64], start: int) -> NDArray[np.float64]:
    """Error of the coordinates between point `start` and each later one, rounded at random to one of the two."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    low, high = points[start], points[start + 1 :, None]
    x = low + (high - low) * (nodes + 1) / 2
    density = np.exp(-(x**2) / 2) / (2 * pi) ** 0.5
    errors: NDArray[np.float64] = ((high - x) * (x - low) * density) @ weights * (high - low)[:, 0] / 2
    return errors
