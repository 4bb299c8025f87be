# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Tells which calls on a process group reduce gradients, by looking at the code that makes the call.

A collective does not say what its tensor is. DDP's reducer is C++: the nearest Python frame is autograd's engine, or
there is none in a GPU's backward thread. An all-reduce from such a place is a gradient. A reduce-scatter from there is
not: it is the gradient of torch's functional all-gather, which is C++ in older versions. All other calls come from
Python. FSDP and DDP's own hooks call from the modules listed below. DTensor, SyncBatchNorm and users' code call from
other modules, also during a backward pass. A call that is not recognised does not count as a gradient.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any, Final

import torch
from torch.distributed import ProcessGroup

from sumwire.errors import UsageError
from sumwire.training.buckets import living_models

_OWN: Final = "sumwire.backend."
# `work.dynamo_disabled` calls methods by it.
_DYNAMO: Final = "torch._dynamo.eval_frame"
_FP16: Final = "FP16_COMPRESS"
_ENGINE: Final = "torch.autograd.graph"
# Where torch.distributed.all_reduce is, and what it is wrapped in.
_COLLECTIVES: Final = ("torch.distributed.distributed_c10d", "torch.distributed.c10d_logger")
_DATA_PARALLEL: Final = frozenset({
    "torch.nn.parallel.distributed",
    "torch.distributed.algorithms.ddp_comm_hooks.default_hooks",
    # They have the reducer make the call: with DDP's `mixed_precision`, and optimizers within the backward pass.
    "torch.distributed.algorithms.ddp_comm_hooks.mixed_precision_hooks",
    "torch.distributed.algorithms.ddp_comm_hooks.optimizer_overlap_hooks",
    "torch.distributed.algorithms._comm_hooks.default_hooks",
    "torch.distributed.fsdp._runtime_utils",
    "torch.distributed.fsdp._fully_shard._fsdp_collectives",
    # Before torch 2.6.
    "torch.distributed._composable.fsdp._fsdp_collectives",
})  # fmt: skip


def called_for_gradient(*, all_reduce: bool) -> bool:
    """Return whether DDP or FSDP makes the present call on a group in order to reduce a gradient. ``all_reduce``:
    whether the call is an all-reduce."""
    frame = _outside(sys._getframe(), lambda name: name.startswith(_OWN) or name == _DYNAMO)
    if frame is None or _module(frame) == _ENGINE:
        return all_reduce
    frame = _outside(frame, _COLLECTIVES.__contains__)
    return frame is not None and _module(frame) in _DATA_PARALLEL


def check_built_in_hooks(group: ProcessGroup) -> None:
    """Make the present backward pass raise UsageError if a model on the group uses DDP's built-in float16 hook.

    That hook is C++ and cannot read the result of a group that Python defines. Only a float16 sum can come from it. The
    check runs after the last bucket, because DDP's reducer cannot be queried during one of its own calls.
    """
    # Without a backward pass there is no such hook.
    with contextlib.suppress(RuntimeError):
        torch.autograd.Variable._execution_engine.queue_callback(partial(_check_models, group))


def _check_models(group: ProcessGroup) -> None:
    for model in living_models():
        known: Any = model
        hook = str(known._get_ddp_logging_data().get("comm_hook", ""))
        if model.process_group is group and hook.endswith(_FP16):
            raise UsageError(
                f"DistributedDataParallel with the built-in hook {_FP16}: does not work on the backend sumwire: leave "
                "the hook out, since gradients are compressed here; or call "
                "model.register_comm_hook(None, default_hooks.fp16_compress_hook)"
            )


def _outside(frame: FrameType | None, within: Callable[[str], bool]) -> FrameType | None:
    """The nearest frame of a module that is not ``within``."""
    while frame is not None and within(_module(frame)):
        frame = frame.f_back
    return frame


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
