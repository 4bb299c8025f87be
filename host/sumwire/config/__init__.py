# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The configuration of one job, as one worker sees it.

* :class:`JobConfig` and its parts: :mod:`sumwire.config.job_config`;
* :func:`load_job` and :func:`parse_job`, which read and check a job file: :mod:`sumwire.config.jobfile`.
"""

from sumwire.config.job_config import (
    LANES_MAX,
    OP_CODES,
    OP_NAMES,
    OP_WORKERS_MAX,
    PATHS,
    SLOTS_MIN,
    WORKERS_MAX,
    Address,
    Branch,
    JobConfig,
    Lane,
    ThcParameters,
)
from sumwire.config.jobfile import FORMAT, JobFileError, load_job, parse_job

__all__ = [
    "FORMAT",
    "LANES_MAX",
    "OP_CODES",
    "OP_NAMES",
    "OP_WORKERS_MAX",
    "PATHS",
    "SLOTS_MIN",
    "WORKERS_MAX",
    "Address",
    "Branch",
    "JobConfig",
    "JobFileError",
    "Lane",
    "ThcParameters",
    "load_job",
    "parse_job",
]
