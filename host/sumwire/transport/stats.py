# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Statistics of a job and of its window."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass
class WindowCounters:
    """Totals over the life of a window, in packets.

    ``resent`` is the sum of ``resent_quick`` (overtaken, or asked for by the switch) and ``resent_timeout``.
    ``flushed``: how many of them had FLUSH. ``duplicates``: results of chunks that already had one.
    """

    sent: int = 0
    resent: int = 0
    resent_quick: int = 0
    resent_timeout: int = 0
    duplicates: int = 0
    stale: int = 0
    flushed: int = 0
    probes: int = 0
    informs: int = 0


@dataclass
class JobStats:
    """Totals since the job was created.

    Bytes are those on an Ethernet link: Ethernet, IPv4, UDP and Sumwire headers and payload, without preamble and
    checksum. Seconds are wall-clock time: ``operation_s`` of whole operations; ``exchange_s`` of sending, waiting and
    receiving; ``encode_s`` and ``decode_s`` of the codec, while packets are also under way.

    Packets: ``retransmissions`` is the sum of ``_quick`` (overtaken, or asked for by the switch) and ``_timeout``;
    ``flushed`` counts those with FLUSH; ``probes`` (and HELLOs) were sent; ``stale`` and ``informs`` were received;
    ``duplicates`` are repeated or late results; ``ignored`` are malformed or foreign; in a job with a key, ``forged``
    counts those with a wrong authentication tag. ``messages_sent`` and ``messages_received``: what the kernel moved in
    one piece each, a packet or a train of them. ``without_trains``: in how many of the two directions packets go one by
    one, because kernel or device supports no trains.

    Chunks: ``left_out``, results without this worker's contribution; ``trimmed``, results that lack planes;
    ``ce_marks``, results with a CE mark, their own (if the window follows marks) or a contribution's; ``recovered``,
    results from other workers; ``ahead``, results that arrived before this worker began their exchange. ``missing``
    counts the contributions that results lack, over all workers. ``refused_questions`` came to the recovery port from
    no worker's address, were malformed, or above the rate of their address.

    ``fallbacks``: how often the workers have agreed on the fall-back, and ``returns`` on going back to the switch.
    ``fallback_operations`` were made by the process group.

    ``one_trip_operations``: those on small tensors whose norms needed no separate round trip. ``repeated_operations``:
    those among them whose carried norms did not fit, so that the tensor was sent twice. ``group_operations`` and
    ``group_values``: made by the process group by choice, since it is the faster one for tensors of their size.
    """

    operations: int = 0
    values: int = 0
    packets_sent: int = 0
    packets_received: int = 0
    messages_sent: int = 0
    messages_received: int = 0
    without_trains: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    retransmissions: int = 0
    retransmissions_quick: int = 0
    retransmissions_timeout: int = 0
    duplicates: int = 0
    stale: int = 0
    ignored: int = 0
    forged: int = 0
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
    refused_questions: int = 0
    fallbacks: int = 0
    fallback_operations: int = 0
    returns: int = 0
    one_trip_operations: int = 0
    repeated_operations: int = 0
    group_operations: int = 0
    group_values: int = 0

    def as_dict(self) -> dict[str, float]:
        """Return the contents as values that JSON can hold."""
        return asdict(self)
