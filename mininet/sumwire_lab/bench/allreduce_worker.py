# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A worker that all-reduces one tensor: `python -m sumwire_lab.bench.allreduce_worker SPEC.json RANK`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import sumwire
import torch
import torch.distributed as dist

from sumwire_lab.bench import worker
from sumwire_lab.bench.worker import Exchange

Reduce = Callable[[torch.Tensor], object]


class AllReduce(Exchange):
    """torch's all-reduce, or Sumwire's with a job. Every repeat gets the same tensor."""

    def __init__(self, reduce: Reduce, rank: int, job: sumwire.Job | None = None) -> None:
        super().__init__(job)
        self._reduce = reduce
        self._rank = rank
        self._tensor = self._work = torch.empty(0)

    def begin(self, size: int) -> None:
        """See Exchange."""
        self._tensor = torch.randn(size, generator=torch.Generator().manual_seed(self._rank))

    def prepare(self) -> None:
        """See Exchange."""
        self._work = self._tensor.clone()

    def exchange(self) -> None:
        """See Exchange."""
        self._reduce(self._work)

    def end(self) -> None:
        """See Exchange."""
        self._tensor = self._work = torch.empty(0)


def make(spec: dict[str, Any], rank: int) -> AllReduce:
    """The all-reduce of the spec's system: gloo without a job, else THC, or that of the systems `sign` and `sum32`.

    `asking` is THC that asks for the norms of small tensors every time. `auto` measures both ways of the spec's sizes,
    and then goes by the faster one; it makes sums, as gloo does.
    """
    if spec["job_file"] is None:
        return AllReduce(dist.all_reduce, rank)
    # Tuning tables of the lab are of no use outside it.
    os.environ["XDG_CACHE_HOME"] = str(Path(spec["results"][rank]).parent)
    job = sumwire.Job(sumwire.load_job(spec["job_file"], worker=rank), one_trip=spec["system"] != "asking")
    if spec["system"] == "auto":
        job.tune(sorted(spec["sizes"]))
    if spec["system"] == "sum32":
        return AllReduce(lambda tensor: tensor.copy_(job.mean(tensor)), rank, job)
    ops: dict[str, Literal["mean", "sum", "sign"]] = {"auto": "sum", "sign": "sign"}
    op = ops.get(spec["system"], "mean")
    return AllReduce(lambda tensor: sumwire.all_reduce(tensor, job, op=op), rank, job)


if __name__ == "__main__":
    worker.run(sys.argv[1:], make)
