# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Why a packet is refused, told to its sender: the rules of docs/protocol.md, nothing of the project's code."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from golden.packets import (
    BARE,
    CONTRIBUTE,
    PROBE,
    REFUSED,
    UDP_PORT,
    VERSION,
    Host,
    decode,
    ones_complement_sum,
    reply_tos,
    udp_frame,
)

GAP_US = 10_000
REASONS = {
    "LENGTH": 1, "VERSION": 2, "KIND": 3, "OP": 4, "WORDS": 5, "JOB": 6, "WORKER": 7, "PORT": 8, "ADDRESS": 9,
    "SLOT": 10, "JOB_OP": 11, "COUNT": 12, "CHECKSUM": 13, "NOT_SUMWIRE": 14, "CALL": 15, "PARENT": 16,
    "UDP_PORT": 17, "FLAGS": 18, "SOURCE": 19, "BUDGET": 20, "TOKEN": 21, "ROUND": 22, "TAG": 23,
}  # fmt: skip


@dataclass
class Refusals:
    """``senders`` are (port, MAC, address) of those that the switch knows. ``last`` is by port, in microseconds."""

    aggregator: Host
    senders: frozenset[tuple[int, bytes, bytes]] = frozenset()
    last: dict[int, int] = field(default_factory=dict)

    def answer(self, port: int, frame: bytes, reason: str, now: int) -> list[tuple[int, bytes]]:
        """The answer to a refused frame, if it gets one."""
        if (port, frame[6:12], frame[26:30]) not in self.senders or not _is_question(frame, reason):
            return []
        if port in self.last and now - self.last[port] < GAP_US:
            return []
        self.last[port] = now
        told = decode(frame[42:BARE])._replace(
            version=VERSION, kind=REFUSED, count=REASONS[reason], contributors=0, flags=0, words=0, cut=0
        )
        asker = Host(port, frame[6:12], frame[26:30], udp_port=int.from_bytes(frame[34:36]))
        source = replace(self.aggregator, udp_port=UDP_PORT)
        return [(port, udp_frame(source, asker, told.encode(), dscp_ecn=reply_tos(frame)))]


def _is_question(frame: bytes, reason: str) -> bool:
    """Whether it is a contribution or a probe, as far as its header can be trusted."""
    total, udp = int.from_bytes(frame[16:18]), int.from_bytes(frame[38:40])
    if reason in ("NOT_SUMWIRE", "BUDGET") or len(frame) != 14 + total or total != 20 + udp or udp < BARE - 34:
        return False
    return ones_complement_sum(frame[14:34]) == 0xFFFF and frame[42] & 15 in (CONTRIBUTE, PROBE)
