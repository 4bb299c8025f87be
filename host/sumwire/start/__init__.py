# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""From a wheel to the first training: `sumwire up`, and `sumwire.init()` in the training script (docs/start.md).

* :func:`job_for`: the worker of this rank, from a service, a job file, or an aggregator beside rank 0;
* :func:`init`: its job.

`sumwire up` needs no torch, so these are loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sumwire.start.rank_placement import JobSource as JobSource
    from sumwire.start.rank_placement import RankPlacement as RankPlacement
    from sumwire.start.rank_placement import job_for as job_for
    from sumwire.start.script import init as init

_HOMES: Final = {
    "RankPlacement": "rank_placement",
    "JobSource": "rank_placement",
    "job_for": "rank_placement",
    "init": "script",
}


def __getattr__(name: str) -> Any:
    """Load a public name from its module."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
