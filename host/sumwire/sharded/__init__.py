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
from typing import TYPE_CHECKING

from commonlib.facade import on_first_use

if TYPE_CHECKING:
    from sumwire.sharded.attaching import attach as attach
    from sumwire.sharded.state import ShardedState as ShardedState

__getattr__, __dir__ = on_first_use(
    globals(),
    lambda home: importlib.import_module(f"{__name__}.{home}"),
    {"attaching": "attach", "state": "ShardedState"},
)
