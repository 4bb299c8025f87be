# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The backend "sumwire" of torch.distributed: ``init_process_group("sumwire")`` after ``import sumwire``.

Names are loaded on first use, so that registering the backend needs no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from commonlib.facade import on_first_use

if TYPE_CHECKING:
    from sumwire.backend.jobs import Options as Options
    from sumwire.backend.jobs import calls_at as calls_at
    from sumwire.backend.jobs import find_by as find_by
    from sumwire.backend.jobs import job_for as job_for
    from sumwire.backend.jobs import use as use

__getattr__, __dir__ = on_first_use(
    globals(),
    lambda home: importlib.import_module(f"{__name__}.{home}"),
    {"jobs": "Options calls_at find_by job_for use"},
)
