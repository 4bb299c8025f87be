# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Three lines more than a script of FSDP2: torchrun's ranks, and an aggregator beside rank 0.

python examples/fsdp2.py
"""

from __future__ import annotations

import loopback
import sumwire
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard


def main() -> None:
    """Train on the ranks that torchrun has started; each has a shard of the model."""
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(32, 256), nn.Tanh(), nn.Linear(256, 1))
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    job = sumwire.init(aggregator="rank0", address=loopback.address())  # address: of this test machine's loopback
    sumwire.sharded.attach(model, job)

    torch.manual_seed(100 + dist.get_rank())  # each rank has its own samples
    for step in range(20):
        inputs = torch.randn(64, 32)
        loss = nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True) / 4)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 4:
            loopback.say(dist.get_rank(), f"step {step + 1}: loss {loss.item():.3f}")
    loopback.say(dist.get_rank(), f"{job.stats.packets_sent} packets sent by this rank")
    dist.destroy_process_group()


if __name__ == "__main__":
    loopback.under_torchrun(__file__, main, ranks=2)
