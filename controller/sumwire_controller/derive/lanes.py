# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A job's lanes: each priority class is a job of its own on the switch. Pure.

Lane k of a job has the id `id + k`, the k-th part of its slots, and the UDP port `udp_port + k` at every worker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from sumwire_protocol.constants import PRIORITIES

from sumwire_controller.model.config import Config, Job, SlotRange

LANES_MAX: Final = PRIORITIES
"""The priorities there are: 3 bits of a packet's DSCP."""
RECOVERY_PORTS: Final = 1000
"""Workers ask each other for results at the UDP port this far above that of the lane."""


def lane_name(job: Job, lane: int) -> str:
    """What a lane is called; a job of one lane is called by its own name."""
    return job.name if job.lanes == 1 else f"{job.name}/{lane}"


def lane_jobs(job: Job) -> tuple[Job, ...]:
    """The jobs that a job is on the switch: itself if it has one lane.

    The job must keep the rules of `lane_rules.py`.
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
            lane=lane,
        )
        for lane, number in enumerate(job.ids)
    )


def with_lanes(config: Config) -> Config:
    """The configuration with every lane as a job; one that is so already stays as it is."""
    return replace(config, jobs=tuple(lane for job in config.jobs for lane in lane_jobs(job)))


def names_of_lanes(jobs: Iterable[Job], names: Collection[str]) -> frozenset[str]:
    """The names of all lanes of the jobs with these names."""
    return frozenset(lane.name for job in jobs if job.name in names for lane in lane_jobs(job))
