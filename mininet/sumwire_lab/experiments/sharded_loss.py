# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Final losses of a character transformer by FSDP2 over all ranks: by gloo, through the network, and there with
parameters gathered with 8 bits.

All ranks are processes of this machine, with addresses on loopback, and a software aggregator.

    python -m sumwire_lab.experiments.sharded_loss STEPS SEED...
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any, Final

import sumwire
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

from sumwire_lab.experiments.loopback_ranks import on_loopback
from sumwire_lab.training import text_data, workload

RANKS: Final = 4
# How gradients and parameters travel: a name, and what `attach` is told; None for gloo.
WAYS: Final[dict[str, dict[str, Any] | None]] = {
    "gloo": None, "4bit": {}, "4bit, parameters 8bit": {"parameters": "8bit"},
}  # fmt: skip
_OPS: Final = ("thc", "max32", "sum32")
_WIDTH: Final = 64
_BATCH: Final = 8
_LR: Final = 2e-3


def trained(job: sumwire.Job, options: dict[str, Any] | None, seed: int, steps: int) -> float:
    """Mean loss of a character on the held-out text, computed with the parameters as they are gathered."""
    data = text_data.load()
    torch.manual_seed(seed)
    model: Any = text_data.Transformer(_WIDTH)
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    if options is not None:
        sumwire.sharded.attach(model, job, **options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=_LR)
    draws = torch.Generator().manual_seed(1000 * seed + dist.get_rank())
    for _ in range(steps):
        chosen = torch.randint(len(data.train_x), (_BATCH,), generator=draws)
        optimizer.zero_grad()
        workload.loss(model, data.train_x[chosen], data.train_y[chosen]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    with torch.no_grad():
        return float(workload.loss(model, data.test_x, data.test_y))


def losses(steps: int, seeds: Sequence[int]) -> dict[str, list[float]]:
    """Final losses by way, in the seeds' order."""

    def work(job: sumwire.Job) -> dict[str, list[float]]:
        return {name: [trained(job, options, seed, steps) for seed in seeds] for name, options in WAYS.items()}

    return on_loopback(RANKS, work, ops=_OPS)[0]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(losses(int(sys.argv[1]), [*map(int, sys.argv[2:])])) + "\n")
