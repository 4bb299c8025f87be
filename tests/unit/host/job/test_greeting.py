# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The greeting of jobs with more workers than a word has lanes: only a tree has them."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.transport.udp_bridge import job_mapping
from numpy.typing import NDArray
from sumwire.config import JobConfig, parse_job
from sumwire.errors import OrderError, StaleRunError
from sumwire.job.greeting import Greeting


def configs(workers: int) -> list[JobConfig]:
    """Leaves of 20 workers."""
    mapping = {**job_mapping(workers, 8), "ops": ["max32"]}
    for number, entry in enumerate(mapping["addresses"]):
        entry.update(aggregator=f"10.0.{number // 20}.250", seat=number % 20)
    return [parse_job(mapping, worker) for worker in range(workers)]


def maximum(greetings: list[Greeting]) -> NDArray[np.uint8]:
    return np.max([g.payload().view(">u4") for g in greetings], axis=0).astype(">u4").view(np.uint8)


@pytest.mark.parametrize(("workers", "chunks"), [(1, 2), (32, 2), (33, 3), (100, 5)])
def test_all_workers_recognise_each_other(workers: int, chunks: int) -> None:
    greetings = [Greeting(config, {}) for config in configs(workers)]
    words = maximum(greetings)
    assert words.shape == (chunks, 1, 128)
    for greeting in greetings:
        greeting.check(words)


def test_the_last_of_many_is_recognised_as_an_earlier_runs() -> None:
    own = [Greeting(config, {}) for config in configs(40)]
    words = maximum([*own[:39], Greeting(configs(40)[39], {})])
    own[0].check(words)
    with pytest.raises(StaleRunError, match="renew"):
        own[39].check(words)


def test_other_settings_of_one_of_many_are_told_to_all() -> None:
    greetings = [Greeting(config, {"block": 1 if config.worker == 37 else 2}) for config in configs(40)]
    words = maximum(greetings)
    for greeting in greetings:
        with pytest.raises(OrderError, match="not all workers have the same"):
            greeting.check(words)


def test_a_worker_that_the_quorum_left_out_finds_its_lane_empty() -> None:
    greetings = [Greeting(config, {}) for config in configs(4)]
    words = maximum(greetings[:3])
    bitmaps = np.array([0b0111, 0b0111], np.uint32)
    for greeting in greetings:
        greeting.check(words, bitmaps)
    # In the sum by the bitmap, but with nothing in its lane; or left out, and something there.
    with pytest.raises(StaleRunError, match="renew"):
        greetings[3].check(words, np.array([0b1111, 0b1111], np.uint32))
    with pytest.raises(StaleRunError, match="renew"):
        greetings[2].check(words, np.array([0b1011, 0b1011], np.uint32))


def test_a_worker_left_out_compares_its_settings_too() -> None:
    greetings = [Greeting(config, {"block": config.worker // 3}) for config in configs(4)]
    words = maximum(greetings[:3])
    with pytest.raises(OrderError, match="not all workers have the same"):
        greetings[3].check(words, np.array([0b0111, 0b0111], np.uint32))
