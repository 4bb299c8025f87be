# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of verify-papers on THC."""

from __future__ import annotations

import pytest
from sumwire.codec.tables import for_workers
from sumwire_lab.verify import papers_thc


def test_tables_of_the_controller() -> None:
    least = {2: 0.5, 3: 0.25}
    assert [check.holds for check in papers_thc.table_checks({2: 0.5, 3: 0.25}, least, 0.1)] == [True, True]
    assert [check.value for check in papers_thc.table_checks({2: 0.5, 3: 0.26}, least, 0.1)] == [[3], 0.1]
    assert papers_thc.uniform_checks({2: 0.9, 3: 1.0})[0].holds
    assert not papers_thc.uniform_checks({2: 1.1, 3: 1.0})[0].holds


def test_accuracy_and_quorum() -> None:
    assert [check.holds for check in papers_thc.accuracy_checks({2: (0.9, 0.895), 4: (0.9, 0.88)})] == [True, False]
    whole = {"step_s": 0.3, "accuracy": 0.97, "replicas_equal": True}
    some = {"step_s": 0.1, "accuracy": 0.965, "replicas_equal": True}
    assert [check.holds for check in papers_thc.quorum_checks(whole, some)] == [True, True, True]
    assert papers_thc.quorum_checks(whole, some)[0].value == pytest.approx(3.0)
    worse = {"step_s": 0.1, "accuracy": 0.9, "replicas_equal": False}
    assert [check.holds for check in papers_thc.quorum_checks(whole, worse)] == [True, False, False]


@pytest.mark.parametrize("workers", [4, 18])
def test_the_controller_chooses_by_the_number_of_workers(workers: int) -> None:
    assert papers_thc.chosen_table("thc", workers) == for_workers(workers)
    assert papers_thc.chosen_table("thc-uniform", workers) == for_workers(workers, kind="uniform")


def test_every_way_to_make_a_job_has_the_solved_table() -> None:
    """18 workers: the largest granularity that fits, 255 // 18, has 15 levels."""
    for of in papers_thc.WAYS.values():
        assert of(18).values == (*range(15), 14)
    [check] = papers_thc.way_checks(
        {"one": {2: for_workers(2), 3: for_workers(3)}, "two": {2: for_workers(2), 3: for_workers(4)}}
    )
    assert (check.holds, check.value) == (False, ["two, 3 workers"])
    assert papers_thc.way_checks({"one": {2: for_workers(2)}, "two": {2: for_workers(2)}})[0].holds


def test_many_workers() -> None:
    assert [check.holds for check in papers_thc.many_checks({18: 0.002, 68: 0.0206})] == [True, True]
    assert not papers_thc.many_checks({18: 0.002, 68: 0.021})[0].holds
