# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Configurations of jobs with lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from helpers.transport.udp_bridge import job_mapping
from sumwire.config import JobConfig, parse_job
from sumwire.dlcp.lanes import Lanes

MakeLanes = Callable[..., Lanes]


def lane_mapping(workers: int, lanes: int) -> dict[str, Any]:
    """The content of a job file: jobs 40, 41 ... with 16 slots each."""
    mapping = job_mapping(workers, 16, job=40)
    return mapping | {"format": 3, "lanes": [{"job": 40 + lane, "slots": 16} for lane in range(lanes)]}


def lane_config(worker: int, workers: int, lanes: int) -> JobConfig:
    """One worker's view of `lane_mapping`."""
    return parse_job(lane_mapping(workers, lanes), worker)
