# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The quick start: `sumwire up`, and `sumwire.init()` in the training script (docs/start.md).

* :func:`job_for`: finds this rank's worker, from a service, a job file, or an aggregator beside rank 0;
* :func:`init`: returns its job.

`sumwire up` needs no torch, so both are loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from commonlib.facade import on_first_use

if TYPE_CHECKING:
    from sumwire.start.rank_placement import JobSource as JobSource
    from sumwire.start.rank_placement import RankPlacement as RankPlacement
    from sumwire.start.rank_placement import job_for as job_for
    from sumwire.start.script import init as init

__getattr__, __dir__ = on_first_use(
    globals(),
    lambda home: importlib.import_module(f"{__name__}.{home}"),
    {"rank_placement": "JobSource RankPlacement job_for", "script": "init"},
)
