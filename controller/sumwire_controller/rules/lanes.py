# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Rules on a job's lanes: their job ids, slots, limits and UDP ports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Final

from sumwire_controller.derive.lanes import LANES_MAX, RECOVERY_PORTS
from sumwire_controller.derive.row_arguments import RATE_PER_MBIT
from sumwire_controller.errors import Problem
from sumwire_controller.model.config import SPRAYS, Job, SlotRange

JOB_ID_MAX: Final = (1 << 15) - 2
"""A job's multicast group is its id + 1, and bmv2's P4Runtime server reserves the groups from 2^15 on."""
SLOTS_MIN: Final = 2
"""A worker keeps half of its slots in flight, so it needs at least two."""
LIMIT_LEAST: Final = 0.01
LIMIT_MOST: Final = ((1 << 32) - 1) / RATE_PER_MBIT
_UDP_PORT_MAX: Final = (1 << 16) - 1


def lane_rules(path: str, job: Job) -> Iterator[Problem]:
    """The number of lanes, their ids and the number of their slots."""
    if not 1 <= job.lanes <= LANES_MAX:
        yield Problem(path, "lanes", job.lanes, f"must be 1..{LANES_MAX}, the priorities there are")
        return
    if not 0 <= job.id <= JOB_ID_MAX:
        yield Problem(path, "id", job.id, f"must be 0..{JOB_ID_MAX}")
    elif job.ids[-1] > JOB_ID_MAX:
        rule = f"the last of its {job.lanes} lanes would have the id {job.ids[-1]}: at most {JOB_ID_MAX}"
        yield Problem(path, "id", job.id, rule)
    yield from _slots(f"{path}.slots", job.slots, job.lanes)
    if job.spray not in SPRAYS:
        yield Problem(path, "spray", job.spray, f"must be {' or '.join(SPRAYS)}")
    if job.limit_mbit is not None and not LIMIT_LEAST <= job.limit_mbit / job.lanes <= LIMIT_MOST:
        rule = f"must be {LIMIT_LEAST:g}..{LIMIT_MOST:.0f} Mbit/s for each of its {job.lanes} lanes"
        yield Problem(path, "limit_mbit", job.limit_mbit, rule)


def _slots(path: str, slots: SlotRange, lanes: int) -> Iterator[Problem]:
    if slots.count < SLOTS_MIN:
        yield Problem(path, "count", slots.count, f"must be at least {SLOTS_MIN}: half of them are in flight")
    elif slots.count % lanes:
        yield Problem(path, "count", slots.count, f"must be a multiple of {lanes}, so that all lanes have equally many")
    elif slots.count // lanes < SLOTS_MIN:
        rule = f"must be at least {SLOTS_MIN * lanes}: {SLOTS_MIN} for each of {lanes} lanes"
        yield Problem(path, "count", slots.count, rule)


def divides_equally(job: Job, roots: int) -> bool:
    """Can each lane's slots be divided equally among that many roots? A wrong number of lanes counts as one lane."""
    lanes = job.lanes if 1 <= job.lanes <= LANES_MAX and job.slots.count % job.lanes == 0 else 1
    return job.slots.count // lanes % roots == 0


def multiple_for(job: Job, roots: int) -> str:
    """In words: the number of which the number of a job's slots must be a multiple."""
    return str(roots) if job.lanes == 1 else f"{roots * job.lanes} ({job.lanes} lanes)"


def port_rules(path: str, job: Job, hosts: Iterable[tuple[str, int]]) -> Iterator[Problem]:
    """The UDP ports of all lanes, and the ports for recovery above them, end below 65536.

    :param hosts: name and `udp_port` of the job's workers that are hosts.
    """
    room = max(1, min(job.lanes, LANES_MAX)) - 1 + RECOVERY_PORTS
    for name, udp_port in hosts:
        if 0 < udp_port <= _UDP_PORT_MAX < udp_port + room:
            rule = (
                f"{name} has udp_port {udp_port}: must be at most {_UDP_PORT_MAX - room}, as {job.lanes} lanes use "
                f"ports up to udp_port + {room}"
            )
            yield Problem(path, "lanes", job.lanes, rule)


def jobs_distinct(jobs: list[tuple[str, Job]]) -> Iterator[Problem]:
    """No two jobs have the same name or an id in common."""
    for (other_path, other), (path, job) in combinations(jobs, 2):
        if other.name == job.name:
            yield Problem(path, "name", job.name, f"name is already that of {other_path}: give it another")
        yield from _ids(path, job, other_path, other)


def _ids(path: str, job: Job, other_path: str, other: Job) -> Iterator[Problem]:
    if job.id >= other.id + max(other.lanes, 1) or other.id >= job.id + max(job.lanes, 1):
        return
    if job.lanes == other.lanes == 1:
        yield Problem(path, "id", job.id, f"id is already that of {other_path}: give it another")
    else:
        rule = f"ids {shown_ids(job)} of its lanes overlap ids {shown_ids(other)} of {other_path} ({other.name})"
        yield Problem(path, "id", job.id, f"{rule}: give it others")


def shown_ids(job: Job) -> str:
    """The ids of a job's lanes in words: "5" or "5..8"."""
    return str(job.id) if job.lanes == 1 else f"{job.id}..{job.id + job.lanes - 1}"
