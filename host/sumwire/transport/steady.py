# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The C code for the usual life of a chunk: its turn comes, it is sent, and its result arrives with those of its
neighbours.

:class:`sumwire.transport.exchange.FastPath` uses all of it. :class:`sumwire.transport.scheduling.Steady` and
    :class:`sumwire.transport.buffers.Runs` use single steps. Without a compiler, or with SUMWIRE_NATIVE=0, numpy does
    the same, only slower. Unusual events are always handled in Python.
"""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path
from typing import Final

from sumwire.native import NativeFolder
from sumwire.transport.retransmission import REORDER_TOLERANCE, TIMEOUT_BURST_CHUNKS
from sumwire.wire.packets import CHUNK_MASK, HEADER_BYTES, offset_of

# A worker with nothing else to do wakes when one in so many of its open chunks is answered. The rest keeps the switch
# busy meanwhile, and the worker is woken less often.
COLLECTED_PART: Final = 2


class Outcome(IntEnum):
    """Why C ended the fast path (:mod:`sumwire.transport.exchange`)."""

    ENOUGH = 0
    TIME_OVER = 1
    OTHER_MESSAGES = 2
    RECEIVE_FAILED = 3
    OVERTAKEN = 4
    HELD = 5
    FEW_LEFT = 6


NATIVE: Final = NativeFolder(
    "sumwire-transport",
    Path(__file__).parent / "native",
    {
        "HEADER_BYTES": HEADER_BYTES,
        "HEAD_NUMBERS": HEADER_BYTES // 8,
        "CHUNK_MASK": CHUNK_MASK,
        "CHUNK_AT": offset_of("cut_chunk"),
        "COUNT_AT": offset_of("count"),
        "CONTRIBUTORS_AT": offset_of("contributors"),
        "REORDER_TOLERANCE": REORDER_TOLERANCE,
        "TIMEOUT_BURST_CHUNKS": TIMEOUT_BURST_CHUNKS,
        "COLLECTED_PART": COLLECTED_PART,
        **{outcome.name: outcome.value for outcome in Outcome},
    },
    without="numpy sends and takes in results, at a higher price than C",
)
kernels: Final = NATIVE.kernels
