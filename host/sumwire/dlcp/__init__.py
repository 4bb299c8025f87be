# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""DLCP: packets with a priority and a drop class by layer and magnitude (arXiv 2008.08445; as MLT, NSDI 2024).

* :mod:`sumwire.dlcp.tags`: priority and drop class of every packet, and the policy that decides them;
* :mod:`sumwire.dlcp.lanes`: a job in lanes, each with slots, a sequence and a thread of its own;
* :mod:`sumwire.dlcp.sync`: DDP's hook over lanes, and how a straggler catches up;
* :mod:`sumwire.dlcp.packet_loss`: how much loss a training script tolerates;
* :mod:`sumwire.dlcp.layers`: lanes, priorities and drop classes of a model's layers;
* :mod:`sumwire.dlcp.exactness`: the error of a sum with losses.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from commonlib.facade import on_first_use

if TYPE_CHECKING:
    from sumwire.dlcp.lanes import Lanes as Lanes
    from sumwire.dlcp.lanes import TensorRecord as TensorRecord
    from sumwire.dlcp.sync import EarlySync as EarlySync
    from sumwire.dlcp.sync import LaneState as LaneState
    from sumwire.dlcp.sync import LaneSync as LaneSync
    from sumwire.dlcp.sync import lane_hook as lane_hook
    from sumwire.dlcp.tags import LayerMagnitude as LayerMagnitude
    from sumwire.dlcp.tags import Policy as Policy
    from sumwire.dlcp.tags import Tag as Tag

# Tags need no torch.
__getattr__, __dir__ = on_first_use(
    globals(),
    lambda home: importlib.import_module(f"{__name__}.{home}"),
    {
        "lanes": "Lanes TensorRecord",
        "packet_loss": "",
        "sync": "EarlySync LaneState LaneSync lane_hook",
        "tags": "LayerMagnitude Policy Tag",
    },
)
