# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Congestion control: how many chunks may be in flight. Additive increase, multiplicative decrease, as in DCTCP (RFC
8257): marks decrease the window by half of the share of results that had them.

The signals are ECN marks of switch queues, and round trips far above the shortest one. Loss is no signal, since some of
it is tolerated and the rest retransmitted. The limit only has to avoid congestion collapse: half of the slots bound the
window anyway.

Example: the window starts with 10 chunks and grows by one per result until the first mark, which halves it. After that
it grows by one per round trip. If a quarter of the results keeps being marked, each round trip with a mark takes an
eighth of the window.

Where no queue marks, a sender that starts late takes others' queue for a part of its shortest round trip, and gives way
too late. So senders whose round trips are long *drain*: every 10 s of the clock that hosts share they have one chunk in
flight, for two round trips. All do so at once, queues run empty, and each measures the way alone.

Example: two senders share a link of 1000 chunks/s, and one of them starts 5 s later. Without drains the late one takes
89 % of the link, with them 53 %.
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
# Senders drain that often, if round trips are so far above the shortest one, for so many of them and so long at most.
DRAIN_EVERY_S: Final = 10.0
DRAIN_ABOVE_S: Final = 0.01
DRAIN_ROUND_TRIPS: Final = 2
DRAIN_MOST_S: Final = 1.0


class WindowLimit:
    """``chunks`` may be in flight, never more than ``most``.

    Times are seconds of any monotonic clock. ``shared_s``: what to add to them for a clock that all hosts share.
    """

    def __init__(self, most: int, *, shared_s: float = 0.0) -> None:
        self.most = most
        self._shared_s = shared_s
        self._least = min(LEAST_CHUNKS, most)
        self._size = float(min(START_CHUNKS, most))
        # Slow start ends at this size, and with the first sign of congestion.
        self._slow_below = float(most)
        self._smoothed_s: float | None = None
        self._shortest_s = 0.0
        self._reduced_at = 0.0
        # The smoothed share of marked results: 1 until known, so that the first mark halves the window.
        self._share = 1.0
        # Results since the share was updated, and those of them that were marked.
        self._seen = 0
        self._marked = 0
        # The period of the shared clock in which this sender has drained, or could have. When the drain ends; 0: none.
        self._period = 0
        self._drains_until = 0.0

    @property
    def chunks(self) -> int:
        return 1 if self._drains_until else int(self._size)

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
        elif self._drains(now):
            return
        elif self._delayed():
            self._reduce(DELAY_FACTOR, min(DELAY_LEAST_CHUNKS, self.most), now)
        else:
            self._grow(count)
        if self._slow_below < self.most:
            self._observe(count, marked)

    def _grow(self, count: int) -> None:
        """Slow start: one more per result. After it: one more per window of results, which is a round trip."""
        if self._size < self._slow_below:
            self._size = min(self._size + count, self._slow_below)
        else:
            self._size = min(self._size + count / self._size, float(self.most))

    def _observe(self, count: int, marked: int) -> None:
        """Follow the share of marked results, window by window, from the first mark on."""
        self._seen += count
        self._marked += marked
        if self._seen >= self._size:
            self._share += MARKS_GAIN * (self._marked / self._seen - self._share)
            self._seen = self._marked = 0

    def _drains(self, now: float) -> bool:
        """Whether senders let the queues run empty now."""
        if self._drains_until:
            if now >= self._drains_until:
                self._drains_until = 0.0
                # The queues of before are gone. They fill slowly again, or time-outs would take them for losses.
                self._smoothed_s = self._shortest_s
                self._slow_below, self._size = self._size, min(self._size, float(START_CHUNKS))
            return True
        period, late_s = divmod(now + self._shared_s, DRAIN_EVERY_S)
        smoothed = self._smoothed_s
        if smoothed is None or period == self._period:
            return False
        self._period = int(period)
        # Others no longer drain where this one has been idle since the period began.
        if smoothed > self._shortest_s + DRAIN_ABOVE_S and late_s < smoothed:
            self._drains_until = now + min(DRAIN_ROUND_TRIPS * smoothed, DRAIN_MOST_S)
        return bool(self._drains_until)

    def _delayed(self) -> bool:
        smoothed = self._smoothed_s
        return smoothed is not None and smoothed > max(DELAY_TIMES * self._shortest_s, self._shortest_s + DELAY_ABOVE_S)

    def _reduce(self, factor: float, least: int, now: float) -> None:
        self._slow_below = 0.0
        if now - self._reduced_at < (self._smoothed_s or 0.0):
            return
        self._reduced_at = now
        self._size = min(self._size, max(self._size * factor, float(least)))
