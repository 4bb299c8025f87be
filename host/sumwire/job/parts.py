# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Pipelining of one tensor: encode, send, receive and decode part by part, so that link and processor are both busy.

While one part is encoded or decoded, packets of other parts travel. A part is an eighth of the tensor, but not so small
that the overhead of calls counts, nor so large that the window runs empty meanwhile.

Example: three parts. Part 0 is encoded and sent; part 1 is encoded while part 0 travels; once all results of part 0 are
there, it is decoded while parts 1 and 2 travel.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from sumwire.trace import span
from sumwire.transport.exchange import Exchange
from sumwire.transport.stats import JobStats

# Values of a part.
PART_VALUES_LEAST: Final = 1 << 17
PART_VALUES_MOST: Final = 1 << 19
# Chunks of a part, whatever their values: a packet of signs has 8192.
_PART_CHUNKS_LEAST: Final = 128
_PARTS: Final = 8

# Encodes or decodes chunks first..last-1.
Step = Callable[[int, int], None]


def carry(exchange: Exchange, encode: Step, decode: Step, *, step: int, stats: JobStats, at_end: bool = False) -> None:
    """Carry out an exchange. ``encode`` fills its payload and ``decode`` uses its results, once for each chunk.

    ``step``: chunks per part; the last part may be shorter. ``at_end``: nothing is decoded before all results are
    there. Raises what the exchange, ``encode`` and ``decode`` raise.
    """
    chunks = exchange.chunks
    encoded = decoded = 0
    while decoded < chunks:
        if encoded < chunks:
            upto = min(encoded + step, chunks)
            began = time.monotonic()
            with span("encode"):
                encode(encoded, upto)
            stats.encode_s += time.monotonic() - began
            encoded = upto
            exchange.ready(encoded)
            done = exchange.progress(block=False)
        else:
            done = exchange.progress(block=True, upto=chunks if at_end else min(decoded + step, chunks))
        # Where slots may close early, results can arrive of chunks that this worker has not encoded yet.
        done = min(done, encoded)
        while decoded < chunks and (done == chunks or (done - decoded >= step and not at_end)):
            upto = min(decoded + step, chunks)
            began = time.monotonic()
            with span("decode"):
                decode(decoded, upto)
            stats.decode_s += time.monotonic() - began
            decoded = upto
            if done < chunks:
                done = min(exchange.progress(block=False), encoded)


def part_chunks(chunks: int, chunk_values: int, grain: int) -> int:
    """Chunks per part of a tensor of ``chunks`` chunks: a multiple of ``grain`` chunks, the codec's smallest unit."""
    values = min(max(chunks * chunk_values // _PARTS, PART_VALUES_LEAST), PART_VALUES_MOST)
    return max(1, max(values // chunk_values, _PART_CHUNKS_LEAST) // grain) * grain
