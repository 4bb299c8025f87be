# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The experiment on blind jobs, with a short tensor: all its checks hold, and fail where there are no masks."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from helpers.gloo.ranks import fork_context
from sumwire_lab.experiments.secure_aggregation import run_blind
from sumwire_lab.verify.security import blind_checks

pytest.importorskip("cryptography")


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    found = run_blind(workers=2, values=50_000, means=1, blocks=1, context=fork_context())
    # The experiment's limits are passed once in 1000 times by chance, these once in 10^9 times.
    found["chi_square_most"] = 420.0
    for codec in found["codecs"].values():
        codec["correlation_most"] *= 2
    return found


def test_all_checks_hold(record: dict[str, Any]) -> None:
    checks = blind_checks(record)
    assert len(checks) == 10
    assert [check for check in checks if not check.holds] == []


def test_the_checks_of_noise_fail_without_masks(record: dict[str, Any]) -> None:
    bare = copy.deepcopy(record)
    for found in bare["codecs"].values():
        for name in ("chi_square", "correlation"):
            found[name]["blind"] = found[name]["open"]
    assert [check.check.split(": ")[1] for check in blind_checks(bare) if not check.holds] == [
        "chi-square of one worker's bytes at the switch", "correlation of these with its gradient",
    ] * 2  # fmt: skip
