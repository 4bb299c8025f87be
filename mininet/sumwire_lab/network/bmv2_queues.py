# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Slots of the jobs on bmv2, whose queues to its ports are short.

Each of them holds 64 packets and loses the rest; `simple_switch_grpc` has no option for it. bmv2's threads do not
always run when a result is made, so the results for all chunks in flight can stand in the queue to a worker's port.
Half of the slots are in flight.

Example: with 256 slots up to 128 results wait for one port, and up to half of them are lost. With 128 slots none is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

_QUEUE_PACKETS: Final = 64
BMV2_SLOTS: Final = 2 * _QUEUE_PACKETS
"""The most slots of a job on bmv2."""


def fitted(jobs: Sequence[dict[str, Any]], kind: str | None) -> list[dict[str, Any]]:
    """The jobs (in the controller's configuration) with as many slots as this kind of switch bears.

    Jobs with lanes keep theirs: their windows follow round trips and marks.
    """
    if kind != "bmv2":
        return list(jobs)
    return [entry if "lanes" in entry else {**entry, "slots": _at_most(entry["slots"])} for entry in jobs]


def _at_most(slots: dict[str, int]) -> dict[str, int]:
    return {**slots, "count": min(slots["count"], BMV2_SLOTS)}
