# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Configurations of jobs with lanes."""

from __future__ import annotations

from collections.abc import Callable

from helpers.transport.udp_bridge import job_mapping
from sumwire.config import JobConfig, parse_job
from sumwire.dlcp.lanes import Lanes

MakeLanes = Callable[..., Lanes]


def lane_config(worker: int, workers: int, lanes: int) -> JobConfig:
    """Jobs 40, 41 ... with 16 slots each."""
    mapping = job_mapping(workers, 16, job=40)
    mapping |= {"format": 3, "lanes": [{"job": 40 + lane, "slots": 16} for lane in range(lanes)]}
    return parse_job(mapping, worker)
