# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""How long trains may be: about a millisecond of what the link carries, as this worker sees it.

A train is never divided on its way, so what is urgent waits for it. The link's rate shows in the results: for each one
this worker may send one more packet.

Example: at 100 Mbit/s come 11 results of THC in a millisecond, so trains have 8 packets; at 1 Gbit/s they have 64.
"""

from __future__ import annotations

from typing import Final

from sumwire.wire.trains import TRAIN_ROWS

_LEAST: Final = 4
# Before anything is known.
_FIRST: Final = 16
_TRAIN_S: Final = 0.001
# The least time over which the rate is measured. Shorter ones measure how the process was scheduled.
_MEASURED_S: Final = 0.01
# A lower rate than the one before counts only so much at once: the worker may have waited for the others.
_KEPT: Final = 7 / 8


class Pace:
    """``train``: the most packets of a train. Times are seconds of any monotonic clock."""

    def __init__(self) -> None:
        self.train = _FIRST
        self._rate = 0.0
        self._latest: float | None = None
        self._seconds = 0.0
        self._count = 0

    def begin(self) -> None:
        """A new exchange begins: the time since the last one says nothing."""
        self._latest = None

    def results(self, count: int, now: float) -> None:
        """Take in that ``count`` results have arrived."""
        if self._latest is not None:
            self._seconds += now - self._latest
            self._count += count
        self._latest = now
        if self._seconds >= _MEASURED_S:
            self._rate = max(self._count / self._seconds, self._rate * _KEPT)
            self._seconds, self._count = 0.0, 0
            self.train = min(max(round(self._rate * _TRAIN_S), _LEAST), TRAIN_ROWS)
