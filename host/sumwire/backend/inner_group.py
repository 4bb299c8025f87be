# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The inner process group of a group of the backend: gloo for processors, NCCL for GPUs where there is one.

It also has the calls that a group passes through to it unchanged. torch would pass them on by itself, but holding
Python's lock. gloo's threads need that lock to release tensors while they hold gloo's own lock, so the two would
deadlock. A method that is called from Python releases Python's lock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d
from torch.torch_version import TorchVersion

# From this version on, torch's groups count their calls from 0, and it warns of being told to.
_COUNTS_FROM_ZERO: Final = "2.15"
# By torch's newer and older names, what torch has always called it.
CALLS: Final = {
    "all_gather_single": "_allgather_base",
    "_allgather_base": "_allgather_base",
    "all_gather_single_coalesced": "allgather_into_tensor_coalesced",
    "allgather_into_tensor_coalesced": "allgather_into_tensor_coalesced",
    "all_to_all_single": "alltoall_base",
    "alltoall_base": "alltoall_base",
} | {name: name for name in ("allgather", "barrier", "broadcast", "send", "recv")}


@dataclass(frozen=True)
class InnerGroup:
    """torch's ``group``, and its ``backends`` with their type, by device."""

    group: Any
    backends: dict[torch.device, tuple[Any, Any]]

    def register(self, group: Any) -> None:
        """Register the inner backends with a group, for calls that the group does not carry out itself."""
        for device, (kind, backend) in self.backends.items():
            group._register_backend(device, kind, backend)
        group._set_default_backend(dist.ProcessGroup.BackendType.GLOO)


def make_inner_group(store: Any, rank: int, ranks: int, timeout: timedelta) -> InnerGroup:
    """Make the inner group: a collective call of the ranks, over their store."""
    kinds: Any = dist.ProcessGroup.BackendType
    gloo: Any = c10d.ProcessGroupGloo(c10d.PrefixStore("gloo", store), rank, ranks, timeout=timeout)
    agree_on_count(gloo)
    backends = {torch.device("cpu"): (kinds.GLOO, gloo)}
    if torch.cuda.is_available():
        nccl = _nccl(store, rank, ranks, timeout) if dist.is_nccl_available() else None
        backends[torch.device("cuda")] = (kinds.GLOO, gloo) if nccl is None else (kinds.NCCL, nccl)
    made: Any = dist.ProcessGroup(store, rank, ranks)
    inner = InnerGroup(made, backends)
    inner.register(made)
    return inner


def agree_on_count(backend: Any) -> None:
    """Make the ranks' backends count their calls from the same number. A collective call."""
    if TorchVersion(torch.__version__) < _COUNTS_FROM_ZERO:
        backend._set_sequence_number_for_group()


def _nccl(store: Any, rank: int, ranks: int, timeout: timedelta) -> Any:
    options = c10d.ProcessGroupNCCL.Options()
    options._timeout = timeout
    return c10d.ProcessGroupNCCL(c10d.PrefixStore("nccl", store), rank, ranks, options)


def passed_through(name: str) -> Callable[..., Any]:
    """Return a method that calls the inner group's method of this name. The class must have `_inner` and `_note`."""

    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        return self._note(getattr(self._inner.group, name)(*arguments, **named))

    return call


def passing_through(kind: type) -> type:
    """Class decorator: add all methods of `CALLS`."""
    for name, inner in CALLS.items():
        setattr(kind, name, passed_through(inner))
    return kind
