# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The device of tests of whole trainings, and jobs for them.

All ranks share one GPU, so their group is gloo: NCCL takes a GPU of its own for each rank. SUMWIRE_TEST_DEVICE=cpu runs
the same tests on processors.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from helpers.aggregator.served import every_op_mapping, serving
from helpers.transport.udp_bridge import addresses
from sumwire.start import service
from sumwire.start.job_request import JobRequest, job_file_for

DEVICE: Final = os.environ.get("SUMWIRE_TEST_DEVICE", "cuda")
RANKS: Final = 2

needs_device = pytest.mark.skipif(
    DEVICE == "cuda" and not torch.cuda.is_available(), reason="needs a CUDA device, or SUMWIRE_TEST_DEVICE=cpu"
)


def beside_rank_0() -> dict[str, Any]:
    """The options of `sumwire.init`."""
    return {"aggregator": "rank0", "address": addresses(1)[0]}


@contextmanager
def every_op(folder: Path) -> Iterator[dict[str, Any]]:
    """The options of `sumwire.init` for a job with all ops, while its aggregator runs."""
    mapping = every_op_mapping(RANKS)
    (folder / "job.json").write_text(json.dumps(mapping))
    with serving(mapping):
        yield {"job": str(folder / "job.json")}


@contextmanager
def of_two_nodes() -> Iterator[dict[str, Any]]:
    """The options of `sumwire.init` for ranks that share two workers, while the aggregator runs."""
    aggregator, ips = addresses(2)
    description = job_file_for(ips, aggregator, JobRequest())
    with serving(description), service.serving(description, aggregator, 0) as port:
        yield {"service": f"{aggregator}:{port}"}


def assert_replicas(outcomes: list[dict[str, Any]]) -> None:
    assert {outcome["digest"] for outcome in outcomes} == {outcomes[0]["digest"]}, "replicas differ"


def mean_loss(outcomes: list[dict[str, Any]], which: str = "losses") -> torch.Tensor:
    return torch.tensor([outcome[which] for outcome in outcomes]).mean(0)


def assert_learns(outcomes: list[dict[str, Any]]) -> None:
    losses = mean_loss(outcomes)
    assert float(losses[-3:].mean()) < float(losses[:3].mean())
