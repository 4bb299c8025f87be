# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which calls of a group reduce gradients: those of torch's own data parallelism, known by who makes them.

A collective does not say what its tensor is. DDP's reducer is C++, so the Python code nearest to its calls is
autograd's engine, or none in a thread of a GPU's backward pass. All else calls from Python: FSDP and DDP's own hooks
from the modules below; DTensor, SyncBatchNorm and users' code from others, also within a backward pass. What is not
known to be a gradient counts as none.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Final

_OWN: Final = "sumwire.backend."
# `work.dynamo_disabled` calls methods by it.
_DYNAMO: Final = "torch._dynamo.eval_frame"
_ENGINE: Final = "torch.autograd.graph"
# Where torch.distributed.all_reduce is, and what it is wrapped in.
_COLLECTIVES: Final = ("torch.distributed.distributed_c10d", "torch.distributed.c10d_logger")
_DATA_PARALLEL: Final = frozenset({
    "torch.nn.parallel.distributed",
    "torch.distributed.algorithms.ddp_comm_hooks.default_hooks",
    "torch.distributed.algorithms._comm_hooks.default_hooks",
    "torch.distributed.fsdp._runtime_utils",
    "torch.distributed.fsdp._fully_shard._fsdp_collectives",
    # Before torch 2.6.
    "torch.distributed._composable.fsdp._fsdp_collectives",
})  # fmt: skip


def called_for_gradient() -> bool:
    """Whether the call of a group under way in this thread is one of DDP or FSDP for a gradient."""
    frame = _outside(sys._getframe(), lambda name: name.startswith(_OWN) or name == _DYNAMO)
    if frame is None or _module(frame) == _ENGINE:
        return True
    frame = _outside(frame, _COLLECTIVES.__contains__)
    return frame is not None and _module(frame) in _DATA_PARALLEL


def _outside(frame: FrameType | None, within: Callable[[str], bool]) -> FrameType | None:
    """The nearest frame of a module that is not ``within``."""
    while frame is not None and within(_module(frame)):
        frame = frame.f_back
    return frame


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
