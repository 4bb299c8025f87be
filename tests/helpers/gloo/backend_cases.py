# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the ranks of the backend's tests do, each on its default group "sumwire", and by gloo beside it.

Each function runs on every rank and returns plain data.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import sumwire
import torch
import torch.distributed as dist
from helpers.aggregator.served import serving
from helpers.gloo.ranks import Ranks
from helpers.logs import Line, logged
from sumwire.backend.jobs import Options
from sumwire.errors import SumwireError
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor


@contextmanager
def ranks_with_job(
    mapping: dict[str, Any],
    folder: Path,
    backend: str = "sumwire",
    before: Callable[[Ranks], None] = lambda ranks: None,
) -> Iterator[Ranks]:
    """A rank for each worker and lane of the job, on this backend, beside an aggregator that serves them. ``before``:
    what happens while they have no job."""
    count = mapping["workers"] * len(mapping.get("lanes", [0]))
    (folder / "job.json").write_text(json.dumps(mapping))
    with serving(mapping), Ranks(count, folder, backend) as started:
        before(started)
        started.run(use, str(folder / "job.json"))
        yield started


# A gloo group of all ranks in each rank's process, to compare with.
_beside: list[Any] = []


def gloo() -> Any:
    if not _beside:
        _beside.append(dist.new_group(backend="gloo"))
    return _beside[0]


def choose(precision: str | None, exact_below: int = 64) -> None:
    """What floats of the default group go at from now on; None: gradients alone are compressed."""
    dist.group.WORLD._choice = Options(precision=precision, exact_below=exact_below)  # type: ignore[arg-type, union-attr]


def operations() -> int:
    """Through the network so far."""
    job = dist.group.WORLD.job  # type: ignore[union-attr]
    return 0 if job is None else int(job.stats.operations - job.stats.group_operations)


def without_a_job(rank: int) -> list[str]:
    """Errors of sums: of integers, of floats at a lossy precision, and of floats at an exact one."""
    errors = []
    for precision, dtype in (("4bit", torch.int32), ("4bit", torch.float32), ("exact", torch.float32)):
        choose(precision)
        try:
            dist.all_reduce(torch.ones(100, dtype=dtype))
            errors.append("")
        except SumwireError as error:
            errors.append(f"{type(error).__name__}: {error}")
    return errors


def use(rank: int, path: str) -> None:
    sumwire.backend.use(path)


def told_of_a_service(rank: int, address: str) -> None:
    """The last rank's environment names it; no other place has a job."""
    sumwire.backend.use(None)
    if rank == dist.get_world_size() - 1:
        os.environ["SUMWIRE_SERVICE"] = address


def first_call(rank: int, shape: tuple[int, ...]) -> list[Line]:
    """What is logged where the first call looks for its job."""
    with logged() as lines:
        reduced(rank, "all_reduce", "float32", shape, "SUM", "4bit")
    return lines


def with_a_job_of_init(rank: int, address: str, shape: tuple[int, ...]) -> dict[str, Any]:
    with logged() as lines, sumwire.init(aggregator="rank0", address=address, quiet=True) as job:
        assert isinstance(job, sumwire.Job)
        sumwire.backend.use(job)
        outcome = reduced(rank, "all_reduce", "float32", shape, "SUM", "4bit")
        sumwire.backend.use(None)
    return outcome | {"lines": lines}


def tensor_of(rank: int, dtype: str, shape: tuple[int, ...], seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    type_: torch.dtype = getattr(torch, dtype)
    if type_.is_floating_point:
        return torch.randn(shape, generator=generator).to(type_)
    return torch.randint(-1000, 1000, shape, generator=generator).to(type_)


def reduced(
    rank: int, call: str, dtype: str, shape: tuple[int, ...], op: str, precision: str | None, of_call: Any = None
) -> dict[str, Any]:
    """One call by both groups: squared error and norm of the difference, and what went through the network.
    ``of_call``: what the call asks for by itself."""
    choose(precision)
    exact = gloo()
    before = operations()
    with nullcontext() if of_call is None else sumwire.backend.calls_at(of_call):
        ours = CALLS[call](rank, dtype, shape, getattr(dist.ReduceOp, op), None)
    used = operations() - before
    theirs = CALLS[call](rank, dtype, shape, getattr(dist.ReduceOp, op), exact)
    difference = (ours.double() - theirs.double()).square().sum()
    return {
        "equal": torch.equal(ours, theirs),
        "error": float(difference / theirs.double().square().sum()),
        "dtype": str(ours.dtype) == str(theirs.dtype),
        "used": used,
    }


def _all_reduce(rank: int, dtype: str, shape: tuple[int, ...], op: Any, group: Any) -> Tensor:
    x = tensor_of(rank, dtype, shape)
    dist.all_reduce(x, op, group=group)
    return x


def _asynchronously(rank: int, dtype: str, shape: tuple[int, ...], op: Any, group: Any) -> Tensor:
    """Three at once, awaited backwards, one of them by its future."""
    tensors = [tensor_of(rank, dtype, shape, seed) for seed in range(3)]
    works: list[Any] = [dist.all_reduce(x, op, group=group, async_op=True) for x in tensors]
    works[2].wait()
    works[1].get_future().wait()
    works[0].wait()
    assert works[0].is_completed()
    return torch.cat([x.reshape(-1) for x in tensors])


def _coalesced(rank: int, dtype: str, shape: tuple[int, ...], op: Any, group: Any) -> Tensor:
    tensors = [tensor_of(rank, dtype, shape, seed) for seed in range(3)]
    with dist.distributed_c10d._coalescing_manager(group=group):
        for x in tensors:
            dist.all_reduce(x, op, group=group)
    return torch.cat([x.reshape(-1) for x in tensors])


def _functional(rank: int, dtype: str, shape: tuple[int, ...], op: Any, group: Any) -> Tensor:
    """As compiled code and DTensor call it."""
    from torch.distributed import _functional_collectives as functional

    name = str(op).rpartition(".")[2].lower()
    return functional.all_reduce(tensor_of(rank, dtype, shape), name, group or dist.group.WORLD) + 0


def _within_backward(rank: int, dtype: str, shape: tuple[int, ...], op: Any, group: Any) -> Tensor:
    """In a hook of autograd, where DDP's reducer makes its calls too."""
    x = tensor_of(rank, dtype, shape)

    def hook(gradient: Tensor) -> None:
        dist.all_reduce(x, op, group=group)

    leaf = torch.ones(1, requires_grad=True)
    leaf.register_hook(hook)
    leaf.sum().backward()
    return x


def _by_the_engine(rank: int, dtype: str, shape: tuple[int, ...], op: Any, group: Any) -> Tensor:
    """As autograd's engine makes it where the gradient of an all-gather is C++: with no Python code in between."""
    out = torch.empty((shape[0] // dist.get_world_size(), *shape[1:]), dtype=getattr(torch, dtype))
    options = dist.ReduceScatterOptions()
    options.reduceOp = op
    call: Any = (group or dist.group.WORLD)._reduce_scatter_base
    works: list[Any] = []
    made = map(call, [out], [tensor_of(rank, dtype, shape)], [options])
    leaf = torch.ones(1, requires_grad=True)
    engine = torch.autograd.Variable._execution_engine
    leaf.register_hook(lambda _: engine.queue_callback(partial(works.extend, made)))
    leaf.sum().backward()
    works[0].wait()
    return out


def _dtensor(rank: int, dtype: str, shape: tuple[int, ...], op: Any, group: Any) -> Tensor:
    """A product of sharded matrices and its gradient, both of which are sums over the ranks."""
    mesh = DeviceMesh.from_group(group or dist.group.WORLD, "cpu")
    generator = torch.Generator().manual_seed(1)
    left, right = (torch.randn(64, 64, generator=generator) for _ in range(2))
    a = distribute_tensor(left, mesh, [Shard(1)]).requires_grad_()
    b = distribute_tensor(right, mesh, [Shard(0)])
    replicated = distribute_tensor(right, mesh, [Replicate()]).requires_grad_()
    product = (a @ b).redistribute(placements=[Replicate()])
    c = distribute_tensor(left, mesh, [Shard(0)])
    ((c @ replicated).redistribute(placements=[Replicate()]).square().sum() + product.square().sum()).backward()
    assert a.grad is not None and replicated.grad is not None
    return torch.cat([x.full_tensor().detach().reshape(-1) for x in (product, a.grad, replicated.grad)])


def _reduce(rank: int, dtype: str, shape: tuple[int, ...], op: Any, group: Any) -> Tensor:
    x = tensor_of(rank, dtype, shape)
    dist.reduce(x, 1, op, group=group)
    # Only the root has a result.
    return x if rank == 1 else torch.ones(1)


def _reduce_scatter_tensor(rank: int, dtype: str, shape: tuple[int, ...], op: Any, group: Any) -> Tensor:
    out = torch.empty((shape[0] // dist.get_world_size(), *shape[1:]), dtype=getattr(torch, dtype))
    dist.reduce_scatter_tensor(out, tensor_of(rank, dtype, shape), op, group=group)
    return out


def _reduce_scatter(rank: int, dtype: str, shape: tuple[int, ...], op: Any, group: Any) -> Tensor:
    parts = [each.contiguous() for each in tensor_of(rank, dtype, shape).chunk(dist.get_world_size())]
    out = torch.empty_like(parts[0])
    dist.reduce_scatter(out, parts, op, group=group)
    return out


CALLS: dict[str, Callable[..., Tensor]] = {
    "all_reduce": _all_reduce,
    "async": _asynchronously,
    "within backward": _within_backward,
    "by the engine": _by_the_engine,
    "dtensor": _dtensor,
    "coalesced": _coalesced,
    "functional": _functional,
    "reduce": _reduce,
    "reduce_scatter": _reduce_scatter,
    "reduce_scatter_tensor": _reduce_scatter_tensor,
}


def overflow(rank: int) -> bool:
    choose("4bit")
    ours = torch.full((200,), 2**30 + rank, dtype=torch.int32)
    theirs = ours.clone()
    dist.all_reduce(ours)
    dist.all_reduce(theirs, group=gloo())
    return torch.equal(ours, theirs)


def others(rank: int) -> dict[str, bool]:
    """All that only the group beneath does."""
    choose("4bit")
    ranks = dist.get_world_size()
    found: dict[str, bool] = {}
    x = tensor_of(rank, "float32", (ranks * 50,))

    def by_both(name: str, call: Callable[[Any], Tensor]) -> None:
        found[name] = torch.equal(call(None), call(gloo()))

    def gathered(group: Any) -> Tensor:
        out = [torch.empty_like(x) for _ in range(ranks)]
        dist.all_gather(out, x, group=group)
        return torch.cat(out)

    def gathered_whole(group: Any) -> Tensor:
        out = torch.empty(ranks * len(x))
        dist.all_gather_into_tensor(out, x, group=group)
        return out

    def broadcast(group: Any) -> Tensor:
        out = x.clone()
        dist.broadcast(out, 1, group=group)
        return out

    def scattered(group: Any) -> Tensor:
        out = torch.empty(50)
        dist.scatter(out, list(x.chunk(ranks)) if rank == 0 else None, group=group)
        return out

    def to_root(group: Any) -> Tensor:
        out = [torch.empty_like(x) for _ in range(ranks)] if rank == 0 else None
        dist.gather(x, out, group=group)
        return torch.cat(out) if out else x

    def all_to_all(group: Any) -> Tensor:
        out = torch.empty_like(x)
        dist.all_to_all_single(out, x, group=group)
        return out

    def passed_on(group: Any) -> Tensor:
        out = torch.empty_like(x)
        sends = dist.isend(x, (rank + 1) % ranks, group=group)
        dist.recv(out, (rank - 1) % ranks, group=group)
        assert sends is not None
        sends.wait()
        return out

    def objects(group: Any) -> Tensor:
        out: list[Any] = [None] * ranks
        dist.all_gather_object(out, {"rank": rank}, group=group)
        return torch.tensor([each["rank"] for each in out])

    def barrier(group: Any) -> Tensor:
        dist.barrier(group=group)
        return x

    for call in (gathered, gathered_whole, broadcast, scattered, to_root, all_to_all, passed_on, objects, barrier):
        by_both(call.__name__, call)
    return found


def groups(rank: int) -> dict[str, Any]:
    """Pairs of neighbours, of which the last one may be alone, and a second group of all."""
    choose("4bit")
    before = operations()
    ranks = dist.get_world_size()
    members = [[*range(first, min(first + 2, ranks))] for first in range(0, ranks, 2)]
    pairs = [dist.new_group(each) for each in members]
    second = dist.new_group()
    pair = pairs[rank // 2]
    x = tensor_of(rank, "float32", (200,))
    dist.all_reduce(x, group=pair)
    want = sum(tensor_of(each, "float32", (200,)) for each in members[rank // 2])
    ours, theirs = tensor_of(rank, "float32", (200,)), tensor_of(rank, "float32", (200,))
    dist.all_reduce(ours, group=second)
    dist.all_reduce(theirs, group=gloo())
    outcome = {
        "backend": dist.get_backend(pair),
        "pair": torch.equal(x, torch.as_tensor(want)),
        "second": torch.equal(ours, theirs),
        "used": operations() - before,
    }
    dist.destroy_process_group(second)
    dist.destroy_process_group(pair)
    return outcome


def chosen(rank: int, precision: str, exact_below: int) -> None:
    choose(precision, exact_below)


def network_operations(rank: int) -> int:
    return operations()


def failed_backward(rank: int) -> str:
    """The error of a backward pass whose sum fails: the job has no op for one bit."""
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(100, 100))
    try:
        with sumwire.backend.calls_at("1bit"):
            model(torch.ones(2, 100)).sum().backward()
    except SumwireError as error:
        return str(error)
    return ""
