# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The benchmark's worker: how many sizes and repeats a budget allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from sumwire_lab.bench import exchange_worker
from sumwire_lab.bench.exchange_worker import TimedExchange


class Nothing(TimedExchange):
    def __init__(self) -> None:
        super().__init__(None)

    def begin(self, size: int) -> None: ...

    def prepare(self) -> None: ...

    def exchange(self) -> None: ...

    def end(self) -> None: ...


@pytest.fixture
def repeats(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """Repeats by size. A million values take this worker a second, and the slowest one two."""
    asked: dict[int, int] = {}

    def timed(work: TimedExchange, size: int, count: int, switches: Sequence[int] = ()) -> dict[str, Any]:
        asked[size] = count
        return {"seconds": [size / 1e6] * count}

    monkeypatch.setattr(exchange_worker, "timed", timed)
    monkeypatch.setattr(exchange_worker, "_slowest", lambda seconds: 2 * seconds)
    return asked


def test_without_a_budget_every_size_is_measured(repeats: dict[int, int]) -> None:
    spec = {"sizes": [100_000_000, 1_000, 100_000], "repeats": 3}
    assert len(exchange_worker.timed_sizes(Nothing(), spec, [])) == 3
    assert repeats == {100_000_000: 3, 1_000: 60, 100_000: 10}


def test_a_budget_ends_the_sizes_by_the_slowest_workers_time(repeats: dict[int, int]) -> None:
    # 4 million values take the slowest 8 s, four times.
    spec = {"sizes": [1_000, 1_000_000, 4_000_000, 8_000_000], "repeats": 3, "budget_s": 32.0}
    assert len(exchange_worker.timed_sizes(Nothing(), spec, [])) == 3
    assert repeats.keys() == {1_000, 1_000_000, 4_000_000}
    assert len(exchange_worker.timed_sizes(Nothing(), spec | {"budget_s": 31.9}, [])) == 2


def test_cheap_sizes_get_more_repeats(repeats: dict[int, int]) -> None:
    spec = {"sizes": [1_000, 200_000, 1_000_000], "repeats": 3, "budget_s": 60.0}
    exchange_worker.timed_sizes(Nothing(), spec, [])
    # 0.4 s each fit five times into 2 s, which are also the most by size; of a million values only the least.
    assert repeats == {1_000: 60, 200_000: 5, 1_000_000: 3}
