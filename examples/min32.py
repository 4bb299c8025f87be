# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The elementwise minimum of four ranks' numbers: op MIN32, through the software aggregator.

python examples/min32.py
"""

from __future__ import annotations

from pathlib import Path

import loopback
import numpy as np
import sumwire
from numpy.typing import NDArray

RANKS = 4


def free_memory_of(rank: int) -> NDArray[np.uint32]:
    """Every rank's own numbers: say, the free memory of its 100 devices in MiB."""
    return np.random.default_rng(rank).integers(1_000, 80_000, 100, np.uint32)


def work(rank: int, job_file: Path) -> None:
    config = sumwire.load_job(job_file, worker=rank)
    with sumwire.Job(config) as job:
        least = job.min32(free_memory_of(rank))

    assert np.array_equal(least, np.min([free_memory_of(other) for other in range(RANKS)], axis=0))
    loopback.say(rank, f"{len(least)} minima of {RANKS} ranks, the smallest {least.min()}")


if __name__ == "__main__":
    # Every job needs max32: with it the workers greet each other.
    loopback.run(work, ranks=RANKS, ops=["min32", "max32"])
