# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Systems by name, over an ordinary process group: no switch and no aggregator.

python examples/systems_over_group.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import loopback
import sumwire
import torch
from torch import nn

SYSTEMS: dict[str, dict[str, Any]] = {
    "ssgd": {},
    "thc": {},
    "topk": {"k": 0.01},
    "acp": {"rank": 2},
    "marsit-ring": {},
}


def train(rank: int, name: str, options: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    """The last loss and the statistics of one system."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 1))
    system = sumwire.systems.make(name, **options)
    optimizer = system.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    torch.manual_seed(100 + rank)
    for _ in range(20):
        inputs = torch.randn(64, 32)
        loss = nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True) / 4)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    stats = dict(system.stats)
    system.close()
    return loss.item(), stats


def work(rank: int, job_file: Path) -> None:
    for name, options in SYSTEMS.items():
        loss, stats = train(rank, name, options)
        loopback.say(rank, f"{name:12} loss {loss:.3f}, {stats['payload_bytes']:8.0f} bytes handed to collectives")


if __name__ == "__main__":
    loopback.run(work, ranks=2)
