# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a link carries, where the kernel's counters of an interface count a train as one packet with one header.

A real card cuts a train and gives each packet its headers. How many packets a job's trains have, the job knows. How
many TCP's have follows from their bytes: no packet has more than the largest segment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sumwire.wire.header import HEADER_BYTES, LOWER_HEADER_BYTES

from sumwire_lab.system.interface_counters import LinkBytes

# Ethernet, IPv4 and TCP with time stamps, and what an Ethernet packet of 1500 bytes then has room for.
TCP_HEADER_BYTES: Final = 14 + 20 + 32
TCP_SEGMENT_BYTES: Final = 1500 - 20 - 32
_COUNTS: Final = tuple(f"{what}_{way}" for way in ("sent", "received") for what in ("packets", "messages", "bytes"))


@dataclass(frozen=True)
class Carried:
    """Bytes in one direction: of all, and of their headers."""

    total: int
    headers: int


def job_counts(stats: Mapping[str, Any]) -> dict[str, int]:
    """What a job has sent and received, out of its statistics; zeros for a system without a job."""
    return {name: int(stats.get(name, 0)) for name in _COUNTS}


def on_wire(used: LinkBytes, before: Mapping[str, int], after: Mapping[str, int]) -> tuple[Carried, Carried]:
    """What a link carried up and down. `used`: by the interface's counters; `before`, `after`: `job_counts`."""
    job = {name: after[name] - before[name] for name in _COUNTS}
    up = _carried(used.tx, used.tx_packets, job["packets_sent"], job["messages_sent"], job["bytes_sent"])
    down = _carried(used.rx, used.rx_packets, job["packets_received"], job["messages_received"], job["bytes_received"])
    return up, down


def _carried(counted: int, pieces: int, packets: int, messages: int, job_bytes: int) -> Carried:
    """`counted` bytes in so many pieces, packets or trains. `messages` of them are a job's, and hold `packets`, which
    have `job_bytes` with all their headers. The rest is TCP."""
    others = max(pieces - messages, 0)
    in_trains = job_bytes - LOWER_HEADER_BYTES * (packets - messages)
    payload = max(counted - in_trains - TCP_HEADER_BYTES * others, 0)
    segments = max(others, -(-payload // TCP_SEGMENT_BYTES))
    headers = (LOWER_HEADER_BYTES + HEADER_BYTES) * packets + TCP_HEADER_BYTES * segments
    return Carried(job_bytes + payload + TCP_HEADER_BYTES * segments, headers)
