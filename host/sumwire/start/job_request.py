# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Turns a user's request into the content of a job file, with enough slots for the link.

Used by `programs`, `service` and `rank_placement`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sumwire_protocol import constants as p4
from sumwire_protocol.tables import AUTO

from sumwire.config import parse_job
from sumwire.config.jobfile import DEFAULT_OPS, DEFAULT_SLOTS, addresses, tree_of
from sumwire.config.jobfile import complete as all_fields
from sumwire.errors import ConfigError, UsageError
from sumwire.start.errors import ServiceError

DEFAULT_GBIT: Final = 10.0
DEFAULT_RTT_MS: Final = 0.2
DEFAULT_NAME: Final = "sumwire"
DEFAULT_NUMBER: Final = 1
# A worker keeps half of the slots under way. Slots come in whole trains.
_SLOT_STEP: Final = 64
# By the P4 constants alone, since `sumwire doctor` has no time to load numpy.
_HEADERS_BYTES: Final = p4.ETHERNET_BYTES + p4.IPV4_BYTES + p4.UDP_BYTES + p4.SUMWIRE_BYTES
_RESULT_BITS: Final = 8 * (_HEADERS_BYTES + p4.SLOT_WORDS * p4.WORD_BYTES)
# Fields that everybody may read. Any other could be a secret.
_PUBLIC: Final = frozenset(
    {
        "format", "name", "job", "ops", "workers", "quorum", "slots", "addresses", "thc", "lanes", "paths",
        "workers_min", "blind", "tree",
    }
)  # fmt: skip


@dataclass(frozen=True)
class JobRequest:
    """The job that a user asks for. ``gbit``: the rate of a worker's link in Gbit/s. ``rtt_ms``: the round trip to the
    aggregator; in a tree it includes the one from leaf to root. ``bits``: those of THC's indices, None for the default.
    ``port``: the workers' first UDP port. ``workers_min``: the fewest workers of a run; None for all. ``ops``:
    those that its packets may have. ``table``: the kind of THC's table."""

    name: str = DEFAULT_NAME
    number: int = DEFAULT_NUMBER
    bits: int | None = None
    gbit: float = DEFAULT_GBIT
    rtt_ms: float = DEFAULT_RTT_MS
    port: int = p4.SUMWIRE_PORT
    workers_min: int | None = None
    ops: Sequence[str] = DEFAULT_OPS
    table: str = AUTO


def job_file_for(hosts: Sequence[str], aggregator: str, request: JobRequest) -> dict[str, Any]:
    """Return the content of a job file in which every host is a worker. ``hosts``, ``aggregator``: IPv4 addresses.

    THC's table is the best one for the number of workers. Raises ConfigError for an impossible job.
    """
    slots = slots_for(request.gbit, request.rtt_ms)
    return _job_file({"addresses": addresses(hosts, aggregator, request.port)}, slots, request)


def tree_job_file(leaves: Mapping[str, Sequence[str]], root: str, request: JobRequest) -> dict[str, Any]:
    """Like :func:`job_file_for`, for a tree of aggregators with two levels. ``leaves``: the hosts of each leaf."""
    # A chunk is under way for two round trips: to the leaf, and from there to the root.
    slots = slots_for(request.gbit, 2 * request.rtt_ms)
    return _job_file(tree_of(leaves, root, request.port), slots, request)


def _job_file(placed: Mapping[str, list[dict[str, Any]]], slots: int, request: JobRequest) -> dict[str, Any]:
    workers = len(placed["addresses"])
    thc: dict[str, Any] = {} if request.bits is None else {"bits": request.bits}
    thc |= {} if request.table == AUTO else {"table": request.table}
    least = {} if request.workers_min is None else {"workers_min": request.workers_min}
    made = {
        "format": 3, "name": request.name, "job": request.number, "ops": list(request.ops), "workers": workers,
        "quorum": workers, "slots": slots, **({"thc": thc} if thc else {}), **least, **placed,
    }  # fmt: skip
    try:
        return complete_job_file(made)
    except ConfigError as error:
        # There is no job file to correct.
        raise ConfigError(error.field, error.value, error.rule, cure="give another value, or leave it out") from error


def complete_job_file(data: Mapping[str, Any], *, where: str = "job") -> dict[str, Any]:
    """Return a job file's content with all fields. Raises ConfigError."""
    parse_job(data, 0, where=where)
    return dict(all_fields(data, where=where))


def slots_for(gbit: float, rtt_ms: float) -> int:
    """Return the number of slots that keeps a worker's link busy: twice the results in flight during a round trip, at
    least 512.

    Example: 100 Gbit/s and 0.2 ms are 20 Mbit in flight, 2,277 results of 8,784 bits. So the job gets all 4096 slots.
    """
    if not (0 < gbit < math.inf and 0 < rtt_ms < math.inf):
        raise UsageError(
            f"a link of {gbit:g} Gbit/s and a round trip of {rtt_ms:g} ms: both must be above 0, and finite: leave "
            f"them out for {DEFAULT_GBIT:g} and {DEFAULT_RTT_MS:g}"
        )
    under_way = gbit * 1e6 * rtt_ms / _RESULT_BITS
    wanted = math.ceil(2 * under_way / _SLOT_STEP) * _SLOT_STEP
    return min(max(wanted, DEFAULT_SLOTS), p4.SLOTS_TOTAL)


def public(description: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the description, which must contain no secrets. Raises ServiceError if it does."""
    secret = sorted(description.keys() - _PUBLIC)
    if secret:
        raise ServiceError(
            f"the job has {', '.join(secret)}, and plain HTTP would tell it to everybody on the network: bring the job "
            'file to every server in a safe way, and give it to the script: sumwire.init(job="FILE")'
        )
    return description
