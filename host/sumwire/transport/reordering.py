# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Whether results overtake each other without any loss: on several paths, or from several processes of an aggregator.

The job says whether there are several paths. Several processes show: nearly everything that was sent again because it
was overtaken is then answered twice. While that is so, a chunk counts as overtaken only when some time has passed as
well (:attr:`sumwire.transport.timers.Timers.reordering_s`).

Real losses make needless retransmissions too. When one of n contributions is lost, all n workers miss the result and
send again, and n - 1 of them need not have. A lost result is missed by one worker, who had to. With equal losses on all
links the needless share is therefore (n - 1) / (n + 1).

Example: with 4 workers and losses about 60 of 100 are needless; with two processes and no loss, all but a few.
"""

from __future__ import annotations

from typing import Final

# Chunks sent again that are enough to judge by. Older ones count less and less.
JUDGED: Final = 128


class Reordering:
    """``workers``: of the job."""

    def __init__(self, *, several_paths: bool, workers: int) -> None:
        self._several_paths = several_paths
        # Three quarters of the way from what losses make needless to all.
        self._share = 1 - 1 / (2 * (workers + 1))
        self._sent_again = 0.0
        self._needless = 0.0

    @property
    def expected(self) -> bool:
        """Whether later results may arrive first."""
        return self._several_paths or self._needless >= self._share * max(self._sent_again, JUDGED)

    def sent_again(self, count: int) -> None:
        """So many overtaken chunks are sent again."""
        self._sent_again += count
        if self._sent_again > 2 * JUDGED:
            self._sent_again /= 2
            self._needless /= 2

    def answered_twice(self, count: int) -> None:
        """So many second results have arrived of chunks that were sent again."""
        self._needless += count
