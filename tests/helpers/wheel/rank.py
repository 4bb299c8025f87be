# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One of four ranks: reduces a tensor with the job's other workers, and checks it against gloo. A program of its own.

Usage: rank.py JOB.json RANK STORE
"""

from __future__ import annotations

import sys
from pathlib import Path

import sumwire
import torch
import torch.distributed as dist

LENGTH = 5000
WORKERS = 4


def main(job_file: str, rank: int, store: Path) -> None:
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=WORKERS)
    values = torch.randn(LENGTH, generator=torch.Generator().manual_seed(rank))
    expected = values.clone()
    dist.all_reduce(expected)
    expected /= WORKERS
    with sumwire.Job(sumwire.load_job(job_file, worker=rank), fallback="never") as job:
        mean = sumwire.all_reduce(values, job)
    every = [torch.empty_like(mean) for _ in range(WORKERS)]
    dist.all_gather(every, mean)
    assert all(torch.equal(mean, other) for other in every), "the workers have different means"
    error = float((mean - expected).square().sum() / expected.square().sum())
    assert 0 < error < 0.05, f"normalized squared error {error}"
    dist.destroy_process_group()
    sys.stdout.write(f"rank {rank}: normalized squared error {error:.4f}\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
