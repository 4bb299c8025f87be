# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""FSDP2 and FSDP1 on a device. Each function runs on every rank and returns plain data."""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.distributed as dist
from helpers.device.common import STEPS, Net, alone, batch, flat_gradient, opened
from sumwire.sharded import attach
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, ShardingStrategy, fully_shard


def sharded(rank: int, device: str, options: dict[str, Any], kind: str, nodes: int = 1) -> dict[str, Any]:
    """The sum of one gradient's means, again and again: how far it is from the exact one."""
    ranks = dist.get_world_size()
    with opened(options) as job:
        model = _fsdp1(device, kind) if kind in ShardingStrategy.__members__ else _fsdp2(device, kind, nodes)
        attach(model, job)
        total: Any = 0.0
        for _ in range(STEPS):
            model.zero_grad()
            x, y = batch(rank, 0, device)
            (model(x) - y).square().mean().backward()
            total = total + whole_gradient(model).cpu()
        torch.optim.SGD(model.parameters(), lr=0.1).step()
        operations = job.stats.operations
    exact = torch.stack([alone(one) for one in range(ranks)]).mean(0)
    error = float((total / STEPS - exact).square().sum() / exact.square().sum())
    return {"error": error, "operations": operations}


def _fsdp1(device: str, strategy: str) -> nn.Module:
    return FullyShardedDataParallel(
        Net(),
        device_id=torch.device(device, 0) if device == "cuda" else torch.device(device),
        sharding_strategy=ShardingStrategy[strategy],
        use_orig_params=True,
    )


def _fsdp2(device: str, kind: str, nodes: int) -> nn.Module:
    shape = (nodes, dist.get_world_size() // nodes)
    mesh = init_device_mesh(device, shape, mesh_dim_names=("replicate", "shard"))["shard"]
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    more: dict[str, Any] = {"mp_policy": policy} if kind == "mixed" else {}
    model = Net().to(device)
    for layer in (model.first, model.spare):
        fully_shard(layer, mesh=mesh, **more)
    fully_shard(model, mesh=mesh, **more)
    return model


def whole_gradient(model: nn.Module) -> Tensor:
    if isinstance(model, FullyShardedDataParallel):
        with FullyShardedDataParallel.summon_full_params(model, with_grads=True):
            return flat_gradient(model).clone()
    return torch.cat([_gathered(cast(Any, p.grad)).reshape(-1).float() for p in model.parameters()])


def _gathered(sharded: Any) -> Tensor:
    """Of all shards, on a processor: torch's own way ends the process where gloo gathers tensors of a GPU."""
    mesh, own = sharded.device_mesh, sharded.to_local().cpu()
    if mesh.size() == 1:
        return cast(Tensor, own)
    rows = -(-len(sharded) // mesh.size())
    filled = own.new_zeros((rows, *own.shape[1:]))
    filled[: len(own)] = own
    shards = [torch.empty_like(filled) for _ in range(mesh.size())]
    dist.all_gather(shards, filled, group=mesh.get_group())
    return torch.cat(shards)[: len(sharded)]
