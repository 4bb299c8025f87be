# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The timers of a window: when the oldest chunk in flight is retried, and how many chunks with it.

The timeout is that of RFC 6298, from measured round trips. Two cases have a short timeout instead, because measured
round trips are mostly queueing in full windows: an exchange that waits for slow workers, and the last chunks of any
exchange. A timeout that is too short costs one small burst.

Example: the timer expires while 40 chunks wait for a straggler. 4 of them are retried. If results arrive before the
next expiry, that one retries 8; otherwise 4 again, after twice the time.
"""

from __future__ import annotations

from typing import Final

from sumwire.transport.reordering import Reordering
from sumwire.transport.rtt import RttEstimator
from sumwire.transport.window_options import WindowOptions

# Chunks retried when the timer expires first: few, since most often only a slow worker is missing. Each later expiry
# with results in between doubles it.
TIMEOUT_BURST_CHUNKS: Final = 4
# The short timeout.
SHORT_TIMEOUT_S: Final = 0.06
# The short timeout with adaptive retries, which cost little.
QUICK_TIMEOUT_S: Final = 0.012
# The least timeout of an exchange's last chunks with adaptive retries, in shortest round trips.
END_ROUND_TRIPS: Final = 1.5
# Where later results arrive first, a chunk is overtaken only so many smoothed round trips after its transmission.
PATHS_ROUND_TRIPS: Final = 2.0


class Timers:
    """Times are seconds of any monotonic clock.

    ``burst``: chunks that the latest expiry still lets retry. ``expired_at``: that expiry does not retry chunks that
    were sent later than this. ``progress_at``: when the latest result arrived.
    """

    def __init__(self, rtt: RttEstimator, options: WindowOptions, reordering: Reordering) -> None:
        self.burst = 0
        self.expired_at = 0.0
        self.progress_at = 0.0
        self._adaptive = options.adaptive_retries
        self._reordering = reordering
        short_s = QUICK_TIMEOUT_S if self._adaptive else SHORT_TIMEOUT_S
        self._path_rtt = rtt
        self._short_rtt = RttEstimator(initial_s=short_s, min_s=short_s, max_s=max(short_s, rtt.max_s))
        # One of the two: which of them this exchange's timeout is from.
        self._rtt = rtt
        self._sampled = True
        self._burst_size = TIMEOUT_BURST_CHUNKS
        self._timer_from = 0.0
        # The shortest round trip so far, with adaptive retries; 0.0 before the first.
        self._shortest_s = 0.0

    def begin(self, now: float, *, sampled: bool) -> None:
        """A new exchange begins. ``sampled=False``: its round trips include the wait for slow workers, so they say
        nothing about the path."""
        self._sampled = sampled
        self._rtt = self._path_rtt if sampled else self._short_rtt
        self.burst = 0
        self._burst_size = TIMEOUT_BURST_CHUNKS
        self._timer_from = self.progress_at = now
        self._path_rtt.settle()
        self._short_rtt.settle()

    def measured(self, sent_at: float | None, now: float) -> float | None:
        """Take in the round trip of results that arrived together: that of the longest in flight.

        ``sent_at``: when that chunk was sent, of those sent only once; None if there is none (Karn's rule: a
        retransmitted chunk gives no sample). Returns the sample, or None.
        """
        seconds = None
        if self._sampled and sent_at is not None:
            seconds = now - sent_at
            self._rtt.sample(seconds)
            if self._adaptive:
                self._shortest_s = min(self._shortest_s or seconds, seconds)
        else:
            self._rtt.settle()
        self._short_rtt.settle()
        return seconds

    def expiry(self, oldest_sent_at: float, *, at_end: bool) -> float:
        """When the timer expires. ``at_end``: only the exchange's last few chunks are open."""
        start = max(oldest_sent_at, self._timer_from)
        expiry = start + self._rtt.timeout_s
        if at_end:
            expiry = min(expiry, max(start, self.progress_at) + self._end_timeout_s())
        return expiry

    def expire(self, now: float, *, at_end: bool) -> None:
        """The timer has expired: allow a burst and back off."""
        progress = self.progress_at > self._timer_from
        self.burst = self._burst_size = self._burst_size * 2 if progress else TIMEOUT_BURST_CHUNKS
        waited_s = self._end_timeout_s() if at_end else self._rtt.timeout_s
        self.expired_at = now - min(waited_s, self._rtt.timeout_s)
        self._timer_from = now
        for rtt in {self._rtt, self._short_rtt}:
            rtt.back_off()

    @property
    def timeout_s(self) -> float:
        """Of this exchange, with its back-off."""
        return self._rtt.timeout_s

    @property
    def reordering_s(self) -> float:
        """How long after its transmission a chunk can still be answered later than chunks sent after it, because their
        packets take other paths."""
        smoothed = self._path_rtt.smoothed_s
        return self._short_rtt.timeout_s if smoothed is None else PATHS_ROUND_TRIPS * smoothed

    def _end_timeout_s(self) -> float:
        # The queues have drained, so a round trip is a short one again. On a long path that is not short.
        short_s = max(self._short_rtt.timeout_s, END_ROUND_TRIPS * self._shortest_s)
        return max(short_s, self.reordering_s) if self._reordering.expected else short_s
