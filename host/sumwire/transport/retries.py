# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""How a chunk without a result is sent again: unchanged, with FLUSH, as a PROBE, or as a question to other workers.

* FLUSH is the contribution once more, and lets the switch close the slot with one contribution less. It spends the
  tensor's loss budget (:mod:`sumwire.transport.budget`). So that one lost contribution does not make every worker
  spend, each chunk has one worker that flushes at its first retry. The others flush only at their second.
  Example: with 3 workers, chunk 7 is flushed first by the worker of rank 1 (7 mod 3), and at the second retry by all.
* PROBE is a header without payload that asks the switch who is in the slot's sum. The answer, INFORM, says whether
  this worker's contribution is needed. Probes are used when a retransmission did not help, and when a timer expires:
  most likely the slot then waits for another worker.
  Example: a timer expires for 4 chunks because a straggler is late. Four probes of 32 bytes replace four
  retransmissions of 536 bytes.
  With a loss budget the first retry of the workers that do not flush a chunk is a PROBE too. Most likely the FLUSH
  closes the slot, and a contribution sent beside it would only bring the result a second time.
* A chunk whose slot the switch already uses for a later round can only be recovered from other workers.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np

from sumwire.transport.budget import Budget
from sumwire.transport.in_flight import Chunks
from sumwire.transport.window_options import Turn

# Every third retry is a retransmission instead of a PROBE: in a tree, only a contribution makes a switch send its
# partial result up again, and a retransmission helps even if the answer to it is lost.
_CONTRIBUTION_EVERY: Final = 3
# After so many retries other workers are asked as well: their switch may have the result although this worker's switch
# lost it, for example on the link to the switch above both.
_RECOVER_AFTER: Final = 4
_TRIES_MAX: Final = 255


class SendKind(IntEnum):
    """How chunks are sent."""

    # The contribution, for the first time.
    FIRST = 0
    # The contribution again, with RESYNC.
    RESEND = 1
    # The contribution again, with RESYNC and FLUSH.
    FLUSH = 2
    # A question to the switch.
    PROBE = 3
    # Nothing is sent to the switch: other workers are asked for the result.
    RECOVER = 4
    # Nothing is sent: the last retry was too recent.
    WAIT = 5


class Outgoing(NamedTuple):
    """Chunks (int64 indices in the exchange) that are sent now, all in the same way."""

    chunks: Chunks
    kind: SendKind


class Retries:
    """The retries of one exchange.

    ``budget``: contributions that may be missing; None if none may. ``contributes=False``: this worker only waits for
    results and must never send. ``recovers``: other workers can be asked for results.
    """

    def __init__(
        self,
        chunks: int,
        first_sequence: int,
        *,
        turn: Turn,
        budget: Budget | None,
        probes: bool,
        contributes: bool,
        recovers: bool,
    ) -> None:
        self.budget = budget
        # Whether the switch has answered anything in this exchange.
        self.answered = False
        self._first = first_sequence
        self._turn = turn
        self._probes = probes
        self._recovers = recovers
        self._retried = False
        self._tries = np.zeros(chunks, np.uint8)
        self._lost = np.full(chunks, not contributes)

    def lose(self, chunk: int) -> None:
        """The switch no longer has the chunk's result."""
        self._lost[chunk] = True

    def choose(self, chunks: Chunks, *, overtaken: bool, last: bool) -> Outgoing:
        """The first of the chunks, and all others that are to be sent in the same way. The rest stays due.

        ``overtaken``: results of later chunks have arrived; otherwise a timer has expired. ``last``: these are the
        last open chunks of the exchange.
        """
        kinds = np.array([self._kind(chunk, overtaken, last) for chunk in chunks.tolist()])
        chosen = chunks[kinds == kinds[0]]
        self._tries[chosen] += self._tries[chosen] < _TRIES_MAX
        self._retried = True
        return Outgoing(chosen, SendKind(int(kinds[0])))

    def urgent(self, chunks: Chunks) -> Outgoing:
        """Like :meth:`choose`, for chunks whose contribution the switch asked for or whose result it no longer has."""
        lost = self._lost[chunks]
        return Outgoing(chunks[lost], SendKind.RECOVER) if lost.any() else Outgoing(chunks, SendKind.RESEND)

    def _kind(self, chunk: int, overtaken: bool, last: bool) -> SendKind:
        tries = int(self._tries[chunk])
        # A chunk is found overtaken about once per round trip. It is retried at the 1st, 2nd, 3rd, 5th, 9th, ... time.
        if overtaken and tries & (tries - 1) > 0 and tries > 0:
            return SendKind.WAIT
        if self._lost[chunk] or (self._recovers and tries == _RECOVER_AFTER):
            return SendKind.RECOVER
        own = (self._first + chunk) % self._turn.workers == self._turn.rank
        if self.budget is not None:
            if (own or tries > 0) and self.budget.reserve(chunk):
                return SendKind.FLUSH
            # The FLUSH of another worker closes the slot for all. Only a worker whose result was lost must send, and
            # INFORM tells which one that is.
            if overtaken and not last and tries == 0 and self._probes and self.budget.allowed:
                return SendKind.PROBE
        # Without a PROBE first: an overtaken chunk was most likely lost; the very first packets may have reached no
        # switch; and the last chunks hold up the whole tensor.
        unheard = not self.answered and not self._retried
        if not self._probes or (tries == 0 and (overtaken or last or unheard)):
            return SendKind.RESEND
        return SendKind.RESEND if tries % _CONTRIBUTION_EVERY == _CONTRIBUTION_EVERY - 1 else SendKind.PROBE
