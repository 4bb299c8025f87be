# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What every all-reduce benchmark measures, computed from the times that its workers wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any


@dataclass(frozen=True)
class Timing:
    """One all-reduce of one size by one system at one link rate."""

    link_mbit: float
    values: int
    system: str
    seconds: float
    """The slowest worker's time, median of the repeats."""
    bound_s: float
    """What a link of this rate needs for the bytes of its busier direction, headers included."""
    link_share: float
    """Utilisation of the link: `bound_s` over `seconds`."""
    host_cpu_s: float
    """CPU seconds of a host per million values, mean of the workers."""


def timing(
    link_mbit: float, values: int, system: str, wire_bytes: float, measured: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The fields of a Timing. `measured`: each worker's record of this size (see `worker.timed`)."""
    bound = 8 * wire_bytes / (link_mbit * 1e6)
    seconds = median(max(repeat) for repeat in repeats_of(measured))
    return {
        "link_mbit": link_mbit,
        "values": values,
        "system": system,
        "seconds": seconds,
        "bound_s": bound,
        "link_share": bound / seconds,
        "host_cpu_s": fmean(worker["cpu_s"] for worker in measured) / millions(values, measured),
    }


def repeats_of(measured: Sequence[Mapping[str, Any]]) -> list[tuple[float, ...]]:
    """Seconds of all workers, by repeat."""
    return list(zip(*(worker["seconds"] for worker in measured), strict=True))


def millions(values: int, measured: Sequence[Mapping[str, Any]]) -> float:
    """Millions of values in all repeats together."""
    return len(repeats_of(measured)) * values / 1e6


def retransmissions(measured: Sequence[Mapping[str, Any]]) -> int:
    """Packets sent again by all workers of a session, in all sizes together."""
    return sum(int(worker["stats"].get("retransmissions", 0)) for worker in measured)
