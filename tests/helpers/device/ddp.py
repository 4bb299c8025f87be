# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel with the hook, on a device. Each function runs on every rank and returns plain data."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import sumwire
import torch
import torch.distributed as dist
from helpers.device.common import STEPS, Net, batch, digest, flat_gradient, opened
from helpers.transport.udp_bridge import SILENCE_S
from sumwire.codec.sum32 import Sum32Codec
from sumwire.config import parse_job
from sumwire.job.job import Job
from sumwire.training.hierarchical import AnyJob
from sumwire.training.reductions import through_job
from torch import nn
from torch.nn.parallel import DistributedDataParallel

# Of the loss, with a GradScaler: the first steps overflow.
SCALE = 2.0**20


def ddp(rank: int, device: str, options: dict[str, Any], variant: str) -> dict[str, Any]:
    """Trains with the hook, and in the same way without it: losses of both, and the replica's digest."""
    with opened(options) as job:
        ours = trained(rank, device, WAYS[variant], job)
        fallbacks = job.stats.fallbacks
    exact = trained(rank, device, WAYS[variant], None)
    return {**ours, "exact": exact["losses"], "fallbacks": fallbacks}


@dataclass(frozen=True)
class Way:
    """How a model is trained. ``half``: the type of autocast; ``model``: that of the parameters; ``ddp``: options."""

    half: torch.dtype | None = None
    model: torch.dtype = torch.float32
    scaled: bool = False
    rounds: int = 1
    clipped: bool = False
    spare_always: bool = True
    side_stream: bool = False
    compiled: Literal["within", "around"] | None = None
    ddp: Mapping[str, Any] = field(default_factory=lambda: {"bucket_cap_mb": 0.1})


WAYS = {
    "plain": Way(),
    "bfloat16 autocast": Way(half=torch.bfloat16),
    "float16 scaler": Way(half=torch.float16, scaled=True),
    "bfloat16 model": Way(model=torch.bfloat16),
    "accumulation": Way(rounds=2),
    "clipping": Way(clipped=True),
    "unused": Way(spare_always=False, ddp={"bucket_cap_mb": 0.1, "find_unused_parameters": True}),
    "side stream": Way(side_stream=True),
    "bucket view": Way(ddp={"bucket_cap_mb": 0.1, "gradient_as_bucket_view": True}),
    "static graph": Way(ddp={"bucket_cap_mb": 0.1, "static_graph": True}),
    # Dynamo takes no buckets that are smaller than DDP's first.
    "compiled": Way(compiled="within", ddp={}),
    "compiled with DDP": Way(compiled="around", ddp={}),
}


def trained(rank: int, device: str, way: Way, job: AnyJob | None) -> dict[str, Any]:
    """Losses, and the digest of the replica. Without ``job`` DDP reduces by itself."""
    plain = Net().to(device, way.model)
    made = cast(nn.Module, torch.compile(plain)) if way.compiled == "within" else plain
    model = DistributedDataParallel(made, **way.ddp)
    scaler = torch.amp.GradScaler(device, init_scale=SCALE, enabled=way.scaled)
    if job is not None:
        state = sumwire.DdpState(job, model=model, scaler=scaler if way.scaled else None)
        model.register_comm_hook(state, sumwire.ddp_hook)
    called = cast(DistributedDataParallel, torch.compile(model)) if way.compiled == "around" else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    side = torch.cuda.Stream() if way.side_stream and device == "cuda" else None
    if side is not None:
        side.wait_stream(torch.cuda.current_stream())
    losses = []
    with contextlib.nullcontext() if side is None else torch.cuda.stream(side):
        for step in range(STEPS):
            optimizer.zero_grad()
            losses.append(_gradients(called, rank, step, device, way, scaler))
            if way.clipped:
                nn.utils.clip_grad_norm_(model.parameters(), 0.05)
            scaler.step(optimizer)
            scaler.update()
        finite = all(bool(torch.isfinite(p).all()) for p in plain.parameters())
        return {"losses": losses, "digest": digest(plain.parameters()), "scale": scaler.get_scale(), "finite": finite}


def _gradients(
    model: DistributedDataParallel, rank: int, step: int, device: str, way: Way, scaler: torch.amp.GradScaler
) -> float:
    """Makes the gradients of one step, and returns its loss."""
    losses = []
    for number in range(way.rounds):
        x, y = (each.to(way.model) for each in batch(rank, way.rounds * step + number, device))
        apart = model.no_sync() if number + 1 < way.rounds else contextlib.nullcontext()
        casting = contextlib.nullcontext() if way.half is None else torch.autocast(device, way.half)
        with apart:
            with casting:
                loss = (model(x, way.spare_always or step % 2 == 0) - y).square().mean()
            scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        losses.append(float(loss.detach()))
    return sum(losses) / len(losses)


def whole_buckets(rank: int, device: str, options: dict[str, Any], side_stream: bool, size: int) -> dict[str, Any]:
    """Gradients of a large model through exact sums: how far any is from the mean of all ranks' own. A bucket that is
    read before all of it is written has another mean."""

    def make() -> nn.Module:
        torch.manual_seed(3)
        return nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(size, size), nn.Tanh())]).to(device)

    model = DistributedDataParallel(make(), bucket_cap_mb=4 * size * size / 2**20)
    alone = make()
    side = torch.cuda.Stream() if side_stream and device == "cuda" else None
    worst = 0.0
    with opened(options) as job:
        assert isinstance(job, Job)
        codec = Sum32Codec(workers=job.workers)
        state = sumwire.DdpState(job, reduce=through_job(job, codec), error_feedback=False)
        model.register_comm_hook(state, sumwire.ddp_hook)
        for step in range(3):
            model.zero_grad()
            alone.zero_grad()
            x = torch.randn(size, size, generator=torch.Generator().manual_seed(10 * step + rank)).to(device)
            with contextlib.nullcontext() if side is None else torch.cuda.stream(side):
                if side is not None:
                    side.wait_stream(torch.cuda.default_stream())
                model(x).square().sum().backward()
                found = flat_gradient(model).cpu()
            alone(x).square().sum().backward()
            want = flat_gradient(alone).cpu()
            dist.all_reduce(want)
            want /= dist.get_world_size()
            worst = max(worst, float((found - want).abs().max() / want.abs().max()))
    return {"error": worst, "digest": digest([found])}


def goes_on_from_a_state(rank: int, device: str, options: dict[str, Any]) -> dict[str, Any]:
    """Digests of gradients after a checkpoint, by the process that made it and by one that loads it."""

    def steps(state: Any, model: Any, first: int, last: int) -> list[str]:
        found = []
        for step in range(first, last):
            model.zero_grad()
            x, y = batch(rank, step, device)
            (model(x) - y).square().mean().backward()
            found.append(digest([flat_gradient(model)]))
        return found

    def made(job: AnyJob) -> Any:
        model = DistributedDataParallel(Net().to(device), bucket_cap_mb=0.1)
        state = sumwire.DdpState(job, model=model)
        model.register_comm_hook(state, sumwire.ddp_hook)
        return model, state

    with opened(options) as job:
        model, state = made(job)
        steps(state, model, 0, 3)
        file = io.BytesIO()
        torch.save(state.state_dict(), file)
        going_on = steps(state, model, 3, 6)
    with opened(options) as job:
        model, state = made(job)
        file.seek(0)
        state.load_state_dict(torch.load(file, map_location="cpu"))
        loaded = steps(state, model, 3, 6)
    return {"going on": going_on, "loaded": loaded}


def loses_its_aggregator(rank: int, device: str, mapping: dict[str, Any], folder: str) -> dict[str, Any]:
    """The test ends the aggregator when there is a file "begun", and says so by a file "ended"."""
    model = DistributedDataParallel(Net().to(device), bucket_cap_mb=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    losses = []
    with Job(parse_job(mapping, rank), block=1024, silence_s=SILENCE_S) as job:
        model.register_comm_hook(sumwire.DdpState(job), sumwire.ddp_hook)
        for step in range(STEPS):
            if step == STEPS // 2:
                dist.barrier()
                Path(folder, f"begun{rank}").touch()
                while not Path(folder, "ended").exists():
                    time.sleep(0.01)
            optimizer.zero_grad()
            x, y = batch(rank, step, device)
            loss = (model(x) - y).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
        fallbacks, fallen = job.stats.fallbacks, job.fallen_back
    return {"digest": digest(model.parameters()), "losses": losses, "fallbacks": fallbacks, "fallen": fallen}
