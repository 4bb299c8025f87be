# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sharded training: gradients of FSDP2 and FSDP1 through the network, with error feedback.

    import sumwire
    from torch.distributed.fsdp import fully_shard

    job = sumwire.init()
    model = fully_shard(make_model(), mesh=mesh)      # a mesh of one dimension: all ranks, or those of this machine
    sumwire.sharded.attach(model, job)

Names are loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sumwire.sharded.attaching import attach as attach
    from sumwire.sharded.state import ShardedState as ShardedState

_HOMES: Final = {"ShardedState": "state", "attach": "attaching"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_HOMES)
