# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Nodes of several ranks, systems by name, DLCP and outer steps, on a device. Each function runs on every rank and
returns plain data."""

from __future__ import annotations

import contextlib
import io
from typing import Any, cast

import sumwire
import torch
import torch.distributed as dist
from helpers.device.common import LENGTH, STEPS, Net, batch, digest, opened
from helpers.device.ddp import WAYS, trained
from sumwire import systems
from sumwire.config import parse_job
from sumwire.dlcp.lanes import Lanes
from sumwire.dlcp.sync import EarlySync
from sumwire.job.job import Job
from sumwire.multihop import RingSigns, ScheduleError
from sumwire.transport.options import Delivery
from torch import nn
from torch.nn.parallel import DistributedDataParallel

# The step whose loss is too large for float16.
OVERFLOWS = 3
# What `of_systems` makes systems over a job with.
OVER_A_JOB: dict[str, dict[str, Any]] = {
    "thc": {},
    "thc-unbiased": {},
    "thc-wide": {},
    "sum32": {},
    "vote": {"scale": 0.05},
    "ef-sign": {},
    "ssdm": {"scale": 0.05},
    "marsit": {"full_precision_every": 5},
    "acp": {"rank": 2, "min_compression": 1.0},
    "acp-thc": {"rank": 2, "min_compression": 1.0},
}


def of_nodes(rank: int, device: str, options: dict[str, Any]) -> dict[str, Any]:
    """Ranks that share the worker of their node."""
    with opened(options) as job:
        found = trained(rank, device, WAYS["plain"], job)
        x = torch.full((LENGTH,), float(rank), device=device)
        eight = sumwire.all_reduce(x.clone(), job, precision="8bit")
        total = sumwire.all_reduce(torch.arange(100, device=device) * (rank + 1), job, op="sum")
        kind = type(job).__name__
    mean = (dist.get_world_size() - 1) / 2
    error = float((eight - mean).square().mean().sqrt() / mean)
    return {**found, "kind": kind, "error": error, "total": total.tolist()}


def of_systems(
    rank: int, device: str, names: dict[str, dict[str, Any]], options: dict[str, Any] | None, kind: str
) -> dict[str, Any]:
    """What `_with_system` returns, by the systems' names. ``options``: of a job; None: over the group."""
    with contextlib.nullcontext() if options is None else opened(options) as job:
        carriers = () if job is None else (cast(Job, job),)
        return {
            name: _with_system(rank, device, systems.make(name, *carriers, **settings), STEPS // 2, kind)
            for name, settings in names.items()
        }


def hops(rank: int) -> str:
    """The error of hops in the default group."""
    try:
        RingSigns()
    except ScheduleError as error:
        return str(error)
    return ""


def dlcp(rank: int, device: str, mapping: dict[str, Any], kind: str, early: bool) -> dict[str, Any]:
    """Over lanes, with a loss bound."""
    with Lanes(parse_job(mapping, rank), delivery=Delivery(loss_bound=0.03)) as lanes:
        return _with_system(rank, device, systems.make("dlcp", lanes, early_forward=early), STEPS, kind)


def _with_system(rank: int, device: str, system: systems.System, steps: int, kind: str) -> dict[str, Any]:
    """Digest, losses, and whether the overflow step changed the parameters. ``kind``: "plain"; "ddp"; or "scaled", a
    plain model whose loss overflows on rank 1 in one step, with a GradScaler."""
    plain = Net().to(device)
    options: dict[str, Any] = {"find_unused_parameters": True, "bucket_cap_mb": 0.1}
    model: nn.Module = DistributedDataParallel(plain, **options) if kind == "ddp" else plain
    optimizer = system.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
    scaler = torch.amp.GradScaler(device, init_scale=1024.0, enabled=kind == "scaled")
    losses, changed = [], False
    for step in range(steps):
        before = digest(plain.parameters())
        optimizer.zero_grad()
        x, y = batch(rank, step, device)
        with torch.autocast(device, torch.float16, enabled=kind == "scaled"):
            loss = (model(x, step % 3 == 1) - y).square().mean()
        overflows = kind == "scaled" and step == OVERFLOWS
        scaler.scale(loss * (1e8 if overflows and rank else 1.0)).backward()  # type: ignore[no-untyped-call]
        scaler.step(optimizer)
        scaler.update()
        losses.append(float(loss.detach()))
        changed = changed or (overflows and digest(plain.parameters()) != before)
    if isinstance(optimizer, EarlySync):
        optimizer.finish()
    system.close()
    found = {"digest": digest(plain.parameters()), "losses": losses, "changed": changed, "scale": scaler.get_scale()}
    return found


def outer(rank: int, device: str, options: dict[str, Any], precision: str, overlap: int) -> dict[str, Any]:
    """Outer steps; a state that is saved and loaded; and another job's workers that take over shared parameters."""
    with opened(options) as job:
        model = Net().to(device)

        def made() -> sumwire.optim.Outer:
            inner = torch.optim.AdamW(model.parameters(), lr=0.001)
            return sumwire.optim.Outer(inner, job, every=4, parts=2, overlap=overlap, precision=cast(Any, precision))

        optimizer = made()
        losses = []

        def step(number: int) -> None:
            optimizer.zero_grad()
            x, y = batch(rank, number, device)
            loss = (model(x) - y).square().mean()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(float(loss.detach()))

        for number in range(STEPS):
            step(number)
        file = io.BytesIO()
        torch.save(optimizer.state_dict(), file)
        file.seek(0)
        again = made()
        again.load_state_dict(torch.load(file, map_location="cpu"))
        optimizer = again
        for number in range(STEPS, 2 * STEPS):
            step(number)
        optimizer.settle()
        shared = digest([part.shared for part in optimizer.parts])
        assert isinstance(job, Job)
        optimizer.change(job, source=1)
        optimizer.close()
        return {"shared": shared, "digest": digest(model.parameters()), "losses": losses}
