# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which run's packets a switch takes, from docs/protocol.md: nothing of the project's code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from golden.packets import (
    CONTRIBUTE,
    OPENS_RUN,
    REFUSED,
    STALE,
    TOKENS_OF_RUNS,
    Packet,
    is_hello,
)

if TYPE_CHECKING:
    from golden.model import Job, Slot


def is_of_run(job: Job, packet: Packet) -> bool:
    """Whether the packet's run matters. Else the round alone decides: in greetings, in notices of switches above, and
    where several roots share a slot."""
    greets = packet.token < TOKENS_OF_RUNS or packet.bucket == OPENS_RUN or is_hello(packet)
    return not greets and packet.kind not in (STALE, REFUSED) and not (job.sprays and not job.above(packet))


def run_refusal(packet: Packet, slot: Slot | None, known: tuple[int, int] | None, *, lower: bool) -> str | None:
    """Why a run's packet is refused for its run. ``slot``: None if the packet is the run's first one in it. ``known``:
    token and first round of the job's run."""
    if slot is not None and slot.token == packet.token:
        ahead = (packet.round - slot.round) % 2**32
        return "ROUND" if 1 < ahead < 2**31 and not lower else None
    if known is None or known[0] != packet.token:
        return "TOKEN"
    if slot is not None:
        return None
    ahead = (packet.round - known[1]) % 2**32
    return None if ahead <= 1 or (lower and ahead < 2**31) else "ROUND"


def generation_refusal(packet: Packet, slot: Slot | None, generation: int) -> str | None:
    """What greets or opens a run names the job's generation, where it begins a round: the one in its token, the other
    in its first element. A greeting may leave it out."""
    begins = slot is None or 0 < (packet.round - slot.round) % 2**32 < 2**31
    if packet.kind != CONTRIBUTE or not begins:
        return None
    named = packet.token or generation
    if packet.token >= TOKENS_OF_RUNS:
        named = int.from_bytes(packet.payload[:4]) if packet.bucket == OPENS_RUN else generation
    return None if named == generation else "TOKEN"
