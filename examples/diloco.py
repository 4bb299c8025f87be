# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""DiLoCo: 10 local steps of AdamW, then one exchange at 4 bits a value. For links between data centres.

python examples/diloco.py
"""

from __future__ import annotations

from pathlib import Path

import loopback
import sumwire
import torch
import torch.distributed as dist
from torch import nn


def work(rank: int, job_file: Path) -> None:
    torch.manual_seed(1)  # all ranks begin with the same model
    model = nn.Sequential(nn.Linear(32, 256), nn.Tanh(), nn.Linear(256, 1))
    with sumwire.Job(sumwire.load_job(job_file, worker=rank)) as job:
        inner = torch.optim.AdamW(model.parameters(), lr=3e-3)
        optimizer = sumwire.optim.Outer(inner, job, every=10)
        torch.manual_seed(100 + rank)  # each rank has its own samples
        losses = []
        for _ in range(60):
            inputs = torch.randn(64, 32)
            loss = nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True) / 4)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        sent = job.stats.bytes_sent

    mine = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    first = mine.clone()
    dist.broadcast(first, 0)
    assert torch.equal(mine, first), "all ranks have the same parameters, bit by bit"
    assert losses[-1] < losses[0] / 4
    loopback.say(rank, f"loss {losses[0]:.3f} at first, {losses[-1]:.3f} after {optimizer.exchanges} outer steps")
    loopback.say(rank, f"{sent} bytes sent by this rank; parameters are equal on all ranks")


if __name__ == "__main__":
    loopback.run(work, ranks=2, ops=["thc", "max32"])
