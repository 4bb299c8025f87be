# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The cascading compression that Marsit avoids."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from sumwire.multihop.schedule import ring
from sumwire.multihop.sign_hops import CascadeHopper, Draws, SimulatedSigns, lockstep


def cascade(values: NDArray[np.float64], *, stochastic: bool, seed: int = 1) -> NDArray[np.float32]:
    """Estimate of the sum over the rows, equal on all ranks."""
    ranks, length = values.shape
    padded = np.zeros((ranks, -(-length // 8) * 8), np.float32)
    padded[:, :length] = values
    hoppers = [CascadeHopper(row, Draws(seed, k), stochastic=stochastic, length=length) for k, row in enumerate(padded)]
    lockstep(hoppers, [ring(ranks, rank, padded.shape[1] // 8) for rank in range(ranks)])
    for hopper in hoppers:
        assert np.array_equal(hopper.values, hoppers[0].values)
    return hoppers[0].values[:length]


def test_two_ranks_by_hand() -> None:
    """Segments of 8 values: rank 1's values of the first reach rank 0 as +-2.5, and the sum goes back as +-its mean."""
    first = np.array([[1, -1, 1, -1, 1, -1, 1, -1] * 2, [4, 1, 4, 1, 4, 1, 4, 1] * 2], float)
    # Segment 1 ends at rank 0: rank 1 sends +-2.5 (all plus) there; sums 3.5 and 1.5, their mean 2.5, all plus.
    # Segment 0 ends at rank 1: rank 0 sends its own +-1 unharmed; sums 5 and 0, mean 2.5, and a 0 counts as plus.
    assert cascade(first, stochastic=False).tolist() == [2.5] * 16


def test_one_rank_keeps_its_values() -> None:
    values = np.random.default_rng(1).normal(size=(1, 13))
    assert np.array_equal(cascade(values, stochastic=True), values[0].astype(np.float32))


@pytest.mark.parametrize("length", [0, 1, 7, 9, 40])
def test_degenerate_lengths(length: int) -> None:
    for stochastic in (False, True):
        result = cascade(np.ones((4, length)), stochastic=stochastic)
        assert result.shape == (length,)
        assert np.all(np.isfinite(result))


def test_padding_does_not_count_in_the_scale() -> None:
    """Nine equal values: seven zeros of padding would pull their mean down."""
    assert cascade(np.full((2, 9), 3.0), stochastic=False).tolist() == [6.0] * 9


def test_zero_stays_zero() -> None:
    assert not cascade(np.zeros((3, 24)), stochastic=True).any()


def test_stochastic_form_is_unbiased_and_its_error_grows_with_every_hop() -> None:
    """Why Marsit does not compress anew: the error of a value is of the order of the norm, and the norm grows."""
    spread = []
    for ranks in (2, 4):
        values = np.tile([1.0, -1.0, 0.5, 0.0], (ranks, 8))
        runs = np.stack([cascade(values, stochastic=True, seed=seed) for seed in range(600)]) / ranks
        limit = 6 * runs.std(axis=0) / np.sqrt(len(runs))
        assert np.all(np.abs(runs.mean(axis=0) - values[0]) <= limit)
        spread.append(float(runs.std(axis=0).mean()))
    assert spread[1] > 2 * spread[0]
    # One unbiased sign of +-1 from the same four workers has a standard deviation of 1 at most.
    bits = np.packbits(np.tile([True, False, True, True], (4, 8)), axis=1)
    signs = 2.0 * np.unpackbits(SimulatedSigns(4, seed=1).sign_merge(np.repeat(bits[:, None], 600, axis=1)), axis=1) - 1
    assert signs.std(axis=0).max() <= 1.0
    assert spread[1] > 4.0
