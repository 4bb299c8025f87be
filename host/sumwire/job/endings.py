# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Ends of a job that follow from one round's standings: the same error, with the same text, on every rank."""

from __future__ import annotations

from sumwire.job.standing import Failure, Standing, Vector


def different_calls(job: str, vector: Vector) -> Failure | None:
    """Two ranks make different calls of the same number."""
    first: dict[int, Standing] = {}
    for rank in vector:
        other = first.setdefault(rank.completed, rank) if rank.working else rank
        if other.call != rank.call:
            return Failure(
                "OrderError",
                f"job {job}: operation {rank.completed} is {other.call} on worker {other.worker}, but {rank.call} on "
                f"worker {rank.worker}; make the same calls in the same order on every worker",
            )
    return None


def left(job: str, vector: Vector) -> Failure | None:
    """A rank takes part in no further round."""
    for rank in vector:
        if rank.left:
            return Failure(
                "PeerLostError",
                f"job {job}: worker {rank.worker} has left: {rank.left}; start the training on every worker again",
            )
    return None


def closed_too_early(job: str, vector: Vector, needed: int) -> Failure | None:
    """An operation is under way that fewer than ``needed`` ranks will make."""
    closed = [rank for rank in vector if rank.closing]
    if not closed or len(vector) - len(closed) >= needed:
        return None
    end = max(rank.completed for rank in closed)
    if not any(rank.working and rank.completed >= end for rank in vector):
        return None
    workers = [rank.worker for rank in closed]
    return Failure(
        "PeerLostError",
        f"job {job}: operation {end} cannot be finished: workers {workers} have closed the job; make the same calls on "
        f"every worker",
    )


def never_answered(job: str) -> Failure:
    """All workers have sent their greeting, and its result does not come."""
    return Failure(
        "SwitchLostError",
        f"job {job}: all workers have sent their greeting, and no result comes: the switch waits for other workers, or "
        f"cannot reach the switch above it; compare switch and configuration: `sumwire-controller status CONFIG`",
    )


def too_far_apart(job: str, vector: Vector, operation: int) -> Failure:
    """A rank lacks a result that no other rank keeps any more."""
    completed = {rank.worker: rank.completed for rank in vector}
    return Failure(
        "FallbackError",
        f"job {job}: no fall-back: workers have completed {completed} operations, and none keeps the result of "
        f"operation {operation} any more; keep more with Job(config, kept_chunks=NUMBER)",
    )
