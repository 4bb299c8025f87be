# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Collectives of the backend against gloo's on the same tensors, over a software aggregator on loopback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from helpers.gloo import backend_cases
from helpers.gloo.ranks import Ranks
from helpers.transport.udp_bridge import job_mapping

RANKS = 4
OPS = ["thc", "max32", "sum32", "sign"]
# Largest squared error over the squared norm. THC's tables for 4 workers have 0.0192; two rounds its square. A sign
# stands for all: by Jensen it is never below 1 - 2 / pi for normal values, and here every worker has its own.
MOST = {"exact": 0.0, "8bit": 0.001, "4bit": 0.03, "1bit": 4.0}
LEAST = {"exact": 0.0, "8bit": 1e-5, "4bit": 0.005, "1bit": 0.3}
SHAPE = (64, 80)


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    mapping = {**job_mapping(RANKS, 64), "ops": OPS}
    with backend_cases.ranks_with_job(
        mapping, tmp_path_factory.mktemp("backend"), before=sums_without_a_job
    ) as started:
        yield started


def sums_without_a_job(ranks: Ranks) -> None:
    for integers, lossy, exact in ranks.run(backend_cases.without_a_job):
        assert not integers
        assert lossy.startswith("UsageError: backend sumwire: has no job: give one by init_process_group(")
        assert not exact


@pytest.mark.parametrize(
    ("call", "dtype", "op", "precision", "operations"),
    [
        ("all_reduce", "float32", "SUM", "4bit", 1),
        ("all_reduce", "float32", "AVG", "8bit", 2),
        ("all_reduce", "float32", "SUM", "1bit", 2),
        ("all_reduce", "bfloat16", "SUM", "4bit", 1),
        ("async", "float32", "SUM", "4bit", 3),
        ("coalesced", "float32", "SUM", "4bit", 1),
        ("functional", "float32", "SUM", "4bit", 1),
        ("reduce", "float32", "SUM", "4bit", 1),
        ("reduce_scatter", "float32", "SUM", "4bit", 1),
        ("reduce_scatter_tensor", "float32", "AVG", "8bit", 2),
    ],
)
def test_floats_are_equal_within_their_precision(
    ranks: Ranks, call: str, dtype: str, op: str, precision: str, operations: int
) -> None:
    """And not more exact: they did go by the codec."""
    outcomes = ranks.run(backend_cases.reduced, call, dtype, SHAPE, op, precision)
    for rank, outcome in enumerate(outcomes):
        assert outcome["used"] == operations
        assert outcome["dtype"]
        assert outcome["error"] <= MOST[precision]
        if call != "reduce" or rank == 1:
            assert outcome["error"] >= LEAST[precision]


@pytest.mark.parametrize("call", backend_cases.CALLS)
def test_what_no_gradient_is_known_to_be_has_gloo_s_bits(ranks: Ranks, call: str) -> None:
    for outcome in ranks.run(backend_cases.reduced, call, "float32", SHAPE, "SUM", None):
        assert outcome["equal"]
        assert outcome["used"] == 0


def test_a_call_has_the_precision_that_it_asks_for(ranks: Ranks) -> None:
    for of_group, of_call in ((None, "8bit"), ("4bit", "8bit"), ("4bit", "exact")):
        call = (backend_cases.reduced, "async", "float32", SHAPE, "SUM", of_group, of_call)
        for outcome in ranks.run(*call):
            assert LEAST[of_call] <= outcome["error"] <= MOST[of_call]
            assert outcome["used"] == (6 if of_call == "8bit" else 0)


@pytest.mark.parametrize(
    ("call", "dtype", "op", "operations"),
    [
        ("all_reduce", "int32", "SUM", 1),
        ("async", "int32", "SUM", 3),
        ("all_reduce", "float32", "MAX", 1),
        ("all_reduce", "float32", "MIN", 1),
        ("all_reduce", "int32", "MIN", 1),
        ("reduce", "int32", "MAX", 1),
        ("reduce_scatter", "int32", "SUM", 1),
        ("all_reduce", "int64", "SUM", 0),
        ("all_reduce", "uint8", "SUM", 0),
        ("all_reduce", "float64", "SUM", 0),
        ("all_reduce", "float32", "PRODUCT", 0),
        ("all_reduce", "int32", "BXOR", 0),
        ("coalesced", "int64", "SUM", 0),
    ],
)
def test_exact_reductions_have_gloo_s_bits(ranks: Ranks, call: str, dtype: str, op: str, operations: int) -> None:
    for outcome in ranks.run(backend_cases.reduced, call, dtype, SHAPE, op, "4bit"):
        assert outcome["equal"]
        assert outcome["used"] == operations


@pytest.mark.parametrize("call", ["all_reduce", "async", "reduce", "reduce_scatter_tensor", "functional"])
def test_exact_floats_and_small_ones_have_gloo_s_bits(ranks: Ranks, call: str) -> None:
    for shape, precision in ((SHAPE, "exact"), ((4, 5), "4bit")):
        for outcome in ranks.run(backend_cases.reduced, call, "float32", shape, "SUM", precision):
            assert outcome["equal"]
            assert outcome["used"] == 0


def test_a_sum_beyond_int32_wraps_around_as_gloo_s(ranks: Ranks) -> None:
    assert all(ranks.run(backend_cases.overflow))


def test_collectives_that_do_not_reduce_have_gloo_s_bits(ranks: Ranks) -> None:
    for equal in ranks.run(backend_cases.others):
        assert equal == dict.fromkeys(equal, True)
        assert len(equal) == 9


def test_groups_of_other_ranks_go_beneath(ranks: Ranks) -> None:
    for outcome in ranks.run(backend_cases.groups):
        assert outcome == {"backend": "sumwire", "pair": True, "second": True, "used": 0}
