# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The bias and correlation test on bmv2 over veth. Nobody sets its seed: every run is another."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sumwire.multihop.statistics import judge

from .networks import Node
from .wired import Wired, wired

WORKERS = (2, 3, 8, 16)
ROUNDS = 480
STARS = tuple(Node("a", n) for n in WORKERS)


@pytest.fixture(scope="module")
def switch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wired]:
    with wired(STARS, tmp_path_factory.mktemp("wired") / "switch.log") as switch:
        yield switch


@pytest.mark.root
@pytest.mark.bmv2
@pytest.mark.parametrize("job", range(len(WORKERS)), ids=lambda job: f"{WORKERS[job]} workers")
def test_bmv2(switch: Wired, job: int) -> None:
    """False alarms: below 1e-5 for each number of workers."""
    outcome = judge(lambda signs, rounds: switch.rounds(job, signs, rounds), WORKERS[job], rounds=ROUNDS)
    assert outcome.unbiased, outcome
    assert outcome.uncorrelated, outcome
