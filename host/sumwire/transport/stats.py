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

    In chunks: ``left_out``, results that this worker is not in; ``trimmed``, results of which planes were cut;
    ``ce_marks``, results of contributions that met a long queue; ``recovered`` from other workers; ``ahead``, results
    that came before this worker was there. ``missing``: contributions that results lack, of all workers. In packets:
    ``flushed``, ``probes``, ``informs``.
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
    missing: int = 0
    left_out: int = 0
    flushed: int = 0
    probes: int = 0
    informs: int = 0
    trimmed: int = 0
    ce_marks: int = 0
    recovered: int = 0
    ahead: int = 0
    fallbacks: int = 0
    fallback_operations: int = 0

    def as_dict(self) -> dict[str, float]:
        """For JSON."""
        return asdict(self)
