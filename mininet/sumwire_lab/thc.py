# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Training through the switch, on the worker's side: the library's DDP hook under the lab's timer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import sumwire

from sumwire_lab.comm import HookTimer


def open_hook(job_file: Path, rank: int) -> tuple[HookTimer, Callable[[], dict[str, Any]], Callable[[], None]]:
    """(timed hook, the job's statistics, how to close it). Collective: every worker opens at the same time."""
    job = sumwire.Job(sumwire.load_job(job_file, worker=rank))
    timer = HookTimer(sumwire.ddp_hook, sumwire.DdpState(job))
    return timer, job.stats.as_dict, job.close
