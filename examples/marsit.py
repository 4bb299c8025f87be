# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Marsit: one bit a value up, one bit down. It compresses updates, so it wraps the optimizer of a plain model.

python examples/marsit.py
"""

from __future__ import annotations

from pathlib import Path

import loopback
import sumwire
import torch
from torch import nn


def work(rank: int, job_file: Path) -> None:
    torch.manual_seed(1)
    model = nn.Linear(32, 1)
    config = sumwire.load_job(job_file, worker=rank)
    with sumwire.Job(config) as job:
        inner = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer = sumwire.optim.Marsit(inner, job)
        torch.manual_seed(100 + rank)  # each rank has its own samples
        losses = []
        for _ in range(60):
            inputs = torch.randn(64, 32)
            loss = nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True) / 4)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert losses[-1] < losses[0] / 2
    loopback.say(rank, f"loss {losses[0]:.3f} at first, {losses[-1]:.3f} after {len(losses)} rounds of signs")


if __name__ == "__main__":
    loopback.run(work, ranks=2, ops=["sign", "sum32", "max32"])
