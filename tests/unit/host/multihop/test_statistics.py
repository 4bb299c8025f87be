# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The test of merges, tested: perfect draws pass, small wrongs fail."""

from __future__ import annotations

import numpy as np
import pytest
from sumwire.multihop import statistics
from sumwire.multihop.statistics import Signs, SignStatistics

ROUNDS = 640
VALUES = 8192


def measure(mixed: Signs, workers: int) -> SignStatistics:
    """With lone signs that are as they should be."""
    lone = np.random.default_rng(99).random((ROUNDS // 2, VALUES)) < 1 / workers
    return statistics.measure(mixed, lone, workers)


def perfect(workers: int, seed: int, *, shift: float = 0.0) -> Signs:
    """Independent results with the right mean, or one off by `shift`."""
    share = statistics.signs_of(workers, VALUES).mean(axis=0)
    return np.random.default_rng(seed).random((ROUNDS, VALUES)) < share + shift


@pytest.mark.parametrize("workers", [2, 3, 16])
def test_perfect_draws_pass(workers: int) -> None:
    outcome = measure(perfect(workers, workers), workers)
    assert outcome.unbiased, outcome
    assert outcome.uncorrelated, outcome
    assert outcome.false_alarm < 1e-5


def test_a_bias_above_the_target_fails() -> None:
    assert not measure(perfect(4, 1, shift=0.0078), 4).unbiased


def test_a_bias_that_cancels_over_values_fails() -> None:
    results = perfect(4, 2)
    share = statistics.signs_of(4, VALUES).mean(axis=0)
    wrong = np.where(np.arange(VALUES) % 2, share + 0.03, share - 0.03)
    results[:] = np.random.default_rng(3).random(results.shape) < wrong
    outcome = measure(results, 4)
    assert outcome.pooled_bias < statistics.BIAS_MAX
    assert not outcome.unbiased


def test_a_single_stuck_value_fails() -> None:
    results = perfect(4, 3)
    results[:, 4321] = True
    assert not measure(results, 4).unbiased


@pytest.mark.parametrize("lag", [1, 5, 8, 241, 1024, 1031])
def test_a_copied_neighbour_fails(lag: int) -> None:
    """One value in fifty repeats the draw of an earlier one."""
    workers = 2
    share = statistics.signs_of(workers, VALUES).mean(axis=0)
    draws = np.random.default_rng(lag).random((ROUNDS, VALUES))
    places = np.arange(2048, VALUES, 50)
    draws[:, places] = draws[:, places - lag]
    assert not measure(draws < share, workers).uncorrelated


@pytest.mark.parametrize("lag", [1, 2])
@pytest.mark.parametrize("shift", [0, 3])
def test_a_draw_that_comes_again_in_a_later_round_fails(lag: int, shift: int) -> None:
    share = statistics.signs_of(3, VALUES).mean(axis=0)
    draws = np.random.default_rng(lag).random((ROUNDS, VALUES))
    places = np.arange(16, VALUES, 10)
    later = np.arange(lag, ROUNDS, 3 * lag)[:, None]
    draws[later, places] = draws[later - lag, places - shift]
    assert not measure(draws < share, 3).uncorrelated


def test_a_copy_over_a_word_boundary_alone_fails() -> None:
    share = statistics.signs_of(3, VALUES).mean(axis=0)
    draws = np.random.default_rng(9).random((ROUNDS, VALUES))
    edges = np.arange(1024, VALUES, 1024)
    copied = np.random.default_rng(10).random((ROUNDS, len(edges))) < 0.3
    draws[:, edges] = np.where(copied, draws[:, edges - 1], draws[:, edges])
    outcome = measure(draws < share, 3)
    assert outcome.boundary_z > outcome.threshold_z
    assert not outcome.uncorrelated


@pytest.mark.parametrize("lag", [161, 1024])
def test_neighbours_that_exclude_each_other_fail_at_any_lag(lag: int) -> None:
    """As draws of a linear generator may, where a later plane is the XOR of two bits of an earlier one."""
    lone = np.random.default_rng(lag).random((ROUNDS // 2, VALUES)) < 0.25
    places = np.arange(VALUES - lag)[np.arange(VALUES - lag) % 1024 < 80]
    lone[:, places + lag] &= ~lone[:, places]
    outcome = statistics.measure(perfect(4, 5), lone, 4)
    assert not outcome.uncorrelated
    assert outcome.correlation_at == f"round lag 0, value lag {lag}, lone signs"


def test_patterns_are_mixed_signs() -> None:
    for workers in range(2, 17):
        rows = statistics.patterns(workers)
        assert rows.shape == (8, workers)
        assert np.all(rows.any(axis=1) & ~rows.all(axis=1))


def test_no_workers_to_test_are_refused() -> None:
    with pytest.raises(ValueError, match="1 workers"):
        statistics.judge(lambda signs, rounds: np.repeat(signs[:1], rounds, axis=0), 1, rounds=2)


def test_largest_bias_of_single_values() -> None:
    def source(signs: Signs, rounds: int) -> Signs:
        share = signs.mean(axis=0) + np.where(np.arange(signs.shape[1]) == 77, 0.01, 0.0)
        return np.random.default_rng(1).random((rounds, signs.shape[1])) < share

    bias, false_alarm = statistics.largest_value_bias(source, 2, rounds=1 << 19)
    assert bias == pytest.approx(0.01, abs=0.002)
    assert false_alarm < 1e-5
