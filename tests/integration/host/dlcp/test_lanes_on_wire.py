# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Lanes on real sockets, through a software aggregator that loses packets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sumwire
import torch
from golden import model
from helpers.aggregator.served import LossyServer, running
from helpers.training.replicas import flat
from helpers.transport.udp_bridge import aggregator_of, configs, job_mapping, run_workers
from sumwire import systems
from sumwire.aggregator.jobs import lanes_of
from sumwire.aggregator.processes import listen
from sumwire.aggregator.state import State
from sumwire.config import JobConfig
from sumwire.dlcp.lanes import Lanes, TensorRecord
from sumwire.errors import UsageError
from sumwire.transport.options import Delivery
from torch import Tensor, nn

WORKERS = 4


def laned(lanes: int = 4, slots: int = 32, quorum: int = WORKERS) -> dict[str, Any]:
    mapping = job_mapping(WORKERS, slots, job=40)
    # Lanes have ports of their own from the worker's on; the aggregator has other addresses.
    return mapping | {
        "format": 3,
        "quorum": quorum,
        "lanes": [{"job": 40 + lane, "slots": slots} for lane in range(lanes)],
    }


@contextmanager
def serving(mapping: dict[str, Any], loss: float) -> Iterator[None]:
    state = State(lanes_of(configs(mapping)[:1]), seed=3)
    (udp,) = listen(aggregator_of(mapping), model.UDP_PORT, 1)
    with udp:
        server = LossyServer(udp, state)
        server.loss = loss
        with running([server]):
            yield


def net() -> nn.Sequential:
    """A model with equal weights at every call. Threads must not call it: it sets the seed of the process."""
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))


def train(
    config: JobConfig, network: nn.Module, steps: int, delivery: Delivery
) -> tuple[Tensor, list[TensorRecord], list[float]]:
    with Lanes(config, delivery=delivery, fallback="never") as lanes:
        worker = config.worker
        system = systems.make("dlcp", lanes)
        optimizer = system.attach(network, torch.optim.SGD(network.parameters(), lr=1.0))
        generator = torch.Generator().manual_seed(worker)
        losses = []
        for _ in range(steps):
            x = torch.randn(32, 64, generator=generator)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(network(x), x[:, :10].argmax(1))
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(float(loss.detach()))
        system.close()
        return flat(network), lanes.take_records(), losses


@pytest.mark.parametrize(
    ("bound", "divisor"),
    [(0.0, "contributors"), (0.03, "contributors"), pytest.param(0.03, "workers", marks=pytest.mark.long)],
)
def test_replicas_are_equal_and_the_bound_is_kept(bound: float, divisor: Any) -> None:
    steps = 25 if bound else 8
    delivery = Delivery(loss_bound=bound, divisor=divisor)
    mapping, networks = laned(), [net() for _ in range(WORKERS)]
    with serving(mapping, loss=0.02):
        outcomes = run_workers(lambda w: train(configs(mapping)[w], networks[w], steps, delivery), WORKERS)
    for parameters, records, _ in outcomes:
        assert torch.equal(parameters, outcomes[0][0])
        assert len(records) == steps * len({record.lane for record in records})
        assert all(record.missing_share <= bound for record in records)
    assert (sum(record.missing for record in outcomes[0][1]) > 0) == (bound > 0)
    # What is missing is missing for all alike.
    shares = [sorted((r.bucket, r.missing) for r in records) for _, records, _ in outcomes]
    assert shares == [shares[0]] * WORKERS
    if not bound:
        return
    mean = torch.tensor([losses for _, _, losses in outcomes]).mean(0)
    assert float(mean[-5:].mean()) < float(mean[:5].mean()) * 0.9


def test_public_way_in() -> None:
    assert sumwire.dlcp.Lanes is Lanes


def test_a_job_is_not_taken_for_lanes() -> None:
    with (
        sumwire.Job(configs(job_mapping(1, 16))[0], fallback="never") as job,
        pytest.raises(UsageError, match=r"system dlcp: Job given: needs sumwire.dlcp.Lanes"),
    ):
        systems.make("dlcp", job)
