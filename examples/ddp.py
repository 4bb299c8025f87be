# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel with Sumwire's hook: the software aggregator sums during the backward pass.

python examples/ddp.py
"""

from __future__ import annotations

from pathlib import Path

import loopback
import sumwire
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def work(rank: int, job_file: Path) -> None:
    torch.manual_seed(1)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 256), nn.Tanh(), nn.Linear(256, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    config = sumwire.load_job(job_file, worker=rank)
    with sumwire.Job(config) as job:
        model.register_comm_hook(sumwire.DdpState(job), sumwire.ddp_hook)
        torch.manual_seed(100 + rank)  # each rank has its own samples
        for step in range(20):
            inputs = torch.randn(64, 32)
            loss = nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True) / 4)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 5 == 4:
                loopback.say(rank, f"step {step + 1}: loss {loss.item():.3f}")
        packets = job.stats.packets_sent

    mine = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    first = mine.clone()
    dist.broadcast(first, 0)
    assert torch.equal(mine, first), "all ranks have the same parameters, bit by bit"
    loopback.say(rank, f"{packets} packets sent by this rank; parameters are equal on all ranks")


if __name__ == "__main__":
    loopback.run(work, ranks=2, ops=["thc", "max32"])
