# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Workers that make their first operations on a job, or run the doctor on their host, and record the seconds.

The argument is a revision of the switch's program for which this host claims to have been built, or None.
"""

from __future__ import annotations

import time
from typing import Any, Final

import numpy as np
import torch
from sumwire.doctor import findings
from sumwire.doctor.examination import examine
from sumwire_protocol import constants

from sumwire_lab.study.workers import Rank

# More than fit one packet of any op.
_VALUES: Final = 3000


def operations(revision: int | None, rank: Rank) -> dict[str, Any]:
    """Return the error of the first operations as `error` (its type) and `text`; both None without one."""
    _claim(revision)
    began = time.monotonic()
    error: Exception | None = None
    try:
        with rank.job(fallback="never") as job:
            job.max32(np.arange(_VALUES, dtype=np.uint32))
            job.sum32(np.arange(_VALUES, dtype=np.int32))
            job.reduce(torch.arange(_VALUES, dtype=torch.float32))
    # Whatever a user would see is what this row is about.
    except Exception as caught:  # noqa: BLE001
        error = caught
    seconds = time.monotonic() - began
    told = {"error": None, "text": None} if error is None else {"error": type(error).__name__, "text": str(error)}
    return {**told, "seconds": seconds}


def examined(revision: int | None, rank: Rank) -> dict[str, Any]:
    """Return the doctor's findings."""
    _claim(revision)
    assert rank.job_file is not None
    began = time.monotonic()
    found = findings.as_dict(list(examine(rank.job_file, rank.number)))
    return {**found, "seconds": time.monotonic() - began}


def _claim(revision: int | None) -> None:
    if revision is not None:
        vars(constants)["PROGRAM_REVISION"] = revision
