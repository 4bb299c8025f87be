# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Whether results overtake each other without any loss: on several paths, or from several processes of an aggregator.

The job says whether there are several paths. Several processes show: nearly everything that was sent again because it
was overtaken is then answered twice. From then on a chunk counts as overtaken only when some time has passed as well
(:attr:`sumwire.transport.timers.Timers.reordering_s`).

Example: of 64 chunks that were sent again, 60 got a second result: nothing was lost but time.
"""

from __future__ import annotations

from typing import Final

# Chunks sent again that are enough to judge by. Older ones count less and less.
JUDGED: Final = 64
# With real losses up to half of what is sent again is needless: other workers' contributions are lost as well.
_NEEDLESS: Final = 3 / 4


class Reordering:
    """``expected``: whether later results may arrive first."""

    def __init__(self, *, several_paths: bool) -> None:
        self.expected = several_paths
        self._sent_again = 0.0
        self._needless = 0.0

    def sent_again(self, count: int) -> None:
        """So many overtaken chunks are sent again."""
        self._sent_again += count
        if self._sent_again > 2 * JUDGED:
            self._sent_again /= 2
            self._needless /= 2

    def answered_twice(self, count: int) -> None:
        """So many second results have arrived of chunks that were sent again."""
        self._needless += count
        if self._needless >= _NEEDLESS * max(self._sent_again, JUDGED):
            self.expected = True
