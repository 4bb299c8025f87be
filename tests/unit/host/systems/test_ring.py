# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""dlcp-ring over a ring without a network."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import sumwire.multihop
import torch
import torch.distributed as dist
from sumwire import systems
from torch import Tensor, nn
from torch.testing._internal.distributed.fake_pg import FakeStore


class LosingRing:
    """Loses the first value of every tensor, and keeps the tensors."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.stats = SimpleNamespace(payload_bytes=0)
        self.given: list[Tensor] = []
        made.append(self)

    def mean(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.given.append(x.clone())
        mean, kept = x.clone(), torch.zeros_like(x)
        mean[0], kept[0] = 0.0, x[0]
        return mean, kept

    def close(self) -> None:
        pass


made: list[LosingRing] = []


@pytest.fixture
def one_rank() -> Iterator[None]:
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_a_lost_nan_is_in_no_residual(one_rank: None, monkeypatch: pytest.MonkeyPatch, bad: float) -> None:
    monkeypatch.setattr(sumwire.multihop, "GroupRing", LosingRing)
    system, model = systems.make("dlcp-ring"), nn.Linear(3, 1, bias=False)
    optimizer = system.attach(model, torch.optim.SGD(model.parameters(), lr=0.0))
    for first in (bad, 1.0, 1.0):
        model.weight.grad = torch.tensor([[first, 2.0, 3.0]])
        optimizer.step()
    system.close()
    assert [given[0].item() for given in made[-1].given[1:]] == [1.0, 2.0], "what is finite comes with the next tensor"
