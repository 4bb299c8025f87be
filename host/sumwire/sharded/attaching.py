# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The call by which a sharded model gets its means from a job."""

from __future__ import annotations

from typing import Literal, get_args

from torch import nn
from torch.amp.grad_scaler import GradScaler
from torch.distributed.fsdp import FullyShardedDataParallel

from sumwire.errors import UsageError
from sumwire.sharded import fsdp1, fsdp2
from sumwire.sharded.state import ShardedState
from sumwire.training.node import AnyJob
from sumwire.training.precision import DEFAULT, Precision

# How sharded parameters are gathered.
Parameters = Literal["exact", "8bit"]


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

    ``precision``: of the means (:mod:`sumwire.training.precision`). ``error_feedback``: what compression left out of a
    unit's gradient is added to its next one. ``overlap``: a mean may be under way until the end of the backward pass,
    where nothing reads it before. ``parameters``: "8bit" gathers those that FSDP2 has sharded over all ranks with 8
    bits a value (:mod:`sumwire.sharded.gather`). ``scaler``: the GradScaler of the training, if it has one. The job's
    errors come out of backward().

    Keep what it returns for checkpoints. Call it on all ranks, once for a model. Raises UsageError for a model that is
    not sharded, or over other ranks than the job's, or by a torch that lets nobody in; and for "8bit" where parameters
    do not travel between nodes, or FSDP1 gathers them.
    """
    if parameters not in get_args(Parameters):
        raise UsageError(f"parameters = {parameters!r}: must be one of {', '.join(map(repr, get_args(Parameters)))}")
    state = ShardedState(job, precision=precision, error_feedback=error_feedback, scaler=scaler)
    if isinstance(model, FullyShardedDataParallel):
        if parameters != "exact":
            raise UsageError(f"parameters = {parameters!r}: FSDP1 lets nobody gather for it: use fully_shard")
        fsdp1.attach(model, state)
    elif fsdp2.is_sharded(model):
        fsdp2.attach(model, state, overlap=overlap, rounded=parameters == "8bit")
    else:
        raise UsageError(
            f"{type(model).__name__}: is not sharded: call fully_shard(model) before, or, for DistributedDataParallel, "
            "register_comm_hook(sumwire.DdpState(job), sumwire.ddp_hook)"
        )
    return state
