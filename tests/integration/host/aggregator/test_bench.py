# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The benchmark measures a real aggregator."""

from __future__ import annotations

import pytest
from sumwire.config import OP_CODES
from sumwire_lab.bench.commands.aggregator import measure


@pytest.mark.parametrize(("op", "processes"), [("thc", 1), ("max32", 2)])
def test_every_result_comes_and_costs_something(op: str, processes: int) -> None:
    (spent,) = measure(2, OP_CODES[op], processes, seconds=0.2, rate=5000.0, piece=16, runs=1)
    assert spent.contributions >= 64
    assert spent.results == spent.contributions
    assert 0 < spent.cpu_s < spent.wall_s * processes
    # Not faster than it was told to be, but for the last piece.
    assert spent.contributions <= 5000 * spent.wall_s + 32
