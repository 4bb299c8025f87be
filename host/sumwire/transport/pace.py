# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""How long trains may be: about a millisecond of what the link carries, as this worker sees it.

A train is never divided on its way, so what is urgent waits for it. The link's rate shows in the results: for each one
this worker may send one more packet.

Example: at 100 Mbit/s come 10 results of THC in a millisecond, so trains have 8 packets; at 1 Gbit/s they have 64.
"""

from __future__ import annotations

from typing import Final

from sumwire.wire.trains import TRAIN_ROWS

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
