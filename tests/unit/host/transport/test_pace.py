# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Trains are as long as the link is fast."""

from __future__ import annotations

import pytest
from sumwire.transport.pace import Pace


def fed(pace: Pace, per_ms: float, *, ms: int, batch_ms: int = 1, at: float = 0.0) -> Pace:
    """Results that come every ``batch_ms`` milliseconds."""
    pace.begin()
    for tick in range(0, ms + 1, batch_ms):
        pace.results(int(per_ms * batch_ms), at + tick / 1000)
    return pace


@pytest.mark.parametrize(("per_ms", "train"), [(1, 4), (4, 4), (11, 11), (50, 50), (112, 64), (1000, 64)], ids=str)
@pytest.mark.parametrize("batch_ms", [1, 4])
def test_a_train_is_a_millisecond_long(per_ms: int, train: int, batch_ms: int) -> None:
    assert fed(Pace(), per_ms, ms=100, batch_ms=batch_ms).train == train


def test_what_is_not_known_changes_nothing() -> None:
    pace = Pace()
    assert pace.train == 16
    fed(pace, 100, ms=5)
    assert pace.train == 16


def test_short_exchanges_add_up() -> None:
    """Only the time within them counts."""
    pace = Pace()
    for number in range(4):
        fed(pace, 30, ms=4, at=10.0 * number)
    assert pace.train == 30


def test_one_pause_is_forgiven_and_a_slower_link_is_not() -> None:
    pace = fed(Pace(), 48, ms=50)
    assert pace.train == 48
    pace.begin()
    pace.results(1, 1.0)
    pace.results(48, 3.0)
    assert pace.train == 42
    fed(pace, 5, ms=1000, at=4.0)
    assert pace.train == 5
