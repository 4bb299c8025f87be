# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import torch
from sumwire.job.kept_results import Kept, KeptResults


def of(tensor: torch.Tensor) -> Kept:
    return Kept(tensor.nbytes, lambda: tensor)


def filled(*, most: int | None = None, most_bytes: int = 1000) -> KeptResults:
    kept = KeptResults(most=most, most_bytes=most_bytes)
    for operation in range(3, 8):
        kept.add(operation, of(torch.full((25,), float(operation))))
    return kept


def test_results_by_operation() -> None:
    kept = filled()
    assert (kept.first, len(kept)) == (3, 5)
    assert [float(kept.result(operation).tensor()[0]) for operation in range(3, 8)] == [3, 4, 5, 6, 7]


def test_what_all_ranks_have_is_dropped() -> None:
    kept = filled()
    kept.trim(6)
    assert (kept.first, len(kept)) == (6, 2)
    kept.trim(20)
    assert len(kept) == 0
    kept.add(20, of(torch.zeros(1)))
    assert kept.first == 20


def test_limits() -> None:
    assert (filled(most=1).first, len(filled(most=1))) == (7, 1)
    assert filled(most_bytes=250).first == 6
    assert len(filled(most_bytes=1)) == 1, "never the latest"
