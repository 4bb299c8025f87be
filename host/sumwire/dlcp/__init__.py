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
from typing import TYPE_CHECKING, Any, Final

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

_HOMES: Final = {
    "EarlySync": "sync",
    "LaneState": "sync",
    "LaneSync": "sync",
    "Lanes": "lanes",
    "LayerMagnitude": "tags",
    "Policy": "tags",
    "Tag": "tags",
    "TensorRecord": "lanes",
    "lane_hook": "sync",
}
# Modules that are loaded on first use, as attributes of this package.
_MODULES: Final = frozenset({"packet_loss"})


def __getattr__(name: str) -> Any:
    """Load a public name from its module: tags need no torch."""
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
