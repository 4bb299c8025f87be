# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Chunks that pass links and processors one after another, where one processor is passed twice: a host sends and
receives, and a lower switch adds contributions and spreads results. First come, first served.

Then results wait behind the contributions of the first window, and the links below have nothing to do. Example: a leaf
takes 7 us for a chunk's contributions, which come every 5 us, and 256 chunks may be under way. The first result comes
back after 50 us and finds only a short queue. The hundredth comes after 0.75 ms, behind the contributions of 40 other
chunks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from heapq import heappop, heappush
from typing import Final

_WINDOWS: Final = 8
_CHUNKS_LEAST: Final = 2048


@dataclass(frozen=True)
class Visit:
    """One link or processor on a chunk's way. ``place``: visits of equal places wait for each other; ``seconds``: for a
    chunk; ``then_s``: until the next visit. ``ways``: so many of them take the chunks in turns."""

    place: str
    seconds: float
    then_s: float = 0.0
    ways: int = 1


def passed_twice(visits: tuple[Visit, ...]) -> bool:
    """Return whether a place that takes time is visited more than once."""
    places = [visit.place for visit in visits if visit.seconds > 0]
    return len(set(places)) < len(places)


def seconds_of(visits: tuple[Visit, ...], chunks: int, window: int) -> float:
    """Return the seconds until the last of the chunks has passed, of which no more than a window is under way.

    The first eight windows, or more, are played chunk by chunk. From there on chunks are as far apart as they were in
    the second half of these.
    """
    played = min(chunks, max(_WINDOWS * window, _CHUNKS_LEAST))
    ends = _ends(visits, played, window)
    half = played // 2
    return ends[-1] + (chunks - played) * (ends[-1] - ends[half - 1]) / (played - half)


@lru_cache(maxsize=256)
def _ends(visits: tuple[Visit, ...], chunks: int, window: int) -> list[float]:
    free: dict[tuple[str, int], float] = {}
    ends = [0.0] * chunks
    # (when, which chunk, which visit): what comes first is served first, and of two the earlier chunk.
    coming = [(0.0, chunk, 0) for chunk in range(min(chunks, window))]
    while coming:
        at, chunk, index = heappop(coming)
        visit = visits[index]
        place = (visit.place, chunk % visit.ways)
        at = free[place] = max(at, free.get(place, 0.0)) + visit.seconds
        at += visit.then_s
        if index + 1 < len(visits):
            heappush(coming, (at, chunk, index + 1))
            continue
        ends[chunk] = at
        if chunk + window < chunks:
            heappush(coming, (at, chunk + window, 0))
    return ends
