# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A job's lanes. On the switch every lane is a job of its own. Pure.

Lane k has the job id `id + k`, the k-th of equal parts of the job's slots, and at every worker the UDP port
`udp_port + k`. Example: a job with id 5, slots 0 to 63 and 4 lanes becomes jobs 5, 6, 7 and 8 of 16 slots each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from sumwire_protocol.constants import PRIORITIES

from sumwire_controller.model.config import Config, Job, SlotRange

LANES_MAX: Final = PRIORITIES
"""The number of priorities: a packet's DSCP has 3 bits for them."""
RECOVERY_PORTS: Final = 1000
"""Workers ask each other for results at the lane's UDP port plus this."""


def lane_name(job: Job, lane: int) -> str:
    """The name of a lane: "job/k", or the job's own name if it has one lane."""
    return job.name if job.lanes == 1 else f"{job.name}/{lane}"


def lane_jobs(job: Job) -> tuple[Job, ...]:
    """A job for each lane; the job itself if it has one lane.

    The job must keep the rules of `rules/lanes.py`.
    """
    if job.lanes == 1:
        return (job,)
    count = job.slots.count // job.lanes
    return tuple(
        replace(
            job,
            name=lane_name(job, lane),
            id=number,
            slots=SlotRange(job.slots.base + lane * count, count),
            lanes=1,
            limit_mbit=None if job.limit_mbit is None else job.limit_mbit / job.lanes,
            lane=lane,
        )
        for lane, number in enumerate(job.ids)
    )


def with_lanes(config: Config) -> Config:
    """The configuration with a job for each lane. Calling it again changes nothing."""
    return replace(config, jobs=tuple(lane for job in config.jobs for lane in lane_jobs(job)))


def names_of_lanes(jobs: Iterable[Job], names: Collection[str]) -> frozenset[str]:
    """The names of all lanes of the jobs that `names` has."""
    return frozenset(lane.name for job in jobs if job.name in names for lane in lane_jobs(job))
