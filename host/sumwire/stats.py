# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What a job did so far, in numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass
class JobStats:
    """Totals since the job was made.

    Bytes are those on an Ethernet link: payload, Sumwire header, UDP, IPv4 and Ethernet headers (no preamble, no
    checksum). Seconds are wall-clock: ``operation_s`` is the whole of every all-reduce; ``exchange_s`` the part
    spent sending, waiting and receiving; ``encode_s`` and ``decode_s`` the codec's work, during which packets travel
    too.
    """

    operations: int = 0
    values: int = 0
    packets_sent: int = 0
    packets_received: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    retransmissions: int = 0
    retransmissions_quick: int = 0
    retransmissions_timeout: int = 0
    duplicates: int = 0
    stale: int = 0
    ignored: int = 0
    send_failures: int = 0
    operation_s: float = 0.0
    exchange_s: float = 0.0
    encode_s: float = 0.0
    decode_s: float = 0.0
    fallbacks: int = 0
    fallback_operations: int = 0

    def as_dict(self) -> dict[str, float]:
        """For JSON."""
        return asdict(self)
