# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The process group beneath a group of the backend: gloo for processors, NCCL for GPUs where there is one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d
from torch.torch_version import TorchVersion

# From this version on, torch's groups count their calls from 0, and it warns of being told to.
_COUNTS_FROM_ZERO: Final = "2.15"


@dataclass(frozen=True)
class Beneath:
    """``group``: of torch's own. ``backends``: by device, with what torch calls their kind."""

    group: Any
    backends: dict[torch.device, tuple[Any, Any]]

    def register(self, group: Any) -> None:
        """Let a group of the backend answer by these what it does not do itself."""
        for device, (kind, backend) in self.backends.items():
            group._register_backend(device, kind, backend)
        group._set_default_backend(dist.ProcessGroup.BackendType.GLOO)


def group_beneath(store: Any, rank: int, ranks: int, timeout: timedelta) -> Beneath:
    """A collective call of the ranks, over a store of theirs."""
    kinds: Any = dist.ProcessGroup.BackendType
    gloo: Any = c10d.ProcessGroupGloo(c10d.PrefixStore("gloo", store), rank, ranks, timeout=timeout)
    agree_on_count(gloo)
    backends = {torch.device("cpu"): (kinds.GLOO, gloo)}
    if torch.cuda.is_available():
        nccl = _nccl(store, rank, ranks, timeout) if dist.is_nccl_available() else None
        backends[torch.device("cuda")] = (kinds.GLOO, gloo) if nccl is None else (kinds.NCCL, nccl)
    made: Any = dist.ProcessGroup(store, rank, ranks)
    beneath = Beneath(made, backends)
    beneath.register(made)
    return beneath


def agree_on_count(backend: Any) -> None:
    """Let the ranks' backends count their calls from one number. A collective call."""
    if TorchVersion(torch.__version__) < _COUNTS_FROM_ZERO:
        backend._set_sequence_number_for_group()


def _nccl(store: Any, rank: int, ranks: int, timeout: timedelta) -> Any:
    options = c10d.ProcessGroupNCCL.Options()
    options._timeout = timeout
    return c10d.ProcessGroupNCCL(c10d.PrefixStore("nccl", store), rank, ranks, options)
