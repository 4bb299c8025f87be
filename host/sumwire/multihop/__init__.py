# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sign bits without a switch: Marsit's ring and torus all-reduce over torch.distributed (arXiv 2204.06787).

Names are loaded on first use, so that the merge, the schedule and the simulation need no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sumwire.multihop.distributed import CascadeRing as CascadeRing
    from sumwire.multihop.distributed import RingSigns as RingSigns
    from sumwire.multihop.distributed import TorusSigns as TorusSigns
    from sumwire.multihop.errors import HopError as HopError
    from sumwire.multihop.errors import ScheduleError as ScheduleError

_HOMES: Final = {
    "CascadeRing": "distributed",
    "HopError": "errors",
    "RingSigns": "distributed",
    "ScheduleError": "errors",
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
