# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Packed random bits of any rational probability, exact, from a worker's own stream."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.uint8]
"""Packed bits: value i of a row is bit i % 8 of byte i // 8, counted from the most significant."""


class Draws:
    """The random bits of one worker; equal (seed, worker) and equal calls give equal bits.

    The stream is consumed in the order of hops, coordinates and rounds, so no random bit is used twice. The streams
    of two workers are independent (numpy's SeedSequence).
    """

    def __init__(self, seed: int, worker: int) -> None:
        self._generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, worker])))

    def state(self) -> dict[str, Any]:
        """Return where the stream is, in plain values."""
        return dict(self._generator.bit_generator.state)

    def go_on(self, state: dict[str, Any]) -> None:
        """Continue the stream of a `state`."""
        self._generator.bit_generator.state = state

    def bits(self, shape: tuple[int, ...]) -> Bits:
        """Return fair bits, packed; `shape` counts bytes."""
        return self._generator.integers(0, 256, shape, np.uint8)

    def bernoulli(self, numerator: int, denominator: int, shape: tuple[int, ...]) -> Bits:
        """Return packed bits, each 1 with probability numerator / denominator; `shape` counts bytes.

        It compares a uniform binary fraction u with p digit by digit, for all values at once, until every value is
        decided; p is not rounded. Each digit decides half of the undecided values, so N values take about log2 N + 1
        random bits each. A denominator that is a power of two takes its log2.
        """
        if not 0 <= numerator <= denominator or denominator < 1:
            raise ValueError(f"probability {numerator}/{denominator}: must be in 0..1")
        if numerator == denominator:
            return np.full(shape, 0xFF, np.uint8)
        below = np.zeros(shape, np.uint8)  # u < p is certain
        open_ = np.full(shape, 0xFF, np.uint8)  # u and p agree so far
        rest = numerator
        # Once p has no digits left, an open u is not below it.
        while rest and open_.any():
            digit, rest = divmod(2 * rest, denominator)
            drawn = self.bits(shape)
            if digit:
                below |= open_ & ~drawn
                open_ &= drawn
            else:
                open_ &= ~drawn
        return below

    def uniform(self, count: int) -> NDArray[np.float64]:
        """Return uniform numbers in [0, 1)."""
        return self._generator.random(count)
