# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""ACP-SGD: low-rank gradients, one all-reduce a step (alternate compressed Power-SGD, arXiv 2306.08881).

Names are loaded on first use, so that the groups, the shapes and the reference need no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from commonlib.facade import on_first_use

if TYPE_CHECKING:
    from sumwire.lowrank.fusion import Phase as Phase
    from sumwire.lowrank.fusion import Plan as Plan
    from sumwire.lowrank.fusion import make_plan as make_plan
    from sumwire.lowrank.sync import AcpSgd as AcpSgd

__getattr__, __dir__ = on_first_use(
    globals(),
    lambda home: importlib.import_module(f"{__name__}.{home}"),
    {"fusion": "Phase Plan make_plan", "sync": "AcpSgd"},
)
