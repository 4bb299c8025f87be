# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Calls of torch.distributed on tensors of a device, by the backend "sumwire".

gloo, which several ranks on one GPU need, has no coalescing and no point-to-point calls for GPUs, and the functional
all-gather of torch over it ends the process: so these are not called.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, cast
from unittest import mock

import sumwire
import torch
import torch.distributed as dist
from helpers.device.common import LENGTH, Net, alone, batch, flat_gradient
from helpers.device.sharded import whole_gradient
from sumwire.backend.jobs import Options
from torch import Tensor
from torch.distributed import _functional_collectives as functional
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

EXACT_BELOW = 64


@contextlib.contextmanager
def default_group(rank: int, backend: str, folder: str, *, nccl: bool) -> Iterator[None]:
    """Another default group of the ranks, for a while. Without ``nccl`` torch is told that it has none: several ranks
    on one GPU cannot use it."""
    ranks = dist.get_world_size()
    dist.destroy_process_group()

    def begin(backend: str, name: str) -> None:
        dist.init_process_group(
            backend, init_method=f"file://{folder}/{name}", rank=rank, world_size=ranks, timeout=timedelta(seconds=30)
        )

    having = contextlib.nullcontext() if nccl else mock.patch.object(dist, "is_nccl_available", lambda: False)
    try:
        with having:
            begin(backend, "other")
            yield
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
        begin("gloo", "again")


def wrong(rank: int, device: str, mapping: dict[str, Any], folder: str, backend: str, nccl: bool) -> dict[str, Any]:
    """Calls whose results are further from the exact ones than they may be; and how many went through the network."""
    path = Path(folder, f"job{rank}.json")
    path.write_text(json.dumps(mapping))
    found = []
    with default_group(rank, backend, folder, nccl=nccl):
        sumwire.backend.use(str(path))
        calls = Calls(rank, device)
        for name, most, call in calls.all():
            calls.choose("4bit")
            ours, exact = call()
            error = _error(ours.detach().cpu().double(), exact.double())
            if error > most or ours.device.type != device:
                found.append(f"{name}: {error} on {ours.device}")
        job = calls.group.job
        used = 0 if job is None else int(job.stats.operations - job.stats.group_operations)
        sumwire.backend.use(None)
    return {"wrong": found, "used": used}


def _error(ours: Tensor, exact: Tensor) -> float:
    return float((ours - exact).square().sum() / exact.square().sum().clamp(min=1e-30))


Call = Callable[[], tuple[Tensor, Tensor]]


class Calls:
    """Each returns what a rank got, and what exact sums would be."""

    def __init__(self, rank: int, device: str) -> None:
        self.rank, self.device = rank, device
        self.ranks = dist.get_world_size()
        self.group: Any = dist.group.WORLD

    def all(self) -> Iterator[tuple[str, float, Call]]:
        """(name, largest squared error over the square, call)"""
        sums: list[tuple[str, Any, Callable[[Tensor], Tensor]]] = [
            ("sum", dist.ReduceOp.SUM, lambda each: each.sum(0)),
            ("avg", dist.ReduceOp.AVG, lambda each: each.mean(0)),
        ]
        lost = {"4bit": 0.03, "8bit": 2e-3, "1bit": 100.0, "exact": 1e-4}
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            for precision, most in lost.items():
                # gloo has no mean.
                for name, op, of_all in sums[: 1 if precision == "exact" else 2]:
                    yield f"{name} {dtype} {precision}", most, self._reduced(op, of_all, dtype, precision)
        yield "integers", 0.0, self._reduced(dist.ReduceOp.SUM, lambda each: each.sum(0), torch.int32, "4bit")
        yield "largest", 0.0, self._reduced(dist.ReduceOp.MAX, lambda each: each.amax(0), torch.float32, "4bit")
        yield "smallest", 0.0, self._reduced(dist.ReduceOp.MIN, lambda each: each.amin(0), torch.int32, "4bit")
        lossy: tuple[Call, ...] = (
            self.asynchronous, self.on_a_side_stream, self.coalesced, self.functional, self.reduce, self.reduce_scatter,
            self.ddp, self.ddp_by_default, self.fsdp2,
        )  # fmt: skip
        for call in lossy:
            yield call.__name__, 0.03, call
        beneath: tuple[Call, ...] = (self.all_gather, self.all_gather_list, self.broadcast, self.barrier, self.objects)
        for call in beneath:
            yield call.__name__, 0.0, call

    def choose(self, precision: str | None) -> None:
        if hasattr(self.group, "_choice"):
            self.group._choice = Options(precision=cast(Any, precision), exact_below=EXACT_BELOW)

    def of(self, rank: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
        x = torch.randn(LENGTH, generator=torch.Generator().manual_seed(100 * seed + rank))
        return x.to(dtype) if dtype.is_floating_point else (1000 * x).to(dtype)

    def mine(self, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
        return self.of(self.rank, seed, dtype).to(self.device)

    def everyone(self, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.stack([self.of(rank, seed, dtype) for rank in range(self.ranks)])

    def _reduced(self, op: Any, of_all: Callable[[Tensor], Tensor], dtype: torch.dtype, precision: str) -> Call:
        def call() -> tuple[Tensor, Tensor]:
            self.choose(precision)
            x = self.mine(dtype=dtype)
            dist.all_reduce(x, op)
            return x, of_all(self.everyone(dtype=dtype).double())

        return call

    def _three(self) -> Tensor:
        return torch.cat([self.everyone(seed).sum(0) for seed in range(3)])

    def asynchronous(self) -> tuple[Tensor, Tensor]:
        """Awaited backwards, one of them by its future."""
        tensors = [self.mine(seed) for seed in range(3)]
        works: list[Any] = [dist.all_reduce(x, async_op=True) for x in tensors]
        works[2].wait()
        works[1].get_future().wait()
        works[0].wait()
        return torch.cat(tensors), self._three()

    def on_a_side_stream(self) -> tuple[Tensor, Tensor]:
        """Filled and read on another stream, after much other work there."""
        if self.device == "cpu":
            return self.asynchronous()
        x, busy, side = self.mine(), torch.randn(2048, 2048, device=self.device), torch.cuda.Stream()
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            y = torch.zeros_like(x)
            for _ in range(50):
                busy = torch.tanh(busy @ busy)
            y.add_(x).add_(0 * busy[0, 0])
            work: Any = dist.all_reduce(y, async_op=True)
            work.wait()
            z = y + 0
        side.synchronize()
        return z, self.everyone().sum(0)

    def coalesced(self) -> tuple[Tensor, Tensor]:
        tensors = [self.mine(seed) for seed in range(3)]
        with dist.distributed_c10d._coalescing_manager(group=None, device=torch.device(self.device)):
            for x in tensors:
                dist.all_reduce(x)
        return torch.cat(tensors), self._three()

    def functional(self) -> tuple[Tensor, Tensor]:
        return functional.all_reduce(self.mine(), "sum", self.group) + 0, self.everyone().sum(0)

    def reduce(self) -> tuple[Tensor, Tensor]:
        x = self.mine()
        dist.reduce(x, 0)
        return x, self.everyone().sum(0) if self.rank == 0 else self.of(self.rank)

    def reduce_scatter(self) -> tuple[Tensor, Tensor]:
        out = torch.empty(LENGTH // self.ranks, device=self.device)
        dist.reduce_scatter_tensor(out, self.mine())
        return out, self.everyone().sum(0).chunk(self.ranks)[self.rank]

    def ddp(self) -> tuple[Tensor, Tensor]:
        model = DistributedDataParallel(Net().to(self.device), bucket_cap_mb=0.1)
        x, y = batch(self.rank, 0, self.device)
        (model(x) - y).square().mean().backward()
        return flat_gradient(model), self._gradient()

    def ddp_by_default(self) -> tuple[Tensor, Tensor]:
        """Known to be a gradient: on a GPU the call comes from a thread that runs no Python."""
        self.choose(None)
        before = self.group.job.stats.operations
        found = self.ddp()
        assert self.group.job.stats.operations > before
        return found

    def fsdp2(self) -> tuple[Tensor, Tensor]:
        model = Net().to(self.device)
        fully_shard(model, mesh=DeviceMesh.from_group(self.group, self.device))
        x, y = batch(self.rank, 0, self.device)
        (model(x) - y).square().mean().backward()
        return whole_gradient(model).to(self.device), self._gradient()

    def _gradient(self) -> Tensor:
        return torch.stack([alone(rank) for rank in range(self.ranks)]).mean(0)

    def all_gather(self) -> tuple[Tensor, Tensor]:
        out = torch.empty(self.ranks * LENGTH, device=self.device)
        dist.all_gather_into_tensor(out, self.mine())
        return out, self.everyone().reshape(-1)

    def all_gather_list(self) -> tuple[Tensor, Tensor]:
        out = [torch.empty(LENGTH, device=self.device) for _ in range(self.ranks)]
        dist.all_gather(out, self.mine())
        return torch.cat(out), self.everyone().reshape(-1)

    def broadcast(self) -> tuple[Tensor, Tensor]:
        x = self.mine()
        dist.broadcast(x, 0)
        return x, self.of(0)

    def barrier(self) -> tuple[Tensor, Tensor]:
        dist.barrier()
        return torch.ones(1, device=self.device), torch.ones(1)

    def objects(self) -> tuple[Tensor, Tensor]:
        told: list[Any] = [None] * self.ranks
        dist.all_gather_object(told, self.rank)
        return torch.tensor(told, device=self.device), torch.arange(self.ranks)
