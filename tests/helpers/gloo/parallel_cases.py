# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Trainings that torch parallelises, on the ranks' default group "sumwire" and beside it by gloo.

Each function runs on every rank and returns plain data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from helpers.gloo.backend_cases import choose, gloo, operations
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

STEPS = 3
WIDTH = 64
NODES = 2


def net() -> nn.Sequential:
    """Equal on all ranks."""
    torch.manual_seed(4)
    return nn.Sequential(
        nn.Linear(WIDTH, 2 * WIDTH), nn.Tanh(), nn.Linear(2 * WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 8)
    )


def batch(rank: int, step: int) -> Tensor:
    return torch.randn(16, WIDTH, generator=torch.Generator().manual_seed(100 * step + rank))


def mesh_of(group: Any) -> DeviceMesh:
    return DeviceMesh.from_group(dist.group.WORLD if group is None else group, "cpu")


def whole(x: Tensor) -> Tensor:
    return x.full_tensor() if isinstance(x, DTensor) else x


def flat(model: nn.Module) -> Tensor:
    return torch.cat([whole(p.detach()).reshape(-1) for p in model.parameters()])


def train(model: nn.Module, rank: int, optimizer: torch.optim.Optimizer | None = None, steps: int = STEPS) -> Tensor:
    """Parameters less those at the start, as one tensor."""
    before = flat(model)
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        model(batch(rank, step)).square().mean().backward()
        optimizer.step()
    return flat(model) - before


def _ddp(rank: int, group: Any) -> Tensor:
    return train(DistributedDataParallel(net(), process_group=group), rank)


def _zero(rank: int, group: Any) -> Tensor:
    model = DistributedDataParallel(net(), process_group=group)
    sharded = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, process_group=group, lr=0.1)
    return train(model, rank, sharded)


def _sharded(rank: int, group: Any, **options: Any) -> nn.Module:
    model = net()
    mesh = mesh_of(group)
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def _fsdp2(rank: int, group: Any) -> Tensor:
    return train(_sharded(rank, group), rank)


def _ddp_unused(rank: int, group: Any) -> Tensor:
    """A bucket none of whose parameters is used is summed before the backward pass."""
    model = net().append(Ignoring())
    options: dict[str, Any] = {"find_unused_parameters": True, "bucket_cap_mb": 0.001}
    return train(DistributedDataParallel(model, process_group=group, **options), rank)


class Ignoring(nn.Module):
    """Has a layer, and leaves it out."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 4 * WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x


def _ddp_static(rank: int, group: Any) -> Tensor:
    return train(DistributedDataParallel(net(), process_group=group, static_graph=True), rank)


def _ddp_hook(rank: int, group: Any) -> Tensor:
    """DDP's own, which Python makes the calls of."""
    model = DistributedDataParallel(net(), process_group=group)
    model.register_comm_hook(group, default_hooks.allreduce_hook)
    return train(model, rank)


def _ddp_own_hook(rank: int, group: Any) -> Tensor:
    """A user's, whose call is the user's own."""
    model = DistributedDataParallel(net(), process_group=group)
    call: Any = dist.all_reduce
    # DDP reads annotations, and takes none that are text: a lambda has none.
    model.register_comm_hook(
        dist.get_world_size(),
        lambda ranks, bucket: (
            call(bucket.buffer().div_(ranks), group=group, async_op=True).get_future().then(lambda x: x.value()[0])
        ),
    )
    return train(model, rank)


def _ddp_compiled(rank: int, group: Any) -> Tensor:
    """Without the compiler, which takes minutes."""
    torch.compiler.reset()
    model: Any = torch.compile(DistributedDataParallel(net(), process_group=group), backend="eager")
    return train(model, rank)


def _ddp_joined(rank: int, group: Any) -> Tensor:
    """The last rank has no samples in the last step."""
    model = DistributedDataParallel(net(), process_group=group)
    with model.join():
        return train(model, rank, steps=STEPS - (rank == dist.get_world_size() - 1))


def _fsdp1(rank: int, group: Any) -> Tensor:
    return train(FullyShardedDataParallel(net(), process_group=group, device_id=torch.device("cpu")), rank)


def _tensor_parallel(rank: int, group: Any) -> Tensor:
    """All ranks have the same samples, and shards of the layers: sums of activations and of their gradients."""
    plan: Any = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    return train(parallelize_module(net(), mesh_of(group), plan), 0)


def _pipeline(rank: int, group: Any) -> Tensor:
    """A stage on each rank. The gradients of this rank's stage."""
    ranks = dist.get_world_size()
    torch.manual_seed(rank)
    layer = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())
    stage = PipelineStage(layer, rank, ranks, torch.device("cpu"), group=group)
    schedule = ScheduleGPipe(stage, 2, loss_fn=lambda out, want: (out - want).square().mean())
    if rank == 0:
        schedule.step(batch(0, 0))
    else:
        schedule.step(target=batch(0, 1) if rank == ranks - 1 else None)
    return torch.cat([p.grad.reshape(-1) for p in layer.parameters() if p.grad is not None])


TRAININGS: dict[str, Callable[[int, Any], Tensor]] = {
    "ddp": _ddp,
    "zero": _zero,
    "ddp unused": _ddp_unused,
    "ddp static": _ddp_static,
    "ddp hook": _ddp_hook,
    "ddp own hook": _ddp_own_hook,
    "ddp compiled": _ddp_compiled,
    "ddp joined": _ddp_joined,
    "fsdp1": _fsdp1,
    "fsdp2": _fsdp2,
    "tensor parallel": _tensor_parallel,
    "pipeline": _pipeline,
}


def built_in_hook(rank: int) -> str:
    """What DDP's own hook for float16 ends with."""
    choose(None)
    model = DistributedDataParallel(net())
    model._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)
    try:
        model(batch(rank, 0)).sum().backward()
    except Exception as error:  # noqa: BLE001 - the test looks at it
        return f"{type(error).__name__}: {error}"
    return ""


def hook_of_ddp(rank: int) -> str:
    """What the hook of DDP says to FSDP1's calls."""
    from sumwire.errors import UsageError
    from sumwire.training.ddp import ddp_hook

    call: Any = ddp_hook
    try:
        call(None, torch.ones(4), torch.ones(2))
    except UsageError as error:
        return str(error)
    return ""


def trained(rank: int, name: str, precision: str | None) -> dict[str, Any]:
    """Both ways: whether the results have equal bits, and their distance."""
    choose(precision)
    exact = gloo()
    before = operations()
    ours = TRAININGS[name](rank, None)
    used = operations() - before
    theirs = TRAININGS[name](rank, exact)
    error = float((ours - theirs).square().sum() / theirs.square().sum())
    return {"equal": torch.equal(ours, theirs), "error": error, "used": used, "moved": float(theirs.abs().sum())}


# DeviceMesh keeps its groups as long as the default group is there.
_meshes: list[DeviceMesh] = []


def hybrid(rank: int, precision: str | None) -> dict[str, Any]:
    """FSDP2 over a mesh of nodes and ranks a node: shards within the node, replicas over the network."""
    choose(precision)
    if not _meshes:
        shape = (NODES, dist.get_world_size() // NODES)
        _meshes.append(init_device_mesh("cpu", shape, mesh_dim_names=("replicate", "shard")))
    mesh = _meshes[0]
    group: Any = mesh.get_group("replicate")
    shards: Any = mesh.get_group("shard")
    group._choice = dist.group.WORLD._choice  # type: ignore[union-attr]
    model = net()
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    ours = train(fully_shard(model, mesh=mesh), rank)
    theirs = _ddp(rank, gloo())
    job = group.job
    return {
        "error": float((ours - theirs).square().sum() / theirs.square().sum()),
        "lane": None if job is None else job.config.job,
        "worker": None if job is None else job.config.worker,
        "operations": 0 if job is None else job.stats.operations,
        "shards beneath": shards.job is None,
        "world beneath": dist.group.WORLD.job is None,  # type: ignore[union-attr]
    }
