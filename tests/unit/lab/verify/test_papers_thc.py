# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rows of verify-papers on THC."""

from __future__ import annotations

import pytest
from sumwire.codec.tables import for_workers
from sumwire_lab.verify import papers_thc


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
