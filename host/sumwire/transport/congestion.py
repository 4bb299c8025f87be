# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""How many chunks may be in flight (:class:`WindowLimit`), and how long trains of packets may be (:class:`Pace`).

Additive increase, multiplicative decrease, as in DCTCP (RFC 8257): marks decrease the window by half of the share of
results that had them. The signals are ECN marks of switch queues, and round trips far above the shortest one. Loss is
no signal, since some of it is tolerated and the rest retransmitted. The limit only has to avoid congestion collapse:
half of the slots bound the window anyway.

Example: the window starts with 10 chunks and grows by one per result until the first mark, which halves it. After that
it grows by one per round trip. If a quarter of the results keeps being marked, each round trip with a mark takes an
eighth of the window.

A train (GSO) is never divided on its way, so urgent packets wait behind it. It is limited to about a millisecond of
what the link carries. The link's rate shows in the results: for each one this worker may send one more packet.

Example: at 100 Mbit/s come 10 results of THC in a millisecond, so trains have 8 packets; at 1 Gbit/s they have 64.
"""

from __future__ import annotations

from typing import Final

from sumwire.wire.trains import TRAIN_ROWS

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
    """``chunks`` may be in flight, never more than ``most``. Times are seconds of any monotonic clock."""

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


_LEAST: Final = 4
# Before anything is known.
_FIRST: Final = 16
_TRAIN_S: Final = 0.001
# The least time over which arrivals are counted.
_MEASURED_S: Final = 0.002
# The fastest of late counts, since a busy processor makes a link look slow. So much of a rate is kept from one
# measurement to the next: half of it after some seconds.
_KEPT: Final = 2047 / 2048


class Pace:
    """``train``: the most packets of a train. Times are seconds of any monotonic clock."""

    def __init__(self) -> None:
        self.train = _FIRST
        self._rate = 0.0
        self._since: float | None = None
        self._count = 0

    def begin(self) -> None:
        """A new exchange begins: the time since the last one says nothing."""
        self._since = None

    def arrived(self, count: int, began: float, now: float, *, drained: bool) -> None:
        """Take in that a call that lasted from ``began`` to ``now`` has brought ``count`` packets. ``drained``: it left
        nothing behind."""
        if self._since is not None:
            self._count += count
            if now - self._since < _MEASURED_S:
                return
            self._rate = max(self._count / (now - self._since), self._rate * _KEPT)
            self.train = min(max(round(self._rate * _TRAIN_S), _LEAST), TRAIN_ROWS)
        # What had arrived by then is not counted again.
        self._since, self._count = began if drained else None, 0
