# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The ways of a bucket, a configuration and a packet through the code stay short: see :mod:`helpers.call_counts`.

The bounds are lowered with the code. A bucket's calls may rise by a few where packets are waited for.
"""

from __future__ import annotations

import pytest
from helpers.call_counts import WORKS, Counts

# Files, calls, and changes of file.
BOUNDS = {"bucket": (25, 250, 120), "check-config": (9, 400, 80), "packet": (3, 6, 4)}


@pytest.mark.cc
@pytest.mark.parametrize("work", BOUNDS)
def test_the_way_of(work: str) -> None:
    counts: Counts = WORKS[work]()
    found = counts.files, counts.total, counts.changes
    assert all(map(int.__le__, found, BOUNDS[work])), f"{work}: {found}, allowed are {BOUNDS[work]}"
