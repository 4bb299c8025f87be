# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The backend with 2 to 8 ranks: sharded and tensor-parallel training, groups and asynchronous calls, against gloo.

All of it is long: `make verify-ways` runs it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from helpers.gloo import backend_cases, parallel_cases
from helpers.gloo.ranks import Ranks
from helpers.transport.udp_bridge import job_mapping

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
# Squared error over squared norm at 4 bits: THC's table is coarser for more workers, and the mean of more has less.
MOST, LEAST = 0.06, 0.0003
SHAPE = (64, 80)


@pytest.fixture(scope="module", params=[2, 3, 5, 8])
def ranks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    mapping = {**job_mapping(request.param, 64), "ops": ["thc", "max32", "sum32"]}
    with backend_cases.ranks_with_job(mapping, tmp_path_factory.mktemp("sizes")) as started:
        yield started


def test_trainings(ranks: Ranks) -> None:
    """Layers are divided among ranks by torch only where these divide them."""
    divided = parallel_cases.WIDTH % ranks.count == 0
    for name in ("ddp", "fsdp2", *(["tensor parallel"] if divided else [])):
        for outcome in ranks.run(parallel_cases.trained, name, "exact", timeout_s=300):
            assert outcome["equal"]
            assert outcome["used"] == 0
        for outcome in ranks.run(parallel_cases.trained, name, "4bit", timeout_s=300):
            assert outcome["used"] > 0
            assert LEAST < outcome["error"] < MOST


@pytest.mark.parametrize("call", ["all_reduce", "async", "functional"])
def test_calls(ranks: Ranks, call: str) -> None:
    for outcome in ranks.run(backend_cases.reduced, call, "float32", SHAPE, "SUM", "4bit", timeout_s=300):
        assert outcome["used"] > 0
        assert LEAST < outcome["error"] < MOST
    for dtype, precision in (("float32", "exact"), ("int32", "4bit")):
        for outcome in ranks.run(backend_cases.reduced, call, dtype, SHAPE, "SUM", precision, timeout_s=300):
            assert outcome["equal"]
            assert outcome["used"] == 0 or dtype == "int32"


def test_groups(ranks: Ranks) -> None:
    for outcome in ranks.run(backend_cases.groups, timeout_s=300):
        assert outcome["pair"] and outcome["second"]
        assert outcome["used"] == 0
