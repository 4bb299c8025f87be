# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Bytes that a link must carry, computed by hand."""

from __future__ import annotations

import pytest
from sumwire.systems.cost import Gradient
from sumwire_lab.bench import page_allreduce
from sumwire_lab.bench.page_allreduce import AllReduceCase, row
from sumwire_lab.bench.timing import sides, wire_bytes
from sumwire_lab.options.recipes import DEFAULT_TASK
from sumwire_lab.options.run_options import TrainOptions

GRADIENT = Gradient(1000, 1024, rank=4, share=0.01)
VALUES = 1_024_000
TCP = 1514 / 1448


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        ("gloo", 1.5 * 4 * VALUES * TCP),
        ("fp16", 1.5 * 2 * VALUES * TCP),
        # P and Q, 1000 x 4 and 1024 x 4.
        ("powersgd", 1.5 * 4 * 8096 * TCP),
        ("powersgd1", 1.5 * 4 * 2024 * TCP),
        ("naive4", 1000 * (74 + 1024)),
        ("acp@group", 1.5 * 4 * 4048 * TCP),
        # Three others' values and positions.
        ("topk", 3 * 8 * 10240 * TCP),
        # 74 bytes of headers; 1024 values a packet, 8 words of 128 bytes down.
        ("thc", 1000 * (74 + 1024)),
        ("thc@group", 1.5 * VALUES * TCP),
        ("sum32", 4000 * (74 + 1024)),
        ("acp", 16 * (74 + 1024)),
        ("acp-thc", 4 * (74 + 1024)),
        ("marsit", 125 * (74 + 1024)),
        # 2048 signs in 2 words, up and down.
        ("vote", 500 * (74 + 256)),
        ("vote@group", 3 * VALUES / 8 * TCP),
        ("cascade", 1.5 * VALUES / 8 * TCP),
        ("cascade-magnitude", 1.5 * VALUES / 8 * TCP),
        ("dlcp-ring", 1.5 * 4 * VALUES * TCP),
    ],
)
def test_bytes_of_the_busier_direction(system: str, expected: float) -> None:
    assert wire_bytes(system, GRADIENT, 4) == pytest.approx(expected)


def test_every_system_of_the_suite_has_a_bound() -> None:
    assert all(wire_bytes(system, GRADIENT, 4) > 0 for system in page_allreduce.SYSTEMS)
    assert set(page_allreduce.QUICK_SYSTEMS) <= set(page_allreduce.SYSTEMS)


@pytest.mark.parametrize("values", [1, 7, 1000, 25_000_000])
def test_matrices_have_all_values(values: int) -> None:
    rows, columns = sides(values)
    assert rows * columns == values and rows <= columns
    assert sides(25_000_000) == (5000, 5000) and sides(1000) == (25, 40)


def test_row_takes_the_slowest_worker_and_the_median_repeat() -> None:
    measured = [{"seconds": [1.0, 5.0, 2.0], "cpu_s": 3.0}, {"seconds": [4.0, 1.0, 3.0], "cpu_s": 6.0}]
    found = row(AllReduceCase(10.0, "thc", (1024,), workers=2), 1024, measured, 7, offloads=True)
    assert found["seconds"] == 4.0 and found["retransmissions"] == 7
    assert found["bound_s"] == pytest.approx(1098 * 8 / 10e6)
    assert found["link_share"] == pytest.approx(found["bound_s"] / 4.0)
    # 4.5 s of a host in three repeats of 1024 values.
    assert found["host_cpu_s"] == pytest.approx(1.5 / 1024e-6)


def test_the_steps_options_are_those_of_systems() -> None:
    """What the page's exchanges tell the workers."""
    assert TrainOptions.of(DEFAULT_TASK, **page_allreduce.OPTIONS).system == {"rank": 4, "k": 0.01}
