# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Lanes over jobs without a network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
import torch.distributed as dist
from helpers.dlcp.fake_jobs import FakeJob, MakeLanes, Table, lane_config
from sumwire.dlcp import lanes as lanes_module
from sumwire.dlcp.lanes import Lanes
from torch.testing._internal.distributed.fake_pg import FakeStore


@pytest.fixture
def one_rank() -> Iterator[None]:
    """A process group of one rank."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture
def make_lanes(monkeypatch: pytest.MonkeyPatch) -> MakeLanes:
    """``make_lanes(worker, workers=1, lanes=4, quorum=None, **options)``; all of a test meet at one table."""
    tables: list[Table] = []

    class Job(FakeJob):
        made: ClassVar[list[FakeJob]] = []

    monkeypatch.setattr(lanes_module, "Job", Job)

    def make(worker: int = 0, *, workers: int = 1, lanes: int = 4, quorum: int | None = None, **options: Any) -> Lanes:
        if not tables:
            tables.append(Table(quorum or workers))
            Job.table = tables[0]
        return Lanes(lane_config(worker, workers, lanes), block=1024, **options)

    return make
