# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""How much longer the slowest of many workers computes in a step, drawn directly.

The largest of n independent numbers is below x with probability F(x)**n. So one uniform number u gives it: the x with
F(x) = u**(1/n). A distribution is therefore given by its upper tail: what is exceeded with probability q.

Example: a lognormal distribution of sigma 0.1, and 1000 workers. u = 0.5 gives q = 1 - 0.5**0.001 = 0.000693, which a
normal distribution exceeds at 3.198, so the slowest worker takes exp(0.3198) = 1.377 times the usual.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sumwire_lab.errors import OptionError
from sumwire_lab.options.fields import between

Floats = NDArray[np.float64]
Slowness = Callable[[Floats], Floats]
"""Factors of a worker's computing time that are exceeded with these probabilities: shape (steps,) to shape (steps,)."""

_LOWEST, _HIGHEST, _POINTS = -5.5, 12.0, 20_000


def none(tails: Floats) -> Floats:
    """All workers compute as fast as the workload says."""
    return np.ones_like(tails)


def lognormal(sigma: float) -> Slowness:
    """Return factors whose logarithm is normal with deviation sigma; half of the workers' steps are above 1.

    Raises OptionError for a sigma that is negative or above 2.
    """
    between(0, 2).check("sigma", sigma)
    return lambda tails: np.exp(sigma * _normal(tails))


def given(factors: Sequence[float]) -> Slowness:
    """Return the distribution of measured factors, each with equal probability. Raises OptionError for none, and for
    one that is not above 0."""
    if not len(factors) or not min(factors) > 0:
        raise OptionError(f"stragglers={list(factors)}: must be at least one factor, each above 0")
    ranked = np.sort(np.asarray(factors, np.float64))
    return lambda tails: ranked[np.clip(np.ceil((1 - tails) * len(ranked)).astype(np.int64) - 1, 0, len(ranked) - 1)]


def slowest(slowness: Slowness, workers: int, uniform: Floats) -> Floats:
    """Return the factors of the slowest of so many workers. ``uniform``: numbers of 0 to 1, one for each step."""
    # A number of 0 would be the fastest of all possible steps.
    return slowness(-np.expm1(np.log(np.maximum(uniform, _LEAST)) / workers))


_LEAST: Final = np.finfo(np.float64).tiny


@cache
def _table() -> tuple[Floats, Floats]:
    """Logarithms of tails from small to large, and where a normal distribution has them."""
    places = np.linspace(_HIGHEST, _LOWEST, _POINTS)
    tails = np.array([math.log(math.erfc(place / math.sqrt(2)) / 2) for place in places])
    return tails, places


def _normal(tails: Floats) -> Floats:
    """What a normal distribution exceeds with these probabilities, to six digits, between its 1.9e-8 and 1 - 1.8e-33
    quantiles."""
    return np.interp(np.log(np.maximum(tails, _LEAST)), *_table())
