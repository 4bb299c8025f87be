# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The row `marsit-text` of `make verify-evidence`: its verdicts, and what is trained."""

from __future__ import annotations

import pytest
from sumwire_lab.verify import evidence_marsit
from sumwire_lab.verify.evidence_marsit import LEAD_1, PUBLISHED, RULES, SSGD


@pytest.mark.parametrize(
    ("found", "verdicts"),
    [
        ({"K = 20": 2.03, "K = 100": 2.0, LEAD_1: 2.1, PUBLISHED: 2.2}, [True, True, True, True, True]),
        ({"K = 20": 2.03, "K = 100": 2.05, LEAD_1: 2.1, PUBLISHED: 2.0}, [True, False, True, True, True]),
        ({"K = 20": 2.05, "K = 100": 2.0, LEAD_1: 2.03, PUBLISHED: 2.0}, [False, True, False, True, True]),
    ],
)
def test_verdicts(found: dict[str, float], verdicts: list[bool]) -> None:
    by_seed = {SSGD: [1.9, 2.1]} | {name: [bits, bits] for name, bits in found.items()}
    assert [check.holds for check in evidence_marsit.text_checks(by_seed)] == verdicts


def test_a_transformer_trains_by_every_rule() -> None:
    """Network and batches are equal, so that only the rules differ."""
    begun = {name: evidence_marsit.text_bits(made, 1, 1, width=32) for name, made in RULES.items()}
    found = {name: evidence_marsit.text_bits(made, 1, 12, width=32) for name, made in RULES.items()}
    assert all(2.0 < found[name] < begun[name] for name in RULES)
    assert len(set(found.values())) >= 3
