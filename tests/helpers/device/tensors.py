# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire.all_reduce` of tensors on a device. Each function runs on every rank and returns plain data."""

from __future__ import annotations

import os
from typing import Any, cast
from unittest import mock

import sumwire
import torch
import torch.distributed as dist
from helpers.device.common import LENGTH, STEPS, digest, opened
from sumwire.native import SWITCH

# (type, op, precision, how far from the exact result: squared, over its square)
CALLS: list[tuple[torch.dtype, str, str, float]] = [
    *((dtype, op, precision, most)
      for dtype in (torch.float32, torch.float16, torch.bfloat16)
      for op in ("mean", "sum")
      for precision, most in (("4bit", 0.03), ("8bit", 2e-3), ("exact", 1e-4), ("1bit", 100.0))),
    (torch.int32, "sum", "4bit", 0.0),
    (torch.int64, "sum", "4bit", 0.0),
]  # fmt: skip


def error_feedback(rank: int, device: str, options: dict[str, Any], by: str) -> dict[str, Any]:
    """The sum of many means of one gradient comes near the exact one. ``by``: "mixed" leaves other ranks than the first
    on a processor, "torch" without kernels too."""
    if by != "kernels":
        device = device if rank == 0 else "cpu"
        with mock.patch.dict(os.environ, {SWITCH: "0"} if by == "torch" and rank == 0 else {}):
            return _error_feedback(rank, device, options)
    return _error_feedback(rank, device, options)


def _error_feedback(rank: int, device: str, options: dict[str, Any]) -> dict[str, Any]:
    x = torch.randn(LENGTH, generator=torch.Generator().manual_seed(rank)).to(device)
    exact = x.cpu().clone()
    dist.all_reduce(exact)
    total, digests = torch.zeros(LENGTH, device=device), []
    with opened(options) as job:
        for _ in range(STEPS):
            mean = sumwire.all_reduce(x.clone(), job, feedback="x")
            total += mean
            digests.append(digest([mean]))
    error = (total.cpu() / STEPS - exact / dist.get_world_size()).square().sum() / exact.square().sum()
    return {"error": float(error), "digests": digests}


def one_tensor(rank: int, device: str, options: dict[str, Any], through: str) -> dict[str, Any]:
    """What is further from the exact result than it may be, and a digest of all results."""
    wrong: list[str] = []
    results = []
    with opened(options, through=through) as job:
        for dtype, op, precision, most in CALLS:
            for length in (1000, LENGTH, 300_000):
                x = torch.randn(length, generator=torch.Generator().manual_seed(rank))
                x = x.to(dtype) if dtype.is_floating_point else (1000 * x).to(dtype)
                exact = x.double()
                dist.all_reduce(exact)
                exact = exact if op == "sum" else exact / dist.get_world_size()
                found = sumwire.all_reduce(x.to(device), job, op=cast(Any, op), precision=cast(Any, precision))
                results.append(found)
                error = float((found.cpu().double() - exact).square().sum() / exact.square().sum())
                if error > most or found.device.type != device:
                    wrong.append(f"{op} of {length} {dtype} at {precision}: {error} on {found.device}")
        sign = torch.randn(LENGTH, generator=torch.Generator().manual_seed(rank)).to(device)
        results.append(sumwire.all_reduce(sign, job, op="sign"))
        spoiled = torch.ones(LENGTH, device=device)
        spoiled[5] = torch.nan if rank else 1.0
        nan = bool(sumwire.all_reduce(spoiled, job)[5].isnan())
    return {"wrong": wrong, "digest": digest(results), "nan": nan}
