# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What elastic training refuses, its workers, and torchft's absence."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
import sumwire
import torch
from helpers.transport.udp_bridge import job_mapping
from sumwire.config import parse_job
from sumwire.errors import ConfigError, UsageError
from sumwire.start import quorum, rank_placement
from sumwire.start.errors import PlaceError, ServiceError, StartError
from sumwire.start.job_request import JobRequest, job_file_for, tree_job_file


def begun(**options: Any) -> None:
    model = torch.nn.Linear(2, 2)
    sumwire.elastic(model, torch.optim.SGD(model.parameters(), lr=0.1), **options)


def job(hosts: int = 2, least: int | None = 1) -> dict[str, Any]:
    return job_file_for(["127.0.0.1"] * hosts, "127.0.0.1", JobRequest(workers_min=least))


def without(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, name, None)


def test_without_torchft(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torchft", "torchft.coordination"):
        without(monkeypatch, name)
    said = r"torchft is not installed, .*: pip install 'sumwire\[elastic\]'"
    with pytest.raises(StartError, match=said):
        begun(service="127.0.0.1")
    with pytest.raises(StartError, match=said), quorum.lighthouse("127.0.0.1", 2):
        pass


def test_an_aggregator_beside_rank_0_is_refused() -> None:
    """Any rank may end."""
    with pytest.raises(PlaceError, match=r"aggregator = 'rank0' with elastic: must be left out.*start `sumwire up"):
        begun(aggregator="rank0")


def test_an_unknown_option_and_no_service_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchft", SimpleNamespace(Manager=None))  # type: ignore[arg-type]
    for name in ("MASTER_ADDR", rank_placement.SERVICE):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ServiceError, match=r"no service is known: start `sumwire up --hosts A,B --elastic 1`"):
        begun()
    with pytest.raises(UsageError, match=r"sumwire.elastic has no option 'silence': give silence_s"):
        begun(silence=3)


def test_a_lighthouse_whose_port_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def taken(**_: object) -> None:
        raise RuntimeError("Address already in use (os error 98)")

    module: Any = SimpleNamespace(LighthouseServer=taken)
    monkeypatch.setitem(sys.modules, "torchft", module)
    monkeypatch.setitem(sys.modules, "torchft.coordination", module)
    said = r"lighthouse at 127.0.0.1:29510: Address already in use.*ss -ltnp"
    with pytest.raises(StartError, match=said), quorum.lighthouse("127.0.0.1", 2):
        pass


def test_a_job_that_needs_all_workers_is_refused() -> None:
    with pytest.raises(PlaceError, match=r"job sumwire: needs all of its 2 workers: must have runs of fewer"):
        quorum.claimed(job(least=None))


def test_the_least_number_of_ranks() -> None:
    assert job(hosts=3, least=2)["workers_min"] == 2
    assert "workers_min" not in job(least=None)
    with pytest.raises(ConfigError, match=r"workers_min = 3: must be an integer in 1..2"):
        job(least=3)
    with pytest.raises(ConfigError, match=r"workers_min = 1: must be 2, all workers: fewer need one switch"):
        tree_job_file({"10.0.0.1": ["10.0.0.3"], "10.0.0.2": ["10.0.0.4"]}, "10.0.0.9", JobRequest(workers_min=1))


def test_a_run_of_some_workers() -> None:
    """Each keeps its seat and address; the digest, which the aggregator compares, stays the job's."""
    mapping = {**job_mapping(4, 8), "workers_min": 1}
    config = parse_job(mapping, 2).among([3, 0, 2])
    assert (config.worker, config.workers, config.quorum, config.run_quorum) == (2, 3, 3, 3)
    assert [address.seat for address in config.addresses] == [3, 0, 2]
    assert config.own_address == parse_job(mapping, 2).own_address
    assert config.digest == parse_job(mapping, 0).digest
    assert config.for_run(3) == config


def test_the_rank_that_has_another_version_is_told_so() -> None:
    """The one that has made most steps sets it. The others do not fail with a new one."""
    quorum.check_version([(0, 5, quorum._VERSION), (1, 0, "0.0.1")])
    with pytest.raises(PlaceError, match=r"sumwire .* here, 0.0.1 on the other ranks: must be the same: install"):
        quorum.check_version([(0, 0, quorum._VERSION), (1, 5, "0.0.1")])
