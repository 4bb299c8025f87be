# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Early closing: a slot may close without this worker. Then results can arrive before their turn, or be lost.

A slot closes early when the quorum is below the number of workers, or when a FLUSH spends the loss budget of a tensor.
Two things then differ from :mod:`sumwire.transport.turns`.

* Results arrive of chunks that this worker has not sent. They are accepted, and the chunks are never sent. But a chunk
  still waits for its turn, so this worker never overwrites the slot of an open chunk of its own.
  Example: with S = 4, results of chunks 2 and 4 arrive while chunk 0 is open. Chunk 6 is sent only after the result of
  chunk 0, since 2 follows 0, 4 follows 2, and 6 follows 4.
* The argument that no result is lost only holds for workers that are in the sum. A worker that was left out may lack
  the result of K when the other workers send K + S. The switch answers it with STALE; rounds differ, so nothing is
  added to a wrong sum. The worker gets the result from another worker (:mod:`sumwire.transport.catchup`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sumwire.errors import StaleRunError
from sumwire.transport.in_flight import Chunks, Flight
from sumwire.transport.turns import Turns


class EarlyClosing(Turns):
    """The turns of one exchange whose slots may close without this worker.

    ``from_the_start``: slots may close early in this exchange, so other workers may be ahead even before the first
    result. ``kept_results``: how many of the latest results other workers keep; None if no limit is known.
    """

    def __init__(
        self, chunks: int, slots: int, flight: Flight, *, from_the_start: bool, kept_results: int | None
    ) -> None:
        super().__init__(chunks, slots, flight)
        self._slots = slots
        self._from_the_start = from_the_start
        self._kept_results = kept_results
        # Chunks whose turn has come, sent or not.
        self._turned = np.arange(chunks) < self.to

    def next(self, most: int, filled: int) -> Chunks:
        """Like :meth:`Turns.next`, without the chunks that have results already."""
        while len(chunks := super().next(most, filled)):
            open_ones = chunks[~self._flight.landed[chunks]]
            if len(open_ones):
                return open_ones
        return chunks

    def first_open(self, chunks: Chunks) -> NDArray[np.bool_]:
        """Like :meth:`Turns.first_open`; chunks that were not sent count as open."""
        return self._flight.first_open(chunks, unsent=True)

    def land(self, chunks: Chunks) -> Chunks:
        """Like :meth:`Turns.land`, for chunks that are in flight or were not sent."""
        sent = chunks[self._flight.flying[chunks]]
        self._flight.land_early(chunks)
        return sent

    def follow(self, chunks: Chunks) -> None:
        """Like :meth:`Turns.follow`, where chunks may have no turn yet, and those that follow may have results."""
        landed, turned = self._flight.landed, self._turned
        passed = chunks[turned[chunks]]
        while len(passed):
            followers = np.unique(np.concatenate([passed + self.short_step, passed + self.long_step]))
            followers = followers[followers < self._chunks]
            followers = followers[~turned[followers]]
            for step in (self.short_step, self.long_step):
                before = followers - step
                followers = followers[(before < 0) | (landed[before] & turned[before])]
            turned[followers] = True
            passed = followers[landed[followers]]
            self._queue(followers[~landed[followers]])

    def overwritten(self, rounds_ahead: int, where: str, *, first_results: bool) -> None:
        """Like :meth:`Turns.overwritten`, but raises StaleRunError only if the result cannot be recovered.

        Example: with S = 8 slots and a switch 3 rounds ahead, the other workers have at least the results of the
        3 x 8 - 4 = 20 chunks after this one. If they keep only 16 results, this one is gone.
        """
        if first_results and not self._from_the_start:
            super().overwritten(rounds_ahead, where, first_results=first_results)
        # Whoever sent a chunk of that round has the results up to half of the slots before it.
        ahead = rounds_ahead * self._slots - self.long_step
        if self._kept_results is not None and ahead >= self._kept_results:
            raise StaleRunError(
                f"{where}: the others are {ahead} chunks ahead and keep the results of {self._kept_results}, or "
                "another run of the job has begun; start all workers again, or raise kept_chunks"
            )
