# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire.sharded.attach`, which routes the gradients of a sharded model through a job, and the hook for FSDP1.

The code for FSDP2 is in `fsdp2`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, get_args

import torch.distributed as dist
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy

from sumwire.errors import UsageError
from sumwire.sharded import fsdp2
from sumwire.sharded.state import ShardedState, Unit, UnitExchange, called, over_nodes
from sumwire.training.all_reduce import DEFAULT, Precision
from sumwire.training.hierarchical import AnyJob

# How sharded parameters are gathered.
Parameters = Literal["exact", "8bit"]


def _attach_fsdp1(model: FullyShardedDataParallel, state: ShardedState) -> None:
    """Use FSDP1's communication hook."""
    wrapped: list[tuple[str, Any]] = [
        (name.replace("_fsdp_wrapped_module.", "").removesuffix("_fsdp_wrapped_module"), module)
        for name, module in model.named_modules()
        if isinstance(module, FullyShardedDataParallel) and module._has_params
    ]
    for name, module in wrapped:
        _check(name, module, state)
    model.register_comm_hook(None, _hook)
    for name, module in wrapped:
        # torch hands one state to all; this one knows the unit.
        module._comm_hook_state = (state, state.unit(name, partial(_values_of, module._handle)))


def _values_of(handle: Any) -> int:
    """Of a whole gradient, filled up to shards of one length where there are shards."""
    size = handle.flat_param._unpadded_unsharded_size
    return int(handle.flat_param._padded_unsharded_size.numel() if handle.uses_sharded_strategy else size.numel())


def _check(name: str, module: Any, state: ShardedState) -> None:
    if module.sharding_strategy in (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2):
        raise UsageError(
            f"{called(name)}: {module.sharding_strategy.name} has no hook in torch: use fully_shard, over the ranks "
            "of a node"
        )
    if over_nodes(dist.get_process_group_ranks(module.process_group), state.job):
        raise UsageError(
            f"{called(name)}: FullyShardedDataParallel over one node's ranks makes no mean over the nodes: use "
            "fully_shard"
        )


def _hook(of_unit: tuple[ShardedState, Unit], gradient: Tensor, shard: Tensor | None = None) -> None:
    """FSDP1's communication hook: the mean of the whole gradient, or this rank's shard of it."""
    state, unit = of_unit
    flat = gradient.reshape(-1)
    into = flat if shard is None else shard
    start = 0 if shard is None else dist.get_rank() * len(into)
    write = lambda mean: into.copy_(mean[start : start + len(into)])  # noqa: E731
    state.exchange(UnitExchange(unit, flat, into, write))


def attach(
    model: nn.Module,
    job: AnyJob,
    *,
    precision: Precision = DEFAULT,
    error_feedback: bool = True,
    overlap: bool = True,
    parameters: Parameters = "exact",
    scaler: GradScaler | None = None,
) -> ShardedState:
    """Let the gradients of a sharded model go through the job, from its next backward pass on.

    ``model``: one that `fully_shard` has returned, sharded over all ranks or over those of each node (then the nodes
    are replicas), or FullyShardedDataParallel. Parameters are gathered by the model's process group.

    ``precision``: that of the means (:mod:`sumwire.training.all_reduce`). ``error_feedback``: what compression left out
    of a unit's gradient is added to its next one. ``overlap``: a mean may be in flight until the end of the backward
    pass, unless it is read earlier. ``parameters``: "8bit" gathers those that FSDP2 has sharded over all ranks with 8
    bits a value (:mod:`sumwire.sharded.gather`). ``scaler``: the GradScaler of the training, if it has one. The job's
    errors come out of backward().

    Keep what it returns for checkpoints. Call it on all ranks, once for a model. Raises UsageError for a model that is
    not sharded, or over other ranks than the job's, or by a torch version without the needed hooks. "8bit" also raises
    it where parameters do not travel between nodes, or FSDP1 gathers them.
    """
    if parameters not in get_args(Parameters):
        raise UsageError(f"parameters = {parameters!r}: must be one of {', '.join(map(repr, get_args(Parameters)))}")
    state = ShardedState(job, precision=precision, error_feedback=error_feedback, scaler=scaler)
    if isinstance(model, FullyShardedDataParallel):
        if parameters != "exact":
            raise UsageError(f"parameters = {parameters!r}: FSDP1 lets nobody gather for it: use fully_shard")
        _attach_fsdp1(model, state)
    elif fsdp2.is_sharded(model):
        fsdp2.attach(model, state, overlap=overlap, rounded=parameters == "8bit")
    else:
        raise UsageError(
            f"{type(model).__name__}: is not sharded: call fully_shard(model) before, or, for DistributedDataParallel, "
            "register_comm_hook(sumwire.DdpState(job), sumwire.ddp_hook)"
        )
    return state
