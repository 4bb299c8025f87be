# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The mean of a tensor over four ranks: THC through the software aggregator.

python examples/all_reduce.py
"""

from __future__ import annotations

from pathlib import Path

import loopback
import sumwire
import torch

RANKS = 4


def tensor_of(rank: int) -> torch.Tensor:
    """Every rank's own tensor."""
    return torch.randn(100_000, generator=torch.Generator().manual_seed(rank))


def work(rank: int, job_file: Path) -> None:
    config = sumwire.load_job(job_file, worker=rank)
    with sumwire.Job(config) as job:
        tensor = tensor_of(rank)
        sumwire.all_reduce(tensor, job)

    true_mean = torch.stack([tensor_of(other) for other in range(RANKS)]).mean(0)
    error = float((tensor - true_mean).square().sum() / true_mean.square().sum())
    assert error < 0.03
    loopback.say(rank, f"error of the mean (NMSE): {error:.4f}, with 4 bits a value up and 8 down")


if __name__ == "__main__":
    loopback.run(work, ranks=RANKS, ops=["thc", "max32"])
