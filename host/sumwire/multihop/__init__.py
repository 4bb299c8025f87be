# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rings without a switch: Marsit's ring and torus all-reduce of sign bits over torch.distributed (arXiv 2204.06787),
and DLCP's tagged packets with a loss bound, around a ring or between two hosts.

Names are loaded on first use: only what names a process group needs torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from commonlib.facade import on_first_use

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

__getattr__, __dir__ = on_first_use(
    globals(),
    lambda home: importlib.import_module(f"{__name__}.{home}"),
    {
        "bounded_ring": "BoundedRing PointToPoint",
        "distributed": "CascadeRing GroupRing RingSigns TorusSigns",
        "neighbours": "Neighbours",
        "schedule": "HopError ScheduleError",
    },
)
