# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Final losses of a character transformer after the same outer steps, uncompressed and at 4 and 1 bits.

All ranks are processes of this machine, with addresses on loopback, and a software aggregator.

    python -m sumwire_lab.experiments.outer_loss STEPS SEED...
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Final

import sumwire
import torch
import torch.distributed as dist
from sumwire.optim import Outer
from sumwire.training.node import AnyJob
from sumwire.training.precision import Precision
from torch import nn

from sumwire_lab.experiments.loopback_ranks import on_loopback
from sumwire_lab.training import text_data

RANKS: Final = 4
EVERY: Final = 20
PRECISIONS: Final[tuple[Precision, ...]] = ("exact", "4bit", "1bit")
_OPS: Final = ("thc", "max32", "sum32", "sign")
_WIDTH: Final = 64
_BATCH: Final = 8
_LR: Final = 2e-3


def trained(job: AnyJob, precision: Precision, seed: int, steps: int) -> float:
    """Mean loss of a character on the held-out text after local and outer steps; equal on all ranks."""
    data = text_data.load()
    torch.manual_seed(seed)
    model = text_data.Transformer(_WIDTH)
    inner = torch.optim.AdamW(model.parameters(), lr=_LR)
    outer = Outer(inner, job, every=EVERY, precision=precision)
    draws = torch.Generator().manual_seed(1000 * seed + dist.get_rank())
    for _ in range(steps):
        chosen = torch.randint(len(data.train_x), (_BATCH,), generator=draws)
        outer.zero_grad()
        _loss(model, data.train_x[chosen], data.train_y[chosen]).backward()  # type: ignore[no-untyped-call]
        outer.step()
    with torch.no_grad():
        return float(_loss(model, data.test_x, data.test_y))


def _loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())


def losses(steps: int, seeds: Sequence[int]) -> dict[str, list[float]]:
    """Final losses by precision, in the seeds' order."""

    def work(job: sumwire.Job) -> dict[str, list[float]]:
        return {name: [trained(job, name, seed, steps) for seed in seeds] for name in PRECISIONS}

    return on_loopback(RANKS, work, ops=_OPS)[0]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(losses(int(sys.argv[1]), [*map(int, sys.argv[2:])])) + "\n")
