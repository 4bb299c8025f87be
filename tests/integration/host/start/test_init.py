# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire.init` on four real gloo ranks of this machine."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.aggregator.served import serving as aggregator_serving
from helpers.gloo import start_cases
from helpers.gloo.ranks import Ranks
from helpers.transport.udp_bridge import addresses
from sumwire.start.job_request import JobRequest, job_file_for
from sumwire.start.service import serving

RANKS = 4
NMSE_MAX = 0.03


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ranks]:
    with Ranks(RANKS, Path(tmp_path_factory.mktemp("ranks"))) as started:
        yield started


def job_of(hosts: int) -> dict[str, Any]:
    aggregator, ips = addresses(hosts)
    return job_file_for(ips, aggregator, JobRequest())


@contextmanager
def service_of(description: dict[str, Any]) -> Iterator[dict[str, str]]:
    """The options of `sumwire.init` for a service of this job."""
    address = description["addresses"][0]["aggregator"]
    with serving(description, address, 0) as port:
        yield {"service": f"{address}:{port}"}


@contextmanager
def served(hosts: int = 2) -> Iterator[dict[str, str]]:
    """As :func:`service_of`, with the aggregator of a job of so many hosts."""
    description = job_of(hosts)
    with aggregator_serving(description), service_of(description) as options:
        yield options


def assert_mean(outcomes: list[dict[str, Any]]) -> None:
    exact = torch.stack([start_cases.tensor_of(rank) for rank in range(RANKS)]).mean(0)
    assert all(outcome["mean"] == outcomes[0]["mean"] for outcome in outcomes)
    for name, factor in (("mean", 1), ("sum", RANKS)):
        found = torch.tensor(outcomes[0][name])
        assert float((found - factor * exact).square().sum() / (factor * exact).square().sum()) < NMSE_MAX


def test_an_aggregator_beside_rank_0(ranks: Ranks) -> None:
    """Twice: the first one has ended with its job, and left its port."""
    address, _ = addresses(1)
    for _ in range(2):
        outcomes = ranks.run(start_cases.reduced, {"aggregator": "rank0", "address": address})
        assert [outcome["kind"] for outcome in outcomes] == ["Job"] * RANKS
        assert_mean(outcomes)


def test_ranks_share_the_workers_of_their_machine(ranks: Ranks) -> None:
    """Two workers of two ranks each. All ranks together send half of what four workers send."""
    sent = {}
    for hosts in (2, RANKS):
        with served(hosts) as options:
            outcomes = ranks.run(start_cases.reduced, options)
        assert_mean(outcomes)
        assert {outcome["kind"] for outcome in outcomes} == {"NodeJob" if hosts < RANKS else "Job"}
        sent[hosts] = [outcome["bytes"] for outcome in outcomes]
    assert [bool(count) for count in sent[2]] == [True, False, True, False]
    assert sum(sent[2]) / sum(sent[RANKS]) == pytest.approx(1 / 2, rel=0.1)


def test_sums_and_precision_of_nodes(ranks: Ranks) -> None:
    with served() as options:
        outcomes = ranks.run(start_cases.totals, options)
    exact = torch.stack([start_cases.tensor_of(rank) for rank in range(RANKS)]).mean(0)
    for outcome in outcomes:
        assert outcome["integers"] == [10 * number for number in range(100)]
        assert outcome["mean"] == outcomes[0]["mean"]
    error = float((torch.tensor(outcomes[0]["mean"]) - exact).square().sum() / exact.square().sum())
    assert error < NMSE_MAX / 10


@pytest.mark.parametrize("hosts", [2, RANKS], ids=["nodes", "a rank each"])
def test_sums_of_every_integer_type(ranks: Ranks, hosts: int) -> None:
    """gloo adds only some of them. All wrap around."""
    with served(hosts) as options:
        outcomes = ranks.run(start_cases.sums_of_all_types, options)
    for outcome in outcomes:
        assert outcome.pop("bool").startswith("tensor of torch.bool: must be one of torch.float32")
        for name, sums in outcome.items():
            exact = np.array([6, 2, RANKS * np.iinfo(name).max], object) % 2 ** np.iinfo(name).bits
            assert sums == exact.astype(f"uint{np.iinfo(name).bits}").astype(name).tolist(), name


@pytest.mark.parametrize("fallback", ["auto", "always"])
@pytest.mark.parametrize("hosts", [2, RANKS], ids=["nodes", "a rank each"])
def test_another_default_device(ranks: Ranks, hosts: int, fallback: str) -> None:
    description = job_of(hosts)
    # With "always" there is no aggregator.
    served = aggregator_serving(description) if fallback == "auto" else nullcontext()
    with served, service_of(description) as options:
        outcomes = ranks.run(start_cases.under_another_default_device, {**options, "fallback": fallback})
    exact = torch.stack([start_cases.tensor_of(rank) for rank in range(RANKS)]).mean(0)
    for floats, fine, total, *integers in outcomes:
        assert floats == outcomes[0][0]
        assert float((torch.tensor(floats) - exact).square().sum() / exact.square().sum()) < NMSE_MAX
        assert float((torch.tensor(fine) - exact).square().sum() / exact.square().sum()) < NMSE_MAX / 10
        torch.testing.assert_close(torch.tensor(total), exact * RANKS)
        assert integers == [[sum(range(RANKS))] * start_cases.LENGTH] * 2


def test_feedback_of_a_node(ranks: Ranks) -> None:
    """The worker keeps what its node's mean lacks."""
    with served() as options:
        outcomes = ranks.run(start_cases.with_feedback, options, 8)
    exact = torch.stack([start_cases.tensor_of(rank) for rank in range(RANKS)]).mean(0)
    error = float((torch.tensor(outcomes[0]["mean"]) - exact).square().sum() / exact.square().sum())
    assert error < NMSE_MAX / 16


def test_ddp_with_several_ranks_a_node(ranks: Ranks) -> None:
    with served() as options:
        outcomes = ranks.run(start_cases.trained, options, 6)
    assert all(outcome["grads"] == outcomes[0]["grads"] for outcome in outcomes)
    # Six steps with error feedback: far below one step's error.
    assert outcomes[0]["error"] < NMSE_MAX / 3
    assert [bool(outcome["residuals"]) for outcome in outcomes] == [True, False, True, False]


@pytest.mark.parametrize("who", [pytest.param(0, marks=pytest.mark.long), 1])
def test_a_rank_that_is_interrupted_keeps_nobody_waiting(tmp_path: Path, who: int) -> None:
    """In processes of their own: the node's groups are left in the middle of a collective."""
    with Ranks(RANKS, tmp_path) as own, served() as options:
        outcomes = own.run(start_cases.interrupted, options, who)
    first, second = outcomes[who]
    assert first.startswith("KeyboardInterrupt")
    assert second.startswith(f"InterruptedJobError: job sumwire: an operation on rank {who} was interrupted")
    assert outcomes[1 - who][1].startswith("PeerLostError: ")
    assert f"rank {who} was interrupted by KeyboardInterrupt" in outcomes[1 - who][who - 1 if who else 1]
    assert all(told[1] for told in outcomes), "nobody goes on without it"


def test_a_forked_child_of_a_node_is_told(ranks: Ranks) -> None:
    with served() as options:
        for told in ranks.run(start_cases.in_a_fork, options):
            assert told.startswith("ForkError: job sumwire: used in a forked child of the process that made it")


def test_nodes_fall_back_together(ranks: Ranks) -> None:
    """No aggregator at all: exact sums by gloo between the nodes."""
    description = job_of(2)
    with service_of(description) as options:
        outcomes = ranks.run(start_cases.trained, {**options, "fallback": "always"}, 2)
    assert all(outcome["grads"] == outcomes[0]["grads"] for outcome in outcomes)
    assert outcomes[0]["error"] < 1e-9
    assert [outcome["fallbacks"] for outcome in outcomes] == [1, 0, 1, 0]


def test_nodes_return_together(ranks: Ranks) -> None:
    """The aggregator comes after the fall-back. Ranks that are no worker count nothing."""
    description = job_of(2)
    with service_of(description) as options:
        assert ranks.run(start_cases.begun, {**options, "fallback": "always"}) == [(1, 0), (0, 0), (1, 0), (0, 0)]
        with aggregator_serving(description):
            outcomes = ranks.run(start_cases.until_returned, 10_000)
    assert all(outcome["means"] == outcomes[0]["means"] for outcome in outcomes)
    assert not any(outcome["fallen"] for outcome in outcomes)
    assert [outcome["returns"] for outcome in outcomes] == [1, 0, 1, 0]


def test_local_groups_that_the_caller_makes(ranks: Ranks) -> None:
    description = job_of(2)
    with aggregator_serving(description):
        outcomes = ranks.run(start_cases.in_local_groups, description, 2)
    assert all(outcome["grads"] == outcomes[0]["grads"] for outcome in outcomes)
    assert any(outcomes[0]["grads"])


def test_the_next_bucket_is_summed_meanwhile(ranks: Ranks) -> None:
    """Its sum is there while the first result is not, in both nodes."""
    said = ranks.run(start_cases.order_of_collectives, [[0, 1], [2, 3]])
    assert said == [["second 10.5", "0.5 10.5"], ["0.5 10.5"], ["second 12.5", "2.5 12.5"], ["2.5 12.5"]]


def test_an_aggregator_that_does_not_answer(ranks: Ranks) -> None:
    description = job_of(2)
    with service_of(description) as options:
        errors = ranks.run(start_cases.raised, options)
    assert errors[0].startswith("ReachError: job sumwire: the aggregator"), errors[0]
    assert "reach this worker, so those of this worker get lost" in errors[0]
    # The other ranks of its node have nothing to ask, and learn it.
    assert errors[1].startswith("PlaceError: rank 0 cannot start: ReachError")


def test_a_job_that_a_worker_cannot_make(ranks: Ranks) -> None:
    """The other ranks of its node make none, and learn it. All can start again."""
    with served() as options:
        errors = ranks.run(start_cases.raised, {**options, "deadline_s": 0}, timeout_s=20)
        assert [error.partition(": ")[0] for error in errors] == ["ConfigError", "PlaceError"] * 2
        assert all("rank 0 cannot start: ConfigError: job sumwire: deadline_s = 0" in error for error in errors[1::2])
        assert_mean(ranks.run(start_cases.reduced, options))


def test_a_job_file(ranks: Ranks, tmp_path: Path) -> None:
    aggregator, ips = addresses(2)
    brief = {"format": 3, "name": "by hand", "job": 5, "aggregator": aggregator, "hosts": ips}
    (tmp_path / "job.json").write_text(json.dumps(brief))
    with aggregator_serving(job_file_for(ips, aggregator, JobRequest(number=5))):
        assert_mean(ranks.run(start_cases.reduced, {"job": str(tmp_path / "job.json")}))


def test_a_job_file_on_one_rank_alone(ranks: Ranks, tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text(json.dumps(job_of(2)))
    for named in (0, 1):
        others = [rank for rank in range(RANKS) if rank != named]
        errors = ranks.run(start_cases.raised_with_file_on, str(tmp_path / "job.json"), named)
        why = f"names a job file on ranks [{named}], but not on ranks {others}: give it to all ranks, or to none"
        assert all(error.startswith("PlaceError: SUMWIRE_JOB, or job=") and why in error for error in errors), errors


def test_no_service(ranks: Ranks) -> None:
    errors = ranks.run(start_cases.raised, {})
    assert errors[0].startswith("ServiceError: no service is known: start `sumwire up")
    assert all(error.startswith("PlaceError: rank 0 cannot start: ServiceError: no service") for error in errors[1:])


def test_another_version_on_one_machine(ranks: Ranks) -> None:
    said = ranks.run(start_cases.raised_beside_another_version, {"aggregator": "rank0", "address": addresses(1)[0]})
    assert all(
        re.match(r"PlaceError: versions of sumwire differ: .* on ranks \[0, 1, 2\]; '0.0.9", one) for one in said
    )


def test_under_a_framework_it_is_said_once_that_nothing_happens() -> None:
    """Where the script has chosen no log, Python shows the warning."""
    code = "from torch import nn; from sumwire.start.attach import Attachment; Attachment().attach(nn.Linear(2, 2))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.count("sumwire does nothing: there is one rank only: start several") == 1
