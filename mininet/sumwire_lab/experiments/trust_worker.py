# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A worker whose sums are known: `python -m sumwire_lab.experiments.trust_worker SPEC.json RANK`.

It counts sums that are wrong, and writes them with the seconds of every step.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import sumwire
from numpy.typing import NDArray

from sumwire_lab.system.processes import end_with_parent


def contribution(values: int, rank: int, step: int) -> NDArray[np.int32]:
    """What a worker sends in a step: sums differ from place to place and from step to step."""
    return ((np.arange(values, dtype=np.int64) * 2654435761 + 7919 * step) % 100_003 * (rank + 1)).astype(np.int32)


def main(arguments: list[str]) -> None:
    end_with_parent()
    spec: dict[str, Any] = json.loads(Path(arguments[0]).read_text())
    rank, values = int(arguments[1]), spec["values"]
    factor = sum(range(1, spec["workers"] + 1))
    wrong, seconds = 0, []
    with sumwire.Job(sumwire.load_job(spec["job_file"], worker=rank), fallback="never") as job:
        for step in range(spec["steps"]):
            mine = contribution(values, rank, step)
            began = time.monotonic()
            total = job.sum32(mine)
            seconds.append(time.monotonic() - began)
            wrong += not np.array_equal(total, contribution(values, 0, step) * factor)
    Path(spec["results"][rank]).write_text(json.dumps({"wrong": wrong, "seconds": seconds}))


if __name__ == "__main__":
    main(sys.argv[1:])
