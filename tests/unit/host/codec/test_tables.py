# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Table solver: published tables, brute force, closed forms against numerical integration."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest
import torch
from helpers.paths import ROOT
from sumwire.codec.errors import CodecError, TableError
from sumwire.codec.oracles import codecs, loopback, nmse
from sumwire.codec.tables import ThcTable, best_granularity, for_workers, solve, threshold, uniform
from sumwire_lab.experiments.closed_forms import least_errors

PUBLISHED = (0, 3, 5, 7, 9, 11, 13, 14, 16, 17, 19, 21, 23, 25, 27, 30)
UNCONSTRAINED = (0, 3, 5, 7, 9, 11, 13, 15, 16, 17, 19, 21, 23, 25, 27, 30)


def integrated_mse(values: tuple[int, ...], granularity: int, t: float) -> float:
    """The solver's objective by Simpson's rule, segment by segment."""
    levels = [(2 * value / granularity - 1) * t for value in values]
    total = 0.0
    for a, b in itertools.pairwise(levels):
        x = np.linspace(a, b, 201)
        y = (b - x) * (x - a) * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        total += float((y[0] + y[-1] + 4 * y[1:-1:2].sum() + 2 * y[2:-1:2].sum()) * (b - a) / 600)
    return total


@pytest.mark.parametrize(
    ("denominator", "t", "clip"),
    [
        (16, 1.8627318674, 1.716e-2),
        (32, 2.1538746941, 7.267e-3),
        (64, 2.4175590162, 3.151e-3),
        (128, 2.6600674686, 1.390e-3),
        (256, 2.8856349124, 6.218e-4),
        (512, 3.0972690782, 2.812e-4),
        (1024, 3.2971933457, 1.283e-4),
    ],
)
def test_threshold_and_clip_error(denominator: int, t: float, clip: float) -> None:
    assert threshold(1 / denominator) == pytest.approx(t, abs=1e-9)
    assert uniform(4, 1 / denominator).clip_mse == pytest.approx(clip, rel=1e-3)


def test_published_default() -> None:
    table = solve(4, 30, 1 / 32)
    assert table.values == PUBLISHED
    assert table.mse == pytest.approx(1.307459e-2, rel=1e-6)
    assert table.increment == pytest.approx(0.1435916463, abs=1e-9)
    assert table.max_workers == 8


def test_unconstrained_default() -> None:
    table = solve(4, 30, 1 / 32, symmetric=False)
    assert table.values == UNCONSTRAINED
    assert table.mse == pytest.approx(1.306254e-2, rel=1e-6)


@pytest.mark.parametrize(("bits", "granularity"), [(1, 1), (1, 6), (2, 3), (2, 9), (2, 10), (3, 7), (3, 12), (3, 13)])
@pytest.mark.parametrize("symmetric", [True, False])
def test_no_table_is_better(bits: int, granularity: int, symmetric: bool) -> None:
    inner = itertools.combinations(range(1, granularity), 2**bits - 2)
    candidates = [(0, *middle, granularity) for middle in inner]
    if symmetric:
        candidates = [v for v in candidates if all(a + b == granularity for a, b in zip(v, v[::-1], strict=True))]
    t = threshold(1 / 20)
    least = min(integrated_mse(v, granularity, t) for v in candidates)
    table = solve(bits, granularity, 1 / 20, symmetric)
    assert table.values in candidates
    assert integrated_mse(table.values, granularity, t) == pytest.approx(least, rel=1e-6)
    assert table.mse == pytest.approx(least, rel=1e-6)


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("extra", [0, 1, 2, 7, 40])
@pytest.mark.parametrize("symmetric", [True, False])
def test_shape_of_tables(bits: int, extra: int, symmetric: bool) -> None:
    granularity = 2**bits - 1 + extra
    table = solve(bits, granularity, 1 / 64, symmetric)
    assert len(table.values) == 2**bits
    assert (table.values[0], table.values[-1]) == (0, granularity)
    assert all(b > a for a, b in itertools.pairwise(table.values))
    if symmetric:
        assert all(a + b == granularity for a, b in zip(table.values, table.values[::-1], strict=True))
    if extra == 0:
        assert table == uniform(bits, 1 / 64)


def test_best_granularity_is_the_best() -> None:
    errors = {g: solve(4, g, 1 / 32).mse for g in range(15, 52)}
    best = best_granularity(4, 1 / 32, 51, symmetric=True)
    assert best.mse == min(errors.values())
    # The largest that fits is not the best one here: the reason to search.
    largest_loses = [g for g in range(16, 52) if min(errors[k] for k in range(15, g)) < errors[g]]
    assert largest_loses
    assert best_granularity(4, 1 / 32, largest_loses[0], symmetric=True).granularity < largest_loses[0]


@pytest.mark.parametrize(
    ("granularity", "workers"), [(15, 17), (17, 15), (30, 8), (31, 8), (34, 7), (42, 6), (255, 1), (256, 0)]
)
def test_workers_that_fit(granularity: int, workers: int) -> None:
    assert solve(4, granularity, 1 / 32).max_workers == workers


@pytest.mark.parametrize(
    ("values", "rule"),
    [((0, 1, 2), "needs 4"), ((0, 1, 1, 3), "rise strictly"), ((1, 2, 3, 3), "start at 0"), ((0, 1, 2, 4), "end at")],
)
def test_impossible_tables(values: tuple[int, ...], rule: str) -> None:
    with pytest.raises(TableError, match=rule):
        ThcTable(values, 2, 3, 1 / 32)
    assert issubclass(TableError, CodecError)


def test_no_granularity_has_a_better_table() -> None:
    """Against an independent search."""
    errors = least_errors(4, 1 / 64, 31)
    for workers in range(255 // 31, 33):
        table = for_workers(workers)
        assert table.max_workers >= workers
        assert table.mse == pytest.approx(min(errors[g] for g in range(1, 255 // workers + 1)), rel=1e-9)
        assert table.mse <= for_workers(workers, kind="uniform").mse


@pytest.mark.parametrize("workers", [2, 5, 17, 18, 32, 255])
def test_every_number_of_workers_has_tables(workers: int) -> None:
    solved, even = for_workers(workers), for_workers(workers, kind="uniform")
    assert (len(solved.values), len(even.values)) == (16, 16)
    assert solved.mse <= even.mse
    assert (solved == even) == (workers >= 16)
    assert even.levels == min(16, 255 // workers + 1)


def test_the_page_has_the_errors_of_tables() -> None:
    """One worker's from the table itself, and the mean's measured."""
    page = (ROOT / "docs" / "host.md").read_text()
    number = r"([\d.]+) \|"
    rows = re.findall(rf"^\| (\d+)[^|]*\| {' '.join([number] * 6)}$", page, re.MULTILINE)
    assert [int(row[0]) for row in rows] == [2, 4, 8, 16, 18, 20, 24, 32]
    for row in rows:
        workers, granularity, levels = map(int, row[:3])
        for kind, alone, mean in (("auto", *row[3:5]), ("uniform", *row[5:])):
            table = for_workers(workers, kind=kind)
            assert table.mse + table.clip_mse == pytest.approx(float(alone), abs=6e-5)
            gradients = [*torch.randn(workers, 1 << 15, generator=torch.Generator().manual_seed(1))]
            found = nmse(loopback(codecs(table, workers), gradients), torch.stack(gradients).mean(dim=0))
            assert found == pytest.approx(float(mean), rel=0.06), (workers, kind)
        table = for_workers(workers)
        assert (table.granularity, table.levels) == (granularity, levels)
