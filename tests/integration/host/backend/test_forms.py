# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The forms in which a script may name the backend, and the places in which it finds its job."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.aggregator.served import serving as aggregator_serving
from helpers.gloo import backend_cases
from helpers.gloo.ranks import Ranks
from helpers.logs import of
from helpers.transport.udp_bridge import addresses, job_mapping
from sumwire.start.job_request import JobRequest, job_file_for
from sumwire.start.service import serving
from sumwire_protocol.events import Event

RANKS = 2
SHAPE = (64, 80)
MOST, LEAST = 0.06, 0.003


def check_calls(ranks: Ranks) -> None:
    """A sum through the network, and one beneath."""
    for outcome in ranks.run(backend_cases.reduced, "all_reduce", "float32", SHAPE, "SUM", "4bit"):
        assert outcome["used"] == 1
        assert LEAST < outcome["error"] < MOST
    for outcome in ranks.run(backend_cases.reduced, "all_reduce", "float32", SHAPE, "SUM", "exact"):
        assert outcome["used"] == 0
        assert outcome["equal"]


@pytest.mark.parametrize("form", ["cpu:sumwire", "cpu:sumwire,cuda:nccl"])
def test_a_backend_for_tensors_of_processors(tmp_path: Path, form: str) -> None:
    """This torch need not know NCCL: no tensor is on a GPU."""
    with backend_cases.ranks_with_job(job_mapping(RANKS, 64), tmp_path, form) as ranks:
        check_calls(ranks)


def test_the_job_of_a_service(tmp_path: Path) -> None:
    """One rank knows where it is, by its environment. Another one has no job file either."""
    aggregator, ips = addresses(RANKS)
    description = job_file_for(ips, aggregator, JobRequest())
    with (
        aggregator_serving(description),
        serving(description, aggregator, 0) as port,
        Ranks(RANKS, tmp_path, "sumwire") as ranks,
    ):
        ranks.run(backend_cases.told_of_a_service, f"{aggregator}:{port}")
        first, *others = ranks.run(backend_cases.first_call, SHAPE)
        (line,) = of(first, Event.PATH_CHOSEN)
        assert (line["ranks"], line["name"]) == ([*range(RANKS)], description["name"])
        assert not [of(lines, Event.PATH_CHOSEN) for lines in others if of(lines, Event.PATH_CHOSEN)], "rank 0 tells"
        check_calls(ranks)


def test_a_job_that_init_has_made(tmp_path: Path) -> None:
    """With an aggregator beside rank 0. The caller closes it, before the group ends."""
    with Ranks(RANKS, tmp_path, "sumwire") as ranks:
        for outcome in ranks.run(backend_cases.with_a_job_of_init, addresses(1)[0], SHAPE):
            assert outcome["used"] == 1
            (found,) = of(outcome["lines"], Event.JOB_FOUND)
            assert found["workers"] == RANKS
            assert LEAST < outcome["error"] < MOST


def test_backward_raises_the_error_of_a_sum(tmp_path: Path) -> None:
    """DDP's reducer looks at the result of a sum in C++, where a failed one has none."""
    with backend_cases.ranks_with_job(job_mapping(RANKS, 64), tmp_path) as ranks:
        for said in ranks.run(backend_cases.failed_backward):
            assert "ops = ('thc', 'max32'): must have sign for this operation" in said
