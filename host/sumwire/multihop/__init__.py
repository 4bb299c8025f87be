# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rings without a switch: Marsit's ring and torus all-reduce of sign bits over torch.distributed (arXiv 2204.06787),
and DLCP's tagged packets with a loss bound, around a ring or between two hosts.

Names are loaded on first use: only what names a process group needs torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sumwire.multihop.bounded_ring import BoundedRing as BoundedRing
    from sumwire.multihop.bounded_ring import PointToPoint as PointToPoint
    from sumwire.multihop.distributed import CascadeRing as CascadeRing
    from sumwire.multihop.distributed import GroupRing as GroupRing
    from sumwire.multihop.distributed import RingSigns as RingSigns
    from sumwire.multihop.distributed import TorusSigns as TorusSigns
    from sumwire.multihop.neighbours import Neighbours as Neighbours
    from sumwire.multihop.schedule import HopError as HopError
    from sumwire.multihop.schedule import ScheduleError as ScheduleError

_HOMES: Final = {
    "BoundedRing": "bounded_ring",
    "CascadeRing": "distributed",
    "GroupRing": "distributed",
    "HopError": "schedule",
    "Neighbours": "neighbours",
    "PointToPoint": "bounded_ring",
    "RingSigns": "distributed",
    "ScheduleError": "schedule",
    "TorusSigns": "distributed",
}


def __getattr__(name: str) -> Any:
    """Load a public name from its module."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_HOMES)
