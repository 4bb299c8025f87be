# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sharded trainings whose gradients go through a job, as one of several ranks on gloo.

Each function runs on every rank and returns plain data. ``nodes`` None: the model is sharded over all ranks. A number:
over the ranks of each of so many nodes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sumwire
import torch
import torch.distributed as dist
from helpers.gloo.parallel_cases import WIDTH, batch, flat, net, whole
from helpers.gloo.state_cases import checkpoints, same
from sumwire.sharded import ShardedState, attach, gather
from sumwire.sharded.state import UnitExchange
from sumwire.training.hierarchical import AnyJob
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, ShardingStrategy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

# Kept from `open_job` to `close_job`.
_open: list[AnyJob] = []
_meshes: dict[int | None, DeviceMesh] = {}


def open_job(rank: int, options: dict[str, Any]) -> str:
    _open.append(sumwire.init(quiet=True, block=1024, **options))
    return type(_open[-1]).__name__


def close_job(rank: int) -> None:
    _open.pop().close()


def mesh_of(nodes: int | None) -> DeviceMesh:
    if nodes not in _meshes:
        ranks = dist.get_world_size()
        both = init_device_mesh("cpu", (nodes or 1, ranks // (nodes or 1)), mesh_dim_names=("replicate", "shard"))
        _meshes[nodes] = both["shard"]
    return _meshes[nodes]


def sharded(nodes: int | None, model: Any = None, **options: Any) -> Any:
    """The two wide layers are units, and the rest is one."""
    model = net() if model is None else model
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh_of(nodes), **options)
    return fully_shard(model, mesh=mesh_of(nodes), **options)


def fsdp1(strategy: str) -> FullyShardedDataParallel:
    model = net()
    options: Any = {
        "device_id": torch.device("cpu"),
        "sharding_strategy": ShardingStrategy[strategy],
        # Without, torch gives nobody whole gradients.
        "use_orig_params": True,
    }
    model[0] = FullyShardedDataParallel(model[0], **options)
    return FullyShardedDataParallel(model, **options)


def operations() -> int:
    stats = _open[-1].stats
    return int(stats.operations - stats.group_operations)


def backward(model: nn.Module, rank: int, step: int, scale: float = 1.0) -> None:
    (scale * model(batch(rank, step)).square().mean()).backward()


def gradients(model: nn.Module) -> Tensor:
    return torch.cat([whole(p.grad).reshape(-1) for p in model.parameters() if p.grad is not None])


def exact(rank: int, step: int, model: nn.Module | None = None) -> Tensor:
    """The mean gradient at the start, over all ranks."""
    plain = net() if model is None else model
    backward(plain, rank, step)
    mean = gradients(plain)
    dist.all_reduce(mean)
    return mean / dist.get_world_size()


def distance(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).square().sum() / theirs.square().sum())


def repeated(rank: int, nodes: int | None, steps: int, options: dict[str, Any]) -> dict[str, Any]:
    """The sum of one gradient's means, made again and again: how far it is from the sum of the exact ones.

    At the start: gradients of equal parameters, which are not changed.
    """
    before = operations()
    model = sharded(nodes)
    with_state(model, options)
    total: Tensor | float = 0.0
    for _ in range(steps):
        model.zero_grad()
        backward(model, rank, 0)
        total = total + gradients(model)
    assert isinstance(total, Tensor)
    error = distance(total / steps, exact(rank, 0))
    return {"error": error, "used": operations() - before, "fallbacks": _open[-1].stats.fallbacks}


def rounded(rank: int, nodes: int | None, late: bool) -> dict[str, Any]:
    """Parameters gathered with 8 bits: those that a forward pass computes with, what came for them, and the shards."""
    sent: list[int] = []
    seen: dict[str, Tensor] = {}
    plain = net()
    model = sharded(nodes)
    with_state(model, {"parameters": "8bit"})
    if late:
        model._set_unshard_async_op(True)
    model[0].register_forward_pre_hook(lambda layer, *_: seen.update(weight=layer.weight.detach().clone()))
    gathered = gather._gather

    def counted(output: Tensor, own: Tensor, *arguments: Any) -> Any:
        sent.append(own.numel() * own.element_size())
        return gathered(output, own, *arguments)

    setattr(gather, "_gather", counted)  # noqa: B010 - mypy lets nobody assign a constant
    before = operations()
    backward(model, rank, 0)
    used = operations() - before
    setattr(gather, "_gather", gathered)  # noqa: B010 - the same
    error = distance(gradients(model), exact(rank, 0))
    both: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(both, seen["weight"].tolist())
    off = (seen["weight"] - plain[0].weight.detach()).abs().max() / plain[0].weight.detach().abs().max()
    values = sum(p.numel() for p in plain.parameters())
    return {
        "error": error,
        "off": float(off),
        "equal": all(one == both[0] for one in both),
        "kept": torch.equal(flat(model), flat(plain)),
        "bits": 8 * sum(sent) * dist.get_world_size() / values,
        "used": used,
    }


def with_state(model: nn.Module, options: dict[str, Any]) -> ShardedState:
    return attach(model, _open[-1], **options)


def of_dtypes(rank: int, nodes: int | None, reduce: str, overlap: bool) -> dict[str, Any]:
    """Mixed precision: computed in bfloat16, reduced in another type, kept in float32."""
    types = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=getattr(torch, reduce))
    model = sharded(nodes, mp_policy=types)
    state = with_state(model, {"overlap": overlap})
    deferred: list[bool] = []
    exchange = state.exchange

    def noted(one: UnitExchange, *, later: bool = False) -> None:
        deferred.append(later)
        exchange(one, later=later)

    setattr(state, "exchange", noted)  # noqa: B010 - mypy lets nobody assign a method
    backward(model, rank, 0)
    # Torch's own with the same types, which gloo makes.
    theirs = sharded(None, mp_policy=types)
    backward(theirs, rank, 0)
    kinds = {str(p.grad.dtype) for p in model.parameters() if p.grad is not None}
    return {"error": distance(gradients(model), gradients(theirs)), "dtypes": kinds, "deferred": deferred}


def accumulated(rank: int, nodes: int | None) -> dict[str, Any]:
    """Two backward passes without exchange and one with it; then one more, which adds to the gradient."""
    model = sharded(nodes)
    with_state(model, {"precision": "8bit"})
    before = operations()
    model.set_requires_gradient_sync(False)
    backward(model, rank, 0)
    backward(model, rank, 1)
    silent = operations() - before
    model.set_requires_gradient_sync(True)
    backward(model, rank, 2)
    once = operations() - before
    backward(model, rank, 3)
    error = distance(gradients(model), sum((exact(rank, step) for step in range(1, 4)), exact(rank, 0)))
    return {"error": error, "silent": silent, "once": once, "twice": operations() - before}


class Branches(nn.Module):
    """One of two layers is used, or both."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.one = nn.Linear(WIDTH, WIDTH)
        self.two = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, both: bool) -> Tensor:
        y: Tensor = self.one(x)
        return self.two(y) if both else y


def unused(rank: int, options: dict[str, Any], told: bool) -> dict[str, Any]:
    """A pass in which a unit has parameters without gradients, as all ranks do."""
    model: Any = fully_shard(Branches(), mesh=mesh_of(None))
    with_state(model, options)
    if told:
        model.set_reduce_scatter_unused_params(True)
    try:
        for both in (True, False):
            model.zero_grad()
            model(batch(rank, 0), both).square().mean().backward()
    except sumwire.UsageError as error:
        return {"text": str(error)}
    plain = Branches()
    plain(batch(rank, 0), False).square().mean().backward()
    assert plain.one.weight.grad is not None
    dist.all_reduce(plain.one.weight.grad)
    want = plain.one.weight.grad / dist.get_world_size()
    return {"text": "", "error": distance(whole(model.one.weight.grad), want)}


def not_finite(rank: int) -> dict[str, Any]:
    """A pass with an infinite loss on one rank, between two others."""
    model = sharded(None)
    state = with_state(model, {})

    def kept() -> dict[Any, Tensor]:
        state.settle()
        assert state.feedback is not None
        return {name: residual.clone() for name, residual in state.feedback.kept().residuals.items()}

    backward(model, rank, 0)
    first = kept()
    model.zero_grad()
    backward(model, rank, 1, scale=float("inf") if rank == 1 else 1.0)
    spoilt = not bool(torch.isfinite(gradients(model)).all())
    second = kept()
    model.zero_grad()
    backward(model, rank, 2)
    third = kept()
    return {"spoilt": spoilt, "same": same(first, second), "goes on": not same(second, third), "units": len(first)}


def trained(rank: int, nodes: int | None, steps: tuple[int, int], folder: str) -> list[float]:
    """Parameters after these steps. Goes on from the folder's checkpoint unless they begin at 0, and leaves one."""
    model = sharded(nodes)
    state = with_state(model, {})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    path = Path(folder) / "checkpoint"
    if steps[0]:
        content = {"model": model.state_dict(), "sumwire": state}
        checkpoints().load(content, checkpoint_id=path)
        model.load_state_dict(content["model"])
    for step in range(*steps):
        optimizer.zero_grad()
        backward(model, rank, step)
        optimizer.step()
    if not steps[0]:
        checkpoints().save({"model": model.state_dict(), "sumwire": state}, checkpoint_id=path)
    result: list[float] = flat(model).tolist()
    return result


def whole_unit() -> Any:
    return fully_shard(net(), mesh=mesh_of(None))


def other_units(rank: int) -> str:
    """What a state says to one of another model."""
    state = with_state(sharded(None), {}).state_dict()
    try:
        with_state(whole_unit(), {}).load_state_dict(state)
    except sumwire.UsageError as error:
        return str(error)
    return ""


def by_fsdp1(rank: int, strategy: str, steps: int, options: dict[str, Any]) -> dict[str, Any]:
    """The sum of one gradient's means, as `repeated`; with passes that only accumulate before."""
    before = operations()
    model = fsdp1(strategy)
    with_state(model, options)
    total: Tensor | float = 0.0
    for _ in range(steps):
        model.zero_grad()
        with model.no_sync():
            backward(model, rank, 0, scale=0.5)
        backward(model, rank, 0, scale=0.5)
        with FullyShardedDataParallel.summon_full_params(model, with_grads=True):
            total = total + gradients(model)
    assert isinstance(total, Tensor)
    return {"error": distance(total / steps, exact(rank, 0)), "used": operations() - before}


def refused(rank: int, what: str) -> str:
    """What a model that cannot be served is told."""
    both = init_device_mesh("cpu", (2, dist.get_world_size() // 2), mesh_dim_names=("replicate", "shard"))
    made: dict[str, Any] = {
        "plain": net,
        "two dimensions": lambda: fully_shard(net(), mesh=both),
        "other ranks": lambda: fully_shard(net(), mesh=both["replicate"]),
        "hybrid": lambda: fsdp1_of(both),
        "rounded FSDP1": lambda: fsdp1("FULL_SHARD"),
        "rounded in nodes": lambda: fully_shard(net(), mesh=mesh_of(dist.get_world_size())),
        "rounded to 3 bits": net,
    }
    options = {"rounded FSDP1": "8bit", "rounded in nodes": "8bit", "rounded to 3 bits": "3bit"}
    try:
        with_state(made[what](), {"parameters": options.get(what, "exact")})
    except sumwire.UsageError as error:
        return str(error)
    return ""


def fsdp1_of(mesh: DeviceMesh) -> FullyShardedDataParallel:
    options: Any = {"device_mesh": mesh, "sharding_strategy": ShardingStrategy.HYBRID_SHARD}
    return FullyShardedDataParallel(net(), device_id=torch.device("cpu"), **options)


def by_zero(rank: int) -> dict[str, Any]:
    """ZeroRedundancyOptimizer beside DDP's hook: parameters after three steps, and whose state this rank has."""
    model = DistributedDataParallel(net())
    model.register_comm_hook(sumwire.DdpState(_open[-1]), sumwire.ddp_hook)
    theirs = DistributedDataParallel(net())
    pairs = [
        (one, ZeroRedundancyOptimizer(one.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9))
        for one in (model, theirs)
    ]
    start = flat(model)
    for step in range(3):
        for one, optimizer in pairs:
            optimizer.zero_grad()
            backward(one, rank, step)
            optimizer.step()
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, flat(model).tolist())
    return {
        "error": distance(flat(model) - start, flat(theirs) - start),
        "equal": all(one == everyone[0] for one in everyone),
        "states": len(pairs[0][1].optim.state),
        "parameters": len(list(model.parameters())),
    }
