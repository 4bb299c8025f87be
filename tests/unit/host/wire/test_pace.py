# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Trains are as long as the link is fast."""

from __future__ import annotations

import pytest
from sumwire.wire.batch import Pace


def fed(pace: Pace, per_ms: float, *, ms: int, batch_ms: int = 1, at: float = 0.0) -> Pace:
    """Packets that come every ``batch_ms`` milliseconds; each call takes 0.1 ms and brings all of them."""
    pace.begin()
    for tick in range(0, ms + 1, batch_ms):
        began = at + tick / 1000
        pace.arrived(int(per_ms * batch_ms), began, began + 0.0001, drained=True)
    return pace


@pytest.mark.parametrize(("per_ms", "train"), [(1, 4), (4, 4), (11, 10), (50, 48), (112, 64), (1000, 64)], ids=str)
@pytest.mark.parametrize("batch_ms", [2, 4])
def test_a_train_is_a_millisecond_long(per_ms: int, train: int, batch_ms: int) -> None:
    assert fed(Pace(), per_ms, ms=100, batch_ms=batch_ms).train == pytest.approx(train, abs=1)


def test_what_is_not_known_changes_nothing() -> None:
    pace = Pace()
    assert pace.train == 16
    fed(pace, 100, ms=1)
    assert pace.train == 16


def test_a_busy_processor_is_no_slow_link() -> None:
    """40 packets come in a millisecond, and then the worker is away for 20."""
    pace = Pace()
    for at in range(10):
        fed(pace, 40, ms=4, at=0.025 * at)
        pace.arrived(40, 0.025 * at + 0.005, 0.025 * at + 0.024, drained=True)
    assert pace.train >= 36


def test_packets_that_had_waited_are_not_taken_for_fast_ones() -> None:
    """200 had queued up while the worker was away; the link carries 10 in a millisecond."""
    pace = Pace()
    pace.arrived(64, 0.0, 0.0001, drained=False)
    pace.arrived(64, 0.0002, 0.0003, drained=False)
    pace.arrived(72, 0.0004, 0.0005, drained=True)
    for tick in range(1, 9):
        pace.arrived(10, tick / 1000, tick / 1000, drained=True)
    assert 8 <= pace.train <= 12


def test_a_link_that_gets_slow_is_noticed() -> None:
    pace = fed(Pace(), 48, ms=50)
    assert pace.train >= 45
    fed(pace, 5, ms=12_000, at=4.0)
    assert pace.train <= 8
