# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the ranks of test_lowrank_gloo do. Each function runs on every rank and returns plain data."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from sumwire.lowrank.sync import AcpSgd
from sumwire.training.comm_thread import CommThread
from sumwire.training.ddp import local_hook
from sumwire.training.reductions import through_group
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 6


class Net(nn.Module):
    """``spare`` takes part only when told to."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first = nn.Linear(12, 40)
        self.spare = nn.Linear(40, 40)
        self.last = nn.Linear(40, 10)
        self.double()

    def forward(self, x: Tensor, use_spare: bool) -> Tensor:
        x = torch.tanh(self.first(x))
        out: Tensor = self.last(torch.tanh(self.spare(x)) if use_spare else x)
        return out


def _train(rank: int, model: nn.Module, optimizer: AcpSgd, accumulation: int, unused: bool) -> list[float]:
    generator = torch.Generator().manual_seed(rank)
    for step in range(STEPS):
        optimizer.zero_grad()
        for part in range(accumulation):
            x = torch.randn(8, 12, generator=generator, dtype=torch.float64)
            silent = isinstance(model, DistributedDataParallel) and part < accumulation - 1
            with model.no_sync() if silent else contextlib.nullcontext():  # type: ignore[operator]
                # Unused on no rank, on one, or on both.
                model(x, not unused or step % 3 + rank < 2).square().mean().backward()
        optimizer.step()
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()]).tolist()


def ddp_and_plain(rank: int, view: bool, unused: bool, accumulation: int) -> dict[str, Any]:
    """The parameters after some steps of a plain model, and of one inside DDP with a thread that communicates."""
    reduce = through_group()
    options: dict[str, Any] = {
        "rank": 3,
        "threshold_bytes": 8000,
        "min_compression": 0.0,
        "accumulation": accumulation,
    }
    plain = Net()
    sgd = torch.optim.SGD(plain.parameters(), lr=0.1)
    alone = _train(rank, plain, AcpSgd(plain, sgd, reduce, **options), accumulation, unused)
    thread = CommThread("test")
    ddp = DistributedDataParallel(
        Net(), gradient_as_bucket_view=view, find_unused_parameters=unused, bucket_cap_mb=0.005
    )
    ddp.register_comm_hook(None, local_hook)
    sgd = torch.optim.SGD(ddp.parameters(), lr=0.1)
    inside = _train(rank, ddp, AcpSgd(ddp, sgd, reduce, submit=thread.submit, **options), accumulation, unused)
    thread.close()
    return {"plain": alone, "ddp": inside}
