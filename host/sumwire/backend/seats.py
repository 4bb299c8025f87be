# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which worker of which lane of a job a rank of a process group is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sumwire.config import JobConfig


@dataclass(frozen=True)
class Seat:
    """Worker ``worker`` in lane ``lane`` of a job."""

    worker: int
    lane: int


def seat_of(config: JobConfig, ranks: Sequence[int], rank: int, world: int) -> Seat | None:
    """The seat of the ``rank``-th of a group's ``ranks``, global ranks of ``world``. None: the group has no part in the
    job.

    A group of all ranks is the job itself. Where each of the job's workers is a node of several ranks, numbered node by
    node as torchrun does, the ranks with the same number on their nodes are the workers of a lane.

    Example: a job of 2 workers and 2 lanes, and 4 ranks. Group [0, 2] is lane 0 and [1, 3] lane 1; [0, 1] has no part.
    """
    if len(ranks) == world:
        allowed = config.workers_min <= world <= config.job_workers and list(ranks) == list(range(world))
        return Seat(rank, 0) if allowed else None
    if len(ranks) != config.workers or world % config.workers:
        return None
    on_a_node = world // config.workers
    lane = ranks[0]
    in_step = list(ranks) == list(range(lane, world, on_a_node))
    return Seat(rank, lane) if in_step and lane < len(config.lanes) else None
