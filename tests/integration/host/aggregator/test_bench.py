# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The benchmark measures a real aggregator."""

from __future__ import annotations

import pytest
from sumwire_lab.bench.aggregator import AggregatorCommand
from sumwire_lab.bench.benchmark import run_here
from sumwire_lab.options.bench_options import AggregatorOptions


@pytest.mark.parametrize(("op", "processes"), [("thc", 1), ("max32", 2)])
def test_every_result_comes_and_costs_something(op: str, processes: int) -> None:
    options = AggregatorOptions(op, 2, processes, rate=5000.0, seconds=0.2, runs=1)
    (spent,) = run_here(AggregatorCommand(options), lambda line: None)
    assert spent.contributions >= 64
    assert spent.results == spent.contributions
    assert 0 < spent.cpu_s < spent.wall_s * processes
    # Not faster than it was told to be, but for the last piece.
    assert spent.contributions <= 5000 * spent.wall_s + 32
