# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""How a chunk that has no result yet goes out again: as it is, with FLUSH, as a question, or to other workers.

* A FLUSH is the contribution once more, and lets the switch close the slot with one contribution less. It spends the
  tensor's budget (:mod:`sumwire.transport.budget`). So that one lost contribution does not make every worker spend,
  each chunk
  has one worker that flushes at once; the others do so only when that has not helped.
* A PROBE is a header that asks who is in the slot's sum. The answer, INFORM, says whether to send again. It is for what
  a contribution sent again has not helped, and for timers: then another worker is most likely what is waited for.
* A chunk that the others are done with, and whose slot went on, is asked for at other workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sumwire.transport.budget import Budget

Chunks = NDArray[np.int64]

# Every third time the contribution itself goes out instead of a question: in a tree, only that makes a switch send its
# partial result up again, and it needs no answer to help.
_CONTRIBUTION_EVERY: Final = 3
# When so many tries have brought nothing, other workers are asked too: their switch may have the result while this
# worker's lost it, for example with the switch above both.
_ASKED_AFTER: Final = 4
_TRIES_MAX: Final = 255


class Way(IntEnum):
    """How the chunks of :meth:`sumwire.transport.window.Window.take` are to go out."""

    FIRST = 0
    AGAIN = 1
    FLUSH = 2
    PROBE = 3
    # Not to the switch: their results are to come from other workers.
    ASK = 4
    # Not at all: it is too early to ask once more.
    WAIT = 5


@dataclass(frozen=True)
class Turn:
    """Which chunks this worker flushes at once: those whose number in the job is ``rank`` modulo ``workers``."""

    rank: int = 0
    workers: int = 1


class Retries:
    """The chunks of one exchange. ``budget`` None: nothing may be missing. ``contributes`` False: this worker only
    waits for results, so that it must never send. ``recovers``: other workers can be asked."""

    def __init__(
        self,
        chunks: int,
        first_sequence: int,
        *,
        turn: Turn,
        budget: Budget | None,
        probes: bool,
        contributes: bool,
        recovers: bool = False,
    ) -> None:
        self._recovers = recovers
        self.budget = budget
        # Whether the switch has said anything in this exchange.
        self.answered = False
        self._retried = False
        self._first = first_sequence
        self._turn = turn
        self._probes = probes
        self._contributes = contributes
        self._tries = np.zeros(chunks, np.uint8)
        self._lost = np.full(chunks, not contributes)

    def lose(self, chunk: int) -> None:
        """The switch has no result of it any more."""
        self._lost[chunk] = True

    def choose(self, chunks: Chunks, *, overtaken: bool, last: bool) -> tuple[Chunks, Way]:
        """Those of the chunks that go out now, all in one way; the others are still to be asked for.

        ``overtaken``: later ones have their results, else a timer has expired. ``last``: these are the last of the
        exchange.
        """
        ways = np.array([self._way(chunk, overtaken, last) for chunk in chunks.tolist()])
        chosen = chunks[ways == ways[0]]
        self._tries[chosen] += self._tries[chosen] < _TRIES_MAX
        self._retried = True
        return chosen, Way(int(ways[0]))

    def demanded(self, chunks: Chunks) -> tuple[Chunks, Way]:
        """The same of chunks that the switch wants sent, or has no more."""
        lost = self._lost[chunks]
        return (chunks[lost], Way.ASK) if lost.any() else (chunks, Way.AGAIN)

    def _way(self, chunk: int, overtaken: bool, last: bool) -> Way:
        tries = int(self._tries[chunk])
        # Overtaken once in a round trip or so: asked for at the 1st, 2nd, 3rd, 5th, 9th, ... of them.
        if overtaken and tries & (tries - 1) > 0 and tries > 0:
            return Way.WAIT
        if self._lost[chunk] or (self._recovers and tries == _ASKED_AFTER):
            return Way.ASK
        budget = self.budget
        own = (self._first + chunk) % self._turn.workers == self._turn.rank
        if budget is not None and (own or tries > 0) and budget.reserve(chunk):
            return Way.FLUSH
        # An overtaken chunk was most likely lost, and a question first would cost a round trip more; the first of all
        # may have found no switch yet; the last hold up the whole tensor.
        unheard = not self.answered and not self._retried
        if not self._probes or (tries == 0 and (overtaken or last or unheard)):
            return Way.AGAIN
        return Way.AGAIN if tries % _CONTRIBUTION_EVERY == _CONTRIBUTION_EVERY - 1 else Way.PROBE


def seats_of_turn(seats: Sequence[int], seat: int) -> Turn:
    """The turn of one of the workers at a switch."""
    return Turn(sorted(seats).index(seat), len(seats))
