# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""FSDP1: FullyShardedDataParallel, by its communication hook."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy

from sumwire.errors import UsageError
from sumwire.sharded.ranks import over_nodes
from sumwire.sharded.state import Exchange, ShardedState, Unit, called


def attach(model: FullyShardedDataParallel, state: ShardedState) -> None:
    """See :func:`sumwire.sharded.attach`."""
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
    state.exchange(Exchange(unit, flat, into, write))
