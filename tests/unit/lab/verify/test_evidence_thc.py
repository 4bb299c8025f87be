# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The rows `thc` of `make verify-evidence`: their verdicts, and what is measured."""

from __future__ import annotations

import pytest
import torch
from sumwire_lab.verify import evidence_thc
from sumwire_lab.verify.evidence_thc import BITS, HEAVY, MAKERS, NAIVE, SSGD, TWO_BITS, Means


@pytest.mark.parametrize(
    ("bits", "two", "naive", "verdicts"),
    [
        ([2.0, 2.2], [2.2, 2.4], [2.1, 2.2], [True] * 5),
        ([2.2, 2.2], [2.2, 2.4], [2.3, 2.3], [False, True, True, False, True]),
        ([2.0, 2.2], [2.0, 2.1], [2.0, 2.1], [True, False, False, False, True]),
    ],
)
def test_verdicts_on_text(bits: list[float], two: list[float], naive: list[float], verdicts: list[bool]) -> None:
    found = {SSGD: [2.1, 2.1], BITS: bits, TWO_BITS: two, NAIVE: naive}
    assert [check.holds for check in evidence_thc.text_checks(found)] == verdicts


def test_verdicts_on_errors() -> None:
    errors = {
        "normal": {BITS: 0.01, NAIVE: 0.01, TWO_BITS: 0.02},
        HEAVY[0]: {BITS: 0.0095, NAIVE: 0.01, TWO_BITS: 0.02},
    }
    assert [check.holds for check in evidence_thc.nmse_checks(errors)] == [True, False, True, True]
    errors["normal"][TWO_BITS] = 0.0099
    assert [check.holds for check in evidence_thc.nmse_checks(errors)] == [True, False, False, True]


def test_a_transformer_trains_by_every_codec() -> None:
    """And with two bits not as with four."""
    found = {name: evidence_thc.text_bits(MAKERS.get(name), 1, 6, width=32) for name in (SSGD, *MAKERS)}
    assert all(2.0 < bits < 6.6 for bits in found.values())
    assert len(set(found.values())) == len(found)


@pytest.mark.parametrize("name", [*MAKERS])
def test_error_feedback_returns_what_a_mean_lacks(name: str) -> None:
    gradients = [torch.randn(2048, generator=torch.Generator().manual_seed(seed)) for seed in range(4)]
    exact, means = torch.stack(gradients).mean(dim=0), Means(MAKERS[name])
    found = [means.of(gradients, step) for step in range(20)]
    first, all_ = ((one - exact).square().sum() for one in (found[0], torch.stack(found).mean(dim=0)))
    assert 0 < float(all_) < 0.05 * float(first)
    assert torch.equal(Means(None).of(gradients, 0), exact)
