# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The errors that a result can bring: it is incomplete, or it is another chunk's."""

from __future__ import annotations

from sumwire.errors import DeadlineError, OrderError
from sumwire.transport.connection import Connection


def incomplete_result(connection: Connection, chunk: int, contributors: int, count: int) -> DeadlineError:
    """A result that was flushed before its quorum was in: some worker's deadline has passed.

    ``contributors``: bitmap of the seats at this worker's switch. It is 0 if a switch above flushed the result before
    this switch's partial result was in. ``count``: contributions in it. Of the workers at other switches only the
    number is known.
    """
    config, window = connection.config, connection.window
    missing = [worker for seat, worker in sorted(config.seats.items()) if not contributors >> seat & 1]
    elsewhere = config.workers - count - len(missing)
    details = [f"{elsewhere} are missing behind other switches"] if elsewhere > 0 else []
    if not contributors:
        missing = []
        details = [f"{count} of {config.workers} workers are in it, this worker's switch was left out as a whole"]
    error = window.deadline_error(connection.clock(), chunk, missing or None)
    return error.with_detail("; ".join(details)) if details else error


def other_chunk(connection: Connection, chunk: int, own_bucket: int, bucket: int, number: int) -> OrderError:
    """A result in the place of ``chunk``, but of chunk ``number`` of ``bucket``: the workers' calls differ."""
    slot, round_ = connection.window.place(chunk)
    return OrderError(
        f"job {connection.config.job}: slot {slot}, round {round_} came back as bucket {bucket} chunk {number}; this "
        f"worker has bucket {own_bucket} chunk {chunk} there: workers must reduce the same tensors in the same order"
    )
