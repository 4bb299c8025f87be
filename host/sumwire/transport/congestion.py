# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Limits how many chunks may be in flight: :class:`WindowLimit`.

Additive increase, multiplicative decrease, as in DCTCP (RFC 8257): marks decrease the window by half of the share of
results that had them. The signals are ECN marks of switch queues, and round trips far above the shortest one. Loss is
not used as a signal, since some of it is tolerated and the rest retransmitted. The limit only has to avoid congestion
collapse: half of the slots bound the window anyway.

Example: the window starts with 10 chunks and grows by one per result until the first mark, which halves it. After that
it grows by one per round trip. If a quarter of the results keeps being marked, each round trip with a mark takes an
eighth of the window.
"""

from __future__ import annotations

from typing import Final

START_CHUNKS: Final = 10
LEAST_CHUNKS: Final = 4
# How much the latest window of results counts in the share of marked ones (RFC 8257's g).
MARKS_GAIN: Final = 1 / 16
# A mark comes from a queue itself. Long round trips may also be caused by slow workers.
DELAY_FACTOR: Final = 0.8
# Round trips are long when their average is both this many times the shortest one and so many seconds above it. Half of
# the slots are expected to wait in queues, and a worker that is not scheduled for some milliseconds is no congestion.
DELAY_TIMES: Final = 4.0
DELAY_ABOVE_S: Final = 0.1
# Long round trips do not decrease the window below this: the queues then hold other senders' packets.
DELAY_LEAST_CHUNKS: Final = 32


class WindowLimit:
    """The limit. ``chunks`` may be in flight, never more than ``most``. Times are seconds of any monotonic clock."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._least = min(LEAST_CHUNKS, most)
        self._size = float(min(START_CHUNKS, most))
        self._slow_start = True
        self._smoothed_s: float | None = None
        self._shortest_s = 0.0
        self._reduced_at = 0.0
        # The smoothed share of marked results: 1 until known, so that the first mark halves the window.
        self._share = 1.0
        # Results since the share was updated, and those of them that were marked.
        self._seen = 0
        self._marked = 0

    @property
    def chunks(self) -> int:
        return int(self._size)

    @property
    def smoothed_s(self) -> float | None:
        """Smoothed round trip as in RFC 6298, in seconds; None before the first."""
        return self._smoothed_s

    def round_trip(self, seconds: float) -> None:
        """Take in a measured round trip."""
        if self._smoothed_s is None:
            self._smoothed_s = self._shortest_s = seconds
            return
        self._smoothed_s += (seconds - self._smoothed_s) / 8
        self._shortest_s = min(self._shortest_s, seconds)

    def results(self, count: int, now: float, *, marked: int) -> None:
        """Take in ``count`` results, of which ``marked`` have the CE mark."""
        if marked:
            self._reduce(1 - self._share / 2, self._least, now)
        elif self._delayed():
            self._reduce(DELAY_FACTOR, min(DELAY_LEAST_CHUNKS, self.most), now)
        else:
            # Slow start: one more per result. After it: one more per window of results, which is a round trip.
            self._size = min(self._size + (count if self._slow_start else count / self._size), float(self.most))
        if not self._slow_start:
            self._observe(count, marked)

    def _observe(self, count: int, marked: int) -> None:
        """Follow the share of marked results, window by window, from the first mark on."""
        self._seen += count
        self._marked += marked
        if self._seen >= self._size:
            self._share += MARKS_GAIN * (self._marked / self._seen - self._share)
            self._seen = self._marked = 0

    def _delayed(self) -> bool:
        smoothed = self._smoothed_s
        return smoothed is not None and smoothed > max(DELAY_TIMES * self._shortest_s, self._shortest_s + DELAY_ABOVE_S)

    def _reduce(self, factor: float, least: int, now: float) -> None:
        self._slow_start = False
        if now - self._reduced_at < (self._smoothed_s or 0.0):
            return
        self._reduced_at = now
        self._size = min(self._size, max(self._size * factor, float(least)))
