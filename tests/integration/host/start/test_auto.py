# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire.init(system=...)` on four real gloo ranks of this machine: what is chosen, and that it trains."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.aggregator.served import serving as aggregator_serving
from helpers.gloo import start_cases
from helpers.gloo.ranks import Ranks
from helpers.transport.udp_bridge import addresses
from sumwire.start.job_request import JobRequest, job_file_for
from sumwire.start.service import serving
from sumwire.systems import pays

RANKS = 4
STEPS = 6
SLOW = [1e7, 1e-4]
# Any number of bytes takes no time there.
FAST = [1e15, 1e-6]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    with Ranks(RANKS, Path(tmp_path_factory.mktemp("ranks"))) as started:
        yield started


@pytest.mark.parametrize(
    ("between", "rate", "system", "error_most"),
    [
        (SLOW, "10G", "thc", 0.01),
        # All packets would cross one slow link, so torch's hook is the fastest, without any job.
        (SLOW, "1M", "fp16", 1e-6),
        (FAST, "1k", "ssgd", 1e-12),
    ],
)
def test_the_best_one_trains(ranks: Ranks, between: list[float], rate: str, system: str, error_most: float) -> None:
    options = {"system": "auto", "aggregator": "rank0", "address": addresses(1)[0], "aggregator_rate": rate}
    outcomes = ranks.run(start_cases.by_system, options, between, STEPS)
    assert [outcome["name"] for outcome in outcomes] == [system] * RANKS
    assert all(outcome["grads"] == outcomes[0]["grads"] for outcome in outcomes)
    assert all(outcome["error"] <= error_most and outcome["closed"] for outcome in outcomes)
    assert all(outcome["operations"] >= STEPS for outcome in outcomes), "gradients go by the system"
    assert [outcome["chosen"] for outcome in outcomes] == [[system]] * RANKS, "each rank logs it"


def test_a_system_by_its_name(ranks: Ranks) -> None:
    """As one says it that "auto" has chosen before. Nothing is measured, and gloo needs no service."""
    for system in ("sum32", "ssgd"):
        source = {"aggregator": "rank0", "address": addresses(1)[0]} if system == "sum32" else {}
        outcomes = ranks.run(start_cases.by_system, {"system": system, "model": None, **source}, None, STEPS)
        assert [outcome["name"] for outcome in outcomes] == [system] * RANKS
        assert all(outcome["error"] < 1e-9 and outcome["closed"] for outcome in outcomes)


def test_what_is_measured_decides_for_all_ranks(ranks: Ranks) -> None:
    told = ranks.run(start_cases.line_of_auto, 1_000_000, "10G")
    assert told == [told[0]] * RANKS
    system, line = told[0]
    assert system in pays.STAND_INS
    assert line.startswith(
        ("sumwire: takes gloo (ssgd) ", "sumwire: takes fp16 hook (fp16) ", f"sumwire: takes {system} ")
    )
    assert "4 ranks, 1,000,000 values, " in line and "assumed" not in line


def test_what_is_assumed_is_said(ranks: Ranks) -> None:
    (_, line), *_ = ranks.run(start_cases.line_of_auto, 0, None)
    assert "6,553,600 values" in line
    assert line.endswith("; assumed: a gradient of one bucket of DDP: give model=")


def test_a_rate_that_is_none_is_an_error_on_all_ranks(ranks: Ranks) -> None:
    errors = ranks.run(start_cases.raised, {"system": "auto", "aggregator_rate": "fast"})
    assert all("aggregator_rate = 'fast': must be a number above 0" in error for error in errors), errors


def test_ranks_that_share_a_worker_have_no_system(ranks: Ranks) -> None:
    aggregator, hosts = addresses(2)
    description = job_file_for(hosts, aggregator, JobRequest())
    with aggregator_serving(description), serving(description, aggregator, 0) as port:
        errors = ranks.run(start_cases.raised, {"system": "thc", "service": f"{aggregator}:{port}"})
    assert all("has several ranks to a worker, and a system needs a worker a rank" in error for error in errors), errors
