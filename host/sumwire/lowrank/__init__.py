# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""ACP-SGD: low-rank gradients, one all-reduce a step (alternate compressed Power-SGD, arXiv 2306.08881).

Names are loaded on first use, so that the groups, the shapes and the reference need no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sumwire.lowrank.fusion import Phase as Phase
    from sumwire.lowrank.fusion import Plan as Plan
    from sumwire.lowrank.fusion import make_plan as make_plan
    from sumwire.lowrank.sync import AcpSgd as AcpSgd

_HOMES: Final = {"AcpSgd": "sync", "Phase": "fusion", "Plan": "fusion", "make_plan": "fusion"}


def __getattr__(name: str) -> Any:
    """Load a public name from its module."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_HOMES)
