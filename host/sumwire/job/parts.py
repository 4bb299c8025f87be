# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Encode, send, receive and decode of one tensor, part by part, so that link and processor are both busy.

While one part is encoded or decoded, the packets of others travel. A part is about a millisecond of the codec's work:
long enough that calls cost little, short enough that the window does not run dry meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from sumwire.transport.exchange import Exchange
from sumwire.transport.stats import JobStats

PART_VALUES: Final = 1 << 17

# Works on chunks first..last-1.
Step = Callable[[int, int], None]


def carry(exchange: Exchange, encode: Step, decode: Step, *, step: int, stats: JobStats) -> None:
    """All chunks of an exchange: ``encode`` fills its payload, ``decode`` uses its results, each chunk once.

    ``step``: chunks of a part; the last may be shorter. Raises what the exchange and the two raise.
    """
    chunks = exchange.chunks
    encoded = decoded = 0
    while decoded < chunks:
        if encoded < chunks:
            upto = min(encoded + step, chunks)
            began = time.monotonic()
            encode(encoded, upto)
            stats.encode_s += time.monotonic() - began
            encoded = upto
            exchange.ready(encoded)
            done = exchange.progress(block=False)
        else:
            done = exchange.progress(block=True)
        # Where a slot may close without this worker, results come of chunks that it has not encoded yet.
        done = min(done, encoded)
        while decoded < chunks and (done == chunks or done - decoded >= step):
            upto = min(decoded + step, chunks)
            began = time.monotonic()
            decode(decoded, upto)
            stats.decode_s += time.monotonic() - began
            decoded = upto
            if done < chunks:
                done = min(exchange.progress(block=False), encoded)


def part_chunks(chunk_values: int, grain: int) -> int:
    """Chunks of a part: whole grains, about PART_VALUES values."""
    return max(1, PART_VALUES // (chunk_values * grain)) * grain
