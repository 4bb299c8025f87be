# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""HuggingFace accelerate: `prepare` returns DistributedDataParallel, so the three lines are those of any script.

python examples/accelerate_ddp.py
"""

from __future__ import annotations

import loopback
import sumwire
import torch
from accelerate import Accelerator
from torch import nn


def main() -> None:
    """Train on the ranks that torchrun has started."""
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(1)
    plain = nn.Sequential(nn.Linear(32, 256), nn.Tanh(), nn.Linear(256, 1))
    model, optimizer = accelerator.prepare(plain, torch.optim.SGD(plain.parameters(), lr=0.1))

    job = sumwire.init(aggregator="rank0", address=loopback.address())
    model.register_comm_hook(sumwire.DdpState(job), sumwire.ddp_hook)

    torch.manual_seed(100 + accelerator.process_index)  # each rank has its own samples
    for step in range(20):
        inputs = torch.randn(64, 32)
        loss = nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True) / 4)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        if step % 5 == 4:
            loopback.say(accelerator.process_index, f"step {step + 1}: loss {loss.item():.3f}")

    mine = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    everyone = accelerator.gather(mine).view(accelerator.num_processes, -1)
    assert bool((everyone == mine).all()), "all ranks have the same parameters, bit by bit"
    sent = job.stats.packets_sent
    loopback.say(accelerator.process_index, f"{sent} packets sent by this rank; parameters are equal on all ranks")
    job.close()
    accelerator.end_training()


if __name__ == "__main__":
    loopback.under_torchrun(__file__, main, ranks=2)
