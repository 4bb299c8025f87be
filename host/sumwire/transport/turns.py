# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""When it is a chunk's turn to be sent, in a job whose slots close only with all workers.

With S slots, a = S // 2 and b = S - a, chunk K is sent only when this worker has the results of K - a and of K - b
(the same chunk if S is even). So at most S // 2 chunks are in flight.

Example: with S = 8, chunk 6 waits for the result of chunk 2. With S = 7 (a = 3, b = 4), chunk 4 waits for chunks 1 and
0.

Why no result is lost. Slot ``K mod S`` is overwritten when some worker sends K + S. That worker has the result of
K + b, so all workers have sent K + b, so all workers have the result of K.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sumwire.errors import StaleRunError
from sumwire.transport.in_flight import Chunks, Flight


class Turns:
    """The chunks of one exchange, and the order in which they are sent.

    ``ready``: chunks whose turn has come, in that order, up to the place ``to``. Those before ``taken`` have been sent.
    """

    def __init__(self, chunks: int, slots: int, flight: Flight) -> None:
        self.short_step = slots // 2
        self.long_step = slots - self.short_step
        self._chunks = chunks
        self._flight = flight
        self.ready = np.empty(chunks, np.int64)
        self.taken = 0
        self.to = min(self.short_step, chunks)
        self.ready[: self.to] = np.arange(self.to)

    @property
    def exhausted(self) -> bool:
        """Whether no further chunk has its turn before another result arrives."""
        return self.taken == self.to

    def next(self, most: int, filled: int) -> Chunks:
        """Up to ``most`` chunks whose turn has come, up to the first one that is not below ``filled``."""
        chunks = self.ready[self.taken : min(self.to, self.taken + most)]
        if len(chunks) and filled < self._chunks:
            empty = np.flatnonzero(chunks >= filled)
            chunks = chunks[: empty[0]] if len(empty) else chunks
        self.taken += len(chunks)
        return chunks

    def sort(self) -> None:
        """Put the chunks whose turn has come in order."""
        self.ready[self.taken : self.to].sort()

    def before(self, chunk: int) -> int:
        """How many of the chunks whose turn has come are before this one. They are in order."""
        return int(np.searchsorted(self.ready[self.taken : self.to], chunk))

    def first_open(self, chunks: Chunks) -> NDArray[np.bool_]:
        """Which of the chunks a result can be for, each only where it is named first."""
        return self._flight.first_open(chunks)

    def land(self, chunks: Chunks) -> Chunks:
        """Results of open chunks have arrived. Returns those that were in flight."""
        self._flight.land(chunks)
        return chunks

    def follow(self, chunks: Chunks) -> None:
        """Queue the chunks whose turn comes with the results of ``chunks``."""
        short, long = self.short_step, self.long_step
        landed = self._flight.landed
        followers = chunks + short
        followers = followers[followers < self._chunks]
        if long != short:
            # S is odd: a chunk needs two results, and both may have arrived in the same call.
            followers = followers[(followers < long) | landed[followers - long]]
            others = chunks + long
            others = others[others < self._chunks]
            followers = np.unique(np.concatenate([followers, others[landed[others - short]]]))
        self._queue(followers)

    def overwritten(self, rounds_ahead: int, where: str, *, first_results: bool) -> None:
        """The switch already uses the slot of an open chunk for a later round. Returns if the result can be recovered.

        ``first_results``: the job has had no result yet. ``where`` begins the message. Raises StaleRunError: with a
        quorum of all workers, this is another run.
        """
        raise StaleRunError(
            f"{where}: another run of the job has begun; was a worker restarted? Then start all workers again"
        )

    def _queue(self, chunks: Chunks) -> None:
        end = self.to + len(chunks)
        self.ready[self.to : end] = chunks
        self.to = end
