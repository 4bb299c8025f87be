# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which groups of the backend have the job of a service, and which ranks its workers are."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import torch.distributed as dist
from helpers.transport.udp_bridge import configs, job_mapping
from sumwire.start import finder
from sumwire.start.errors import NotReadyError, PlaceError, ServiceError
from sumwire.start.fetch import Service

CONFIG = configs(job_mapping(2, 64))[1]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """What the ranks' environments say of a service. Its job has two workers, and this machine is worker 1."""
    services: list[str | None] = [None, "10.0.0.1"]
    monkeypatch.delenv("SUMWIRE_SERVICE", raising=False)
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    place = SimpleNamespace(config=CONFIG)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(finder, "beside", lambda host: [Service(host)])
    monkeypatch.setattr(finder, "default_timeout", lambda: timedelta(seconds=1))
    monkeypatch.setattr(finder, "Rendezvous", lambda *_: SimpleNamespace(gather=lambda own: services))
    monkeypatch.setattr(finder, "job_for", lambda *_, each_rank, **rest: place if each_rank else None)
    return services


def test_the_worker_of_a_rank(told: list[str | None]) -> None:
    store: Any = None
    assert finder.find(1, 2, store) == CONFIG
    with pytest.raises(PlaceError, match="rank 0 is on the machine of worker 1 of job test: name the hosts"):
        finder.find(0, 2, store)


def test_where_there_is_nothing_to_find(told: list[str | None]) -> None:
    """A group of fewer ranks, and ranks none of which knows a service."""
    store: Any = None
    assert finder.find(1, 3, store) is None
    told[1] = None
    assert finder.find(1, 2, store) is None


def test_a_service_on_rank_0_s_machine(told: list[str | None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's environment names it. Only rank 0 looks, and only a service that answers counts."""
    store: Any = None
    meeting = SimpleNamespace(gather=lambda own: [own, None])
    monkeypatch.setattr(finder, "Rendezvous", lambda *_: meeting)
    answers = [job_mapping(2, 64)]

    def job(service: Service) -> dict[str, Any]:
        if service.host != "10.0.0.1" or not answers:
            raise ServiceError("Connection refused")
        return answers[0]

    monkeypatch.setattr(Service, "job", job)
    assert finder.find(0, 2, store) is None
    monkeypatch.setenv("MASTER_ADDR", "10.0.0.1")
    with pytest.raises(PlaceError, match="rank 0 is on the machine of worker 1"):
        finder.find(0, 2, store)
    assert finder.find(1, 2, store) is None
    answers.clear()
    assert finder.find(0, 2, store) is None


def test_a_service_whose_aggregator_is_not_ready_counts(
    told: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group waits for it, in place of going on without a job."""
    store: Any = None
    monkeypatch.setenv("MASTER_ADDR", "10.0.0.1")

    def job(service: Service) -> dict[str, Any]:
        raise NotReadyError("not yet")

    monkeypatch.setattr(Service, "job", job)
    monkeypatch.setattr(finder, "Rendezvous", lambda *_: SimpleNamespace(gather=lambda own: [own, None]))
    with pytest.raises(PlaceError, match="rank 0 is on the machine of worker 1"):
        finder.find(0, 2, store)
