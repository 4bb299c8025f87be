# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The backend "sumwire" of torch.distributed: ``init_process_group("sumwire")`` after ``import sumwire``.

Names are loaded on first use, so that registering the backend needs no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sumwire.backend.jobs import Options as Options
    from sumwire.backend.jobs import find_by as find_by
    from sumwire.backend.jobs import job_for as job_for
    from sumwire.backend.jobs import use as use

_HOMES: Final = {"Options": "jobs", "find_by": "jobs", "job_for": "jobs", "use": "jobs"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_HOMES)
