# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Tests whether merged signs are unbiased and their draws independent, for rings, tori, switches and trees.

The tests take a source, a function that takes the signs of n workers and a number of rounds, and returns each round's
merged signs. Let s be a value's share of plus and z = (result - s) / sqrt(s (1 - s)). The null hypothesis is that all z
are independent, with mean 0 and variance 1.

* pooled bias: mean of (result - s) over all rounds and values of one pattern of signs. Threshold BIAS_MAX = 2^-8.
* bias of single values: the largest |sum of z over rounds| / sqrt(rounds) over all values; and the mean of its square,
  which is 1 plus the squared bias and so gives the root mean square bias over values.
* correlation: sums of z[r, i] z[r + d, i + lag] over all r and i, divided by the root of their number, for d = 0, 1, 2
  and every lag up to half a packet, backwards too for d > 0. Lags 1..8 across word boundaries are also summed alone.
  Both with mixed signs and with plus at the last worker alone, where neighbours at every lag have equal signs and the
  result shows the draws of the last merge.

Every threshold but BIAS_MAX is the normal quantile at which the probability of any false alarm in one `judge` is
FALSE_ALARM (Bonferroni over all statistics).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

BIAS_MAX: Final = 2.0**-8
FALSE_ALARM: Final = 1e-6
NEIGHBOURS: Final = 8
ROUND_LAGS: Final = 2
WORD_VALUES: Final = p4.WORD_BITS
# Runs of 16 values have one pattern, so that one draw used for several neighbours shows.
RUN_VALUES: Final = 16

Signs = NDArray[np.bool_]
Source = Callable[[Signs, int], Signs]
"""(workers, values) signs and a number of rounds -> (rounds, values) merged signs."""


@dataclass(frozen=True)
class SignStatistics:
    """The statistics of one source and number of workers: biases in shares of plus, others in standard deviations."""

    workers: int
    rounds: int
    values: int
    pooled_bias: float
    pooled_sd: float
    value_bias_z: float
    value_bias_rms: float
    value_rms_z: float
    correlation_z: float
    correlation_at: str
    boundary_z: float
    threshold_z: float

    @property
    def false_alarm(self) -> float:
        """Probability that a perfect merge exceeds any threshold."""
        pooled = 2 * len(patterns(self.workers)) * NormalDist().cdf(-BIAS_MAX / self.pooled_sd)
        return FALSE_ALARM + pooled

    @property
    def unbiased(self) -> bool:
        return self.pooled_bias <= BIAS_MAX and max(self.value_bias_z, self.value_rms_z) <= self.threshold_z

    @property
    def uncorrelated(self) -> bool:
        return max(self.correlation_z, self.boundary_z) <= self.threshold_z

    def __str__(self) -> str:
        return (
            f"n={self.workers}, {self.rounds} rounds of {self.values}: pooled bias {self.pooled_bias:.5f} (sd"
            f" {self.pooled_sd:.5f}, limit {BIAS_MAX:.5f}), single values {self.value_bias_z:.1f} sd, their rms"
            f" {self.value_bias_rms:.4f} ({self.value_rms_z:+.1f} sd), correlation {self.correlation_z:.1f} sd at"
            f" {self.correlation_at}, word boundaries {self.boundary_z:.1f} sd (limit {self.threshold_z:.1f} sd)"
        )


def patterns(workers: int) -> Signs:
    """Patterns of signs, shape (8, workers): plus or minus at the first or last worker only, halves, random ones."""
    last = np.eye(1, workers, workers - 1, dtype=np.bool_)[0]
    first = last[::-1]
    place = np.arange(workers)
    mixed = np.random.default_rng(workers).permuted(np.tile(2 * place < workers, (2, 1)), axis=1)
    rows: Signs = np.stack([first, last, ~first, ~last, 2 * place < workers, place % 2 == 0, *mixed])
    return rows


def signs_of(workers: int, values: int) -> Signs:
    """Return the test's input, shape (workers, values): runs of 16 values of one pattern, the patterns in turn."""
    rows = patterns(workers)
    signs: Signs = rows[np.arange(values) // RUN_VALUES % len(rows)].T.copy()
    return signs


def lone_signs(workers: int, values: int) -> Signs:
    """Return signs with plus at the last worker only, shape (workers, values)."""
    return np.repeat(np.arange(workers)[:, None] == workers - 1, values, axis=1)


def judge(source: Source, workers: int, *, rounds: int, values: int = 8 * WORD_VALUES) -> SignStatistics:
    """Run a source for `rounds` rounds of mixed signs and half as many of lone signs, and return the statistics.

    Raises ValueError unless `values` is a multiple of the patterns' 128 and there are 2 workers or more.
    """
    if workers < 2 or values % (8 * RUN_VALUES):
        raise ValueError(f"{workers} workers, {values} values: at least 2, and a multiple of {8 * RUN_VALUES}")
    mixed = source(signs_of(workers, values), rounds)
    return measure(mixed, source(lone_signs(workers, values), rounds // 2), workers)


def largest_value_bias(
    source: Source, workers: int, *, rounds: int, values: int = 8 * RUN_VALUES, at_once: int = 1 << 15
) -> tuple[float, float]:
    """Return the largest |mean of the result - share of plus| of any value, and the probability that a perfect merge
    exceeds BIAS_MAX.

    It needs many rounds of few values: with 2^19 rounds, BIAS_MAX is 5.6 standard deviations.
    """
    signs = signs_of(workers, values)
    plus = np.zeros(values, np.int64)
    for start in range(0, rounds, at_once):
        plus += source(signs, min(at_once, rounds - start)).sum(axis=0)
    share = signs.mean(axis=0)
    tails = NormalDist().cdf
    false_alarm = sum(2 * tails(-BIAS_MAX * float(np.sqrt(rounds / (s * (1 - s))))) for s in share)
    return float(np.abs(plus / rounds - share).max()), false_alarm


def measure(mixed: Signs, lone: Signs, workers: int) -> SignStatistics:
    """Return the statistics of merged signs, shape (rounds, values), of `signs_of` and of `lone_signs`."""
    rounds, values = mixed.shape
    share = signs_of(workers, values).mean(axis=0)
    spread = np.sqrt(share * (1 - share))
    error = mixed.mean(axis=0) - share
    pooled, pooled_sd = _pooled(error, spread, rounds)
    per_value = error / spread * np.sqrt(rounds)
    excess = float(np.mean(per_value**2) - 1)
    # Variance of a squared sum of `rounds` z: 2 + (kurtosis - 3) / rounds.
    kurtosis = 1 / spread**2 - 3
    excess_sd = float(np.sqrt(np.mean(2 + (kurtosis - 3) / rounds) / values))
    scores = {
        "mixed signs": ((mixed - share) / spread).astype(np.float32),
        "lone signs": ((lone * workers - 1) / np.sqrt(workers - 1)).astype(np.float32),
    }
    found = [(*_worst_correlation(z), name) for name, z in scores.items()]
    correlation_z, correlation_at, _, name = max(found)
    boundary_z = max(map(_boundaries, scores.values()))
    tests = values + 1 + sum(lags for _, _, lags, _ in found) + 2 * NEIGHBOURS
    return SignStatistics(
        workers,
        rounds,
        values,
        pooled_bias=pooled,
        pooled_sd=pooled_sd,
        value_bias_z=float(np.abs(per_value).max()),
        value_bias_rms=float(np.sqrt(max(0.0, np.mean(error**2) - np.mean(spread**2) / rounds))),
        value_rms_z=excess / excess_sd,
        correlation_z=correlation_z,
        correlation_at=f"{correlation_at}, {name}",
        boundary_z=boundary_z,
        threshold_z=-NormalDist().inv_cdf(FALSE_ALARM / 2 / tests),
    )


def _pooled(error: NDArray[np.float64], spread: NDArray[np.float64], rounds: int) -> tuple[float, float]:
    """Return the largest mean error over the values of one pattern, and the largest standard deviation of it."""
    count = len(error) // 8
    pattern = np.arange(len(error)) // RUN_VALUES % 8
    worst = max(abs(float(error[pattern == k].mean())) for k in range(8))
    return worst, float(spread.max() / np.sqrt(rounds * count))


def _worst_correlation(z: NDArray[np.float32]) -> tuple[float, str, int]:
    """Return the largest correlation in standard deviations, where it is, and the number of statistics.

    Sums over all pairs come from Fourier transforms, padded so that no pair wraps around.
    """
    rounds, values = z.shape
    far = values // 2
    sums = np.zeros((ROUND_LAGS + 1, values + 1), np.complex128)
    before: list[NDArray[np.complex128]] = []
    for row in z:
        spectrum = np.fft.rfft(row, 2 * values)
        sums[0] += np.abs(spectrum) ** 2
        for d, earlier in enumerate(before, 1):
            sums[d] += np.conj(earlier) * spectrum
        before = [spectrum, *before[: ROUND_LAGS - 1]]
    worst, where, tests = 0.0, "none", 0
    for d in range(min(ROUND_LAGS + 1, rounds)):
        products = np.fft.irfft(sums[d], 2 * values)
        lags = np.arange(1, far) if d == 0 else np.arange(-far + 1, far)
        score = np.abs(products[lags]) / np.sqrt((rounds - d) * (values - np.abs(lags)))
        k = int(score.argmax())
        tests += len(lags)
        if score[k] > worst:
            worst, where = float(score[k]), f"round lag {d}, value lag {lags[k]}"
    return worst, where, tests


def _boundaries(z: NDArray[np.float32]) -> float:
    """Return the largest correlation at lags 1..8 across word boundaries, whose pairs are too few to show among all."""
    rounds, values = z.shape
    edges = np.arange(WORD_VALUES, values, WORD_VALUES)
    worst = 0.0
    if not len(edges):
        return worst
    for lag in range(1, NEIGHBOURS + 1):
        left = (edges[:, None] - 1 - np.arange(lag)).reshape(-1)
        total = float(np.sum(z[:, left].astype(np.float64) * z[:, left + lag]))
        worst = max(worst, abs(total) / math.sqrt(rounds * len(left)))
    return worst
