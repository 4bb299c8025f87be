# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A worker's first operations on a job, or what the doctor says on its host.

`python -m sumwire_lab.faults.setup_workers operations|doctor JOB.json WORKER RESULT.json [REVISION]` writes the error
that the operations ended with, if any, or the doctor's findings, and after how many seconds. `REVISION`: this host
claims to have been built for that revision of the switch's program.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import sumwire
import torch
from sumwire.doctor import findings
from sumwire.doctor.examination import examine
from sumwire_protocol import constants

from sumwire_lab.system.processes import end_with_parent

# More than fit one packet of any op.
_VALUES: Final = 3000


def attempt(job_file: str, worker: int) -> dict[str, Any]:
    """The error of the first operations as `error` (its type) and `text`; both None without one."""
    began = time.monotonic()
    error: Exception | None = None
    try:
        with sumwire.Job(sumwire.load_job(job_file, worker=worker), fallback="never") as job:
            job.max32(np.arange(_VALUES, dtype=np.uint32))
            job.sum32(np.arange(_VALUES, dtype=np.int32))
            job.reduce(torch.arange(_VALUES, dtype=torch.float32))
    # Whatever a user would see is what this row is about.
    except Exception as caught:  # noqa: BLE001
        error = caught
    seconds = time.monotonic() - began
    told = {"error": None, "text": None} if error is None else {"error": type(error).__name__, "text": str(error)}
    return {**told, "seconds": seconds}


def examined(job_file: str, worker: int) -> dict[str, Any]:
    """The doctor's findings."""
    began = time.monotonic()
    found = findings.as_dict(list(examine(Path(job_file), worker)))
    return {**found, "seconds": time.monotonic() - began}


def main(arguments: list[str]) -> None:
    end_with_parent()
    what, job_file, worker, result, *revision = arguments
    if revision:
        vars(constants)["PROGRAM_REVISION"] = int(revision[0])
    partial = Path(result).with_suffix(".partial")
    work = attempt if what == "operations" else examined
    partial.write_text(json.dumps(work(job_file, int(worker))))
    partial.replace(result)


if __name__ == "__main__":
    main(sys.argv[1:])
