# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rules on a job's `degrade`: loss made on purpose, for experiments."""

from __future__ import annotations

import math
from collections.abc import Iterator

from sumwire_controller.derive.row_arguments import SEED_BITS
from sumwire_controller.errors import Problem
from sumwire_controller.model.config import DEGRADE_MODES, Job


def degrade_rules(path: str, job: Job, elsewhere: str) -> Iterator[Problem]:
    """Rules on a job's `degrade`.

    :param elsewhere: another switch in the job's tree; empty if there is none.
    """
    if job.degrade is None:
        return
    if elsewhere:
        rule = f"is only for a job that one switch has alone; {elsewhere} has a part in this one: leave it out"
        yield Problem(path, "degrade", "{...}", rule)
    if "thc" not in job.ops:
        yield Problem(path, "degrade", "{...}", "is only for op thc, which this job does not have: leave it out")
    path = f"{path}.degrade"
    if not 0 <= job.degrade.seed < 1 << SEED_BITS:
        yield Problem(path, "seed", job.degrade.seed, f"must be 0..2^{SEED_BITS}-1")
    if not (math.isfinite(job.degrade.share) and 0 <= job.degrade.share <= 1):
        yield Problem(path, "share", job.degrade.share, "must be 0..1, the share of the packets that are hit")
    if job.degrade.mode not in DEGRADE_MODES:
        yield Problem(path, "mode", job.degrade.mode, f"must be one of {', '.join(DEGRADE_MODES)}")
