# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The ways of a bucket, a configuration and a packet through the code stay short: see :mod:`helpers.call_counts`.

The bounds are lowered with the code.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from helpers.call_counts import Bounds, Counts, of_bucket, of_check_config, of_packet

BUCKET: Bounds = (25, 250, 120)
# So many steps of a bucket are enough for one in which no packet comes late, on a busy machine, too.
STEPS = 1000


@pytest.mark.cc
@pytest.mark.parametrize(
    ("count", "bounds"),
    [(partial(of_bucket, STEPS, BUCKET), BUCKET), (of_check_config, (9, 450, 80)), (of_packet, (3, 6, 4))],
    ids=["bucket", "check-config", "packet"],
)
def test_the_way_of(count: Callable[[], Counts], bounds: Bounds) -> None:
    counts = count()
    assert counts.within(bounds), f"{counts.files, counts.total, counts.changes}, allowed are {bounds}"
