# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""When and how a chunk is sent again: timers, overtaken chunks, loss budgets, and the kinds of retry.

* :class:`RttEstimator`, :class:`Timers`: the timeout is that of RFC 6298, from measured round trips. Two cases have a
  short timeout instead, because measured round trips are mostly queueing in full windows: an exchange that waits for
  slow workers, and the last chunks of any exchange. A timeout that is too short costs one small burst.
  Example: the timer expires while 40 chunks wait for a straggler. 4 of them are retried. If results arrive before the
  next expiry, that one retries 8; otherwise 4 again, after twice the time.
* :class:`FastRetransmit`: a chunk is overtaken when results of REORDER_TOLERANCE later transmissions have arrived. It
  is retransmitted without waiting for the timer (compare TCP's three duplicate acknowledgements, RFC 5681). Example:
  chunks 0 to 7 were sent, and 1, 2 and 3 have results. Chunk 0 is overtaken.
* :class:`Reordering`: detects that later results may arrive first without any loss. Several paths are known from the
  job. An aggregator of several processes shows itself: nearly every chunk that is sent again because it was overtaken
  is then answered twice. In this state a chunk only counts as overtaken when some time has passed as well
  (:attr:`Timers.reordering_s`).
* :class:`Budget`: a loss bound p allows floor(p * chunks * workers) missing contributions. They are divided among the
  workers beforehand, so that no two workers spend the same one. A worker spends its budget when it closes slots by
  FLUSH. Every missing contribution is paid by the worker whose FLUSH closed its slot, so the missing share never
  exceeds p. Example: p = 0.01, 500 chunks and 4 workers allow 20 missing contributions, 5 for each worker.
* :class:`Retries`: how a chunk is retried. FLUSH is the contribution once more, and lets the switch close the slot with
  one contribution less. So that one lost contribution does not make every worker spend, each chunk has one worker that
  flushes at its first retry; the others flush only at their second.
  Example: with 3 workers, chunk 7 is flushed first by the worker of rank 1 (7 mod 3), and at the second retry by all.
  PROBE is a header without payload that asks the switch who is in the slot's sum. The answer, INFORM, says whether this
  worker's contribution is needed. Probes are used when a retransmission did not help, and when a timer expires: most
  likely the slot then waits for another worker. With a loss budget, and where packets wait in queues, the first retry
  of the workers that do not flush a chunk is a PROBE too: most likely the FLUSH closes the slot, and a contribution
  sent beside it would only bring the result a second time. In other cases a PROBE is not used, because its round trip
  would make the exchange longer for a worker that has lost the result. A chunk whose slot the switch
  already uses for a later round can only be recovered from other workers. Example: a timer expires for 4 chunks
  because a straggler is late. Four probes of 32 bytes replace four retransmissions of 536 bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np

from sumwire.transport.options import Turn, WindowOptions
from sumwire.transport.scheduling import Chunks

# RFC 6298 section 2.
RTT_ALPHA: Final = 1 / 8
RTT_BETA: Final = 1 / 4
RTT_K: Final = 4
# Of a transport's timer.
RTT_INITIAL_S: Final = 0.2
RTT_LEAST_S: Final = 0.03
RTT_MOST_S: Final = 1.0


class RttEstimator:
    """Estimates the smoothed round trip, its variation, and the timeout. All times are in seconds.

    The caller follows Karn's rule: only chunks that were sent once give a sample. Raises ValueError unless 0 < min_s <=
    initial_s <= max_s.
    """

    def __init__(
        self, *, initial_s: float = RTT_INITIAL_S, min_s: float = RTT_LEAST_S, max_s: float = RTT_MOST_S
    ) -> None:
        if not 0 < min_s <= initial_s <= max_s:
            raise ValueError(f"timeouts {min_s=}, {initial_s=}, {max_s=}: need 0 < min <= initial <= max")
        self._min_s = min_s
        self.max_s = max_s
        self._base_s = initial_s
        self.smoothed_s: float | None = None
        self.variation_s = 0.0
        self.timeout_s = initial_s

    def sample(self, round_trip_s: float) -> None:
        """Take in one measured round trip. It also ends a back-off."""
        if self.smoothed_s is None:
            self.smoothed_s = round_trip_s
            self.variation_s = round_trip_s / 2
        else:
            self.variation_s += RTT_BETA * (abs(self.smoothed_s - round_trip_s) - self.variation_s)
            self.smoothed_s += RTT_ALPHA * (round_trip_s - self.smoothed_s)
        self._base_s = self.timeout_s = min(max(self.smoothed_s + RTT_K * self.variation_s, self._min_s), self.max_s)

    def back_off(self) -> None:
        """Double the timeout after it has expired (RFC 6298, 5.5)."""
        self.timeout_s = min(self.timeout_s * 2, self.max_s)

    def settle(self) -> None:
        """End a back-off: the path answers again."""
        self.timeout_s = self._base_s


REORDER_TOLERANCE: Final = 3


class FastRetransmit:
    """Numbers of the latest answered transmissions of one exchange (see :class:`sumwire.transport.scheduling.Flight`).

    Transmissions with a number below ``threshold`` are overtaken; ``latest`` is the largest answered number.
    ``numbers``: the largest answered ones, rising.
    """

    def __init__(self) -> None:
        self.numbers = [0] * REORDER_TOLERANCE

    @property
    def threshold(self) -> int:
        """The smallest of the REORDER_TOLERANCE latest numbers."""
        return self.numbers[0]

    @property
    def latest(self) -> int:
        """The largest answered number, 0 before the first answer."""
        return self.numbers[-1]

    def answered(self, first_transmissions: list[int]) -> None:
        """Record which chunks were answered, by the numbers of their first transmissions. Only the REORDER_TOLERANCE
        largest matter.

        A retransmitted chunk counts as the answer to its first transmission. If it counted for the retransmission, one
        needless retransmission would make all packets sent before it look overtaken.
        """
        self.numbers = sorted(self.numbers + first_transmissions)[-REORDER_TOLERANCE:]


# Chunks sent again that are enough to judge by. Older ones count less and less.
JUDGED: Final = 128


class Reordering:
    """Detects reordering from needless retransmissions. ``workers``: the number in the job.

    Real losses make needless retransmissions too. When one of n contributions is lost, all n workers miss the result
    and send again, n - 1 of them needlessly. A lost result is missed by one worker, which had to send again. With equal
    losses on all links the needless share is therefore (n - 1) / (n + 1). Example: with 4 workers and losses about 60
    of 100 are needless; with two processes and no loss, all but a few.
    """

    def __init__(self, *, several_paths: bool, workers: int) -> None:
        # Whether later results may arrive first.
        self.expected = several_paths
        self._several_paths = several_paths
        # Three quarters of the way from what losses make needless to all.
        self._share = 1 - 1 / (2 * (workers + 1))
        self._sent_again = 0.0
        self._needless = 0.0

    def sent_again(self, count: int) -> None:
        """Record that ``count`` overtaken chunks are sent again."""
        self._sent_again += count
        if self._sent_again > 2 * JUDGED:
            self._sent_again /= 2
            self._needless /= 2
        self._judge()

    def answered_twice(self, count: int) -> None:
        """Record that ``count`` second results arrived for chunks that were sent again."""
        self._needless += count
        self._judge()

    def _judge(self) -> None:
        needless = self._needless >= self._share * max(self._sent_again, JUDGED)
        self.expected = self._several_paths or needless


# Chunks retried when the timer expires first: few, since most often only a slow worker is missing. Each later expiry
# with results in between doubles it.
TIMEOUT_BURST_CHUNKS: Final = 4
# The short timeout.
SHORT_TIMEOUT_S: Final = 0.06
# The short timeout with adaptive retries, which cost little.
QUICK_TIMEOUT_S: Final = 0.012
# The least timeout of an exchange's last chunks with adaptive retries, in shortest round trips.
END_ROUND_TRIPS: Final = 1.5
# Of the shortest round trip. On a path whose smoothed round trip is longer, most of it is spent in queues.
QUEUED_ROUND_TRIPS: Final = 2.0
# Where later results arrive first, a chunk is overtaken only so many smoothed round trips after its transmission.
PATHS_ROUND_TRIPS: Final = 2.0


class Timers:
    """The timers of one transport. Times are seconds of any monotonic clock.

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
        self._backed_off = False
        self._timer_from = 0.0
        # The shortest round trip so far, with adaptive retries; 0.0 before the first.
        self._shortest_s = 0.0

    def begin(self, now: float, *, sampled: bool) -> None:
        """Begin a new exchange. ``sampled=False``: its round trips include the wait for slow workers, so they are not
        samples of the path."""
        self._sampled = sampled
        self._rtt = self._path_rtt if sampled else self._short_rtt
        self.burst = 0
        self._burst_size = TIMEOUT_BURST_CHUNKS
        self._timer_from = self.progress_at = now
        if self._backed_off:
            self._settle()

    def measured(self, sent_at: float | None, now: float) -> float | None:
        """Record the round trip of results that arrived together, which is that of the chunk longest in flight.

        ``sent_at``: when that chunk was sent, of those sent only once; None if there is none (Karn's rule: a
        retransmitted chunk gives no sample). Returns the sample, or None.
        """
        seconds = None
        if self._sampled and sent_at is not None:
            seconds = now - sent_at
            self._rtt.sample(seconds)
            if self._adaptive:
                self._shortest_s = min(self._shortest_s or seconds, seconds)
        if self._backed_off:
            self._settle()
        return seconds

    def _settle(self) -> None:
        """End the back-off."""
        self._path_rtt.settle()
        self._short_rtt.settle()
        self._backed_off = False

    def expiry(self, oldest_sent_at: float, *, at_end: bool) -> float:
        """Return when the timer expires. ``at_end``: only the exchange's last few chunks are open."""
        start = max(oldest_sent_at, self._timer_from)
        expiry = start + self.timeout_s
        if at_end:
            expiry = min(expiry, max(start, self.progress_at) + self._end_timeout_s())
        return expiry

    def expire(self, now: float, *, at_end: bool) -> None:
        """Record that the timer has expired: allow a burst and back off."""
        progress = self.progress_at > self._timer_from
        self.burst = self._burst_size = self._burst_size * 2 if progress else TIMEOUT_BURST_CHUNKS
        waited_s = self._end_timeout_s() if at_end else self.timeout_s
        self.expired_at = now - min(waited_s, self.timeout_s)
        self._timer_from = now
        for rtt in {self._rtt, self._short_rtt}:
            rtt.back_off()
        self._backed_off = True

    @property
    def timeout_s(self) -> float:
        """The timeout of this exchange, with its back-off. A short timeout is at least a round trip."""
        return max(self._rtt.timeout_s, END_ROUND_TRIPS * self._shortest_s)

    @property
    def queued(self) -> bool:
        """Whether packets spend most of their round trip in queues."""
        smoothed = self._path_rtt.smoothed_s
        return smoothed is not None and smoothed > QUEUED_ROUND_TRIPS * self._shortest_s

    @property
    def reordering_s(self) -> float:
        """How long after its transmission a chunk can still be answered later than chunks sent after it, because
        packets take different paths."""
        smoothed = self._path_rtt.smoothed_s
        return self._short_rtt.timeout_s if smoothed is None else PATHS_ROUND_TRIPS * smoothed

    def _end_timeout_s(self) -> float:
        # The queues have drained, so a round trip is a short one again. On a long path that is not short.
        short_s = max(self._short_rtt.timeout_s, END_ROUND_TRIPS * self._shortest_s)
        return max(short_s, self.reordering_s) if self._reordering.expected else short_s


def allowance(loss_bound: float, chunks: int, workers: int, *, worker: int, sequence: int) -> int:
    """Return how many contributions ``worker`` may leave out of a tensor whose first chunk has number ``sequence`` in
    its job.

    The remainder of the division goes to the workers in turn, by the sequence number, so that small tensors do not
    always favour the same worker. Example: 1 of 3 workers may leave one out of a tensor; for sequence 7 it is worker 1.
    """
    each, rest = divmod(math.floor(loss_bound * chunks * workers), workers)
    return each + ((worker - sequence) % workers < rest)


class Budget:
    """One worker's budget of missing contributions for one tensor. Chunks before ``first`` must be complete. A FLUSH
    leaves out at most one contribution."""

    def __init__(self, allowed: int, first: int = 0) -> None:
        self.allowed = allowed
        self._first = first
        self.spent = 0
        # Chunks that were sent with FLUSH and have no result yet, so that their cost is unknown.
        self.reserved: set[int] = set()

    def reserve(self, chunk: int) -> bool:
        """Return whether ``chunk`` may be flushed, also repeatedly. One contribution is then reserved for it until
        :meth:`settle`.
        """
        if chunk in self.reserved:
            return True
        if chunk < self._first or self.spent + len(self.reserved) >= self.allowed:
            return False
        self.reserved.add(chunk)
        return True

    def settle(self, landed: Callable[[int], bool], cost: Callable[[int], int]) -> None:
        """Charge the budget for flushed chunks that have results (``landed``). ``cost`` returns how many contributions
        the sum of each lacks."""
        for chunk in [chunk for chunk in self.reserved if landed(chunk)]:
            self.reserved.remove(chunk)
            self.spent += cost(chunk)


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
    results and must never send. ``recovers``: other workers can be asked for results. ``begun``: all workers are known
    to have begun the exchange.
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
        begun: bool,
    ) -> None:
        self.budget = budget
        # Whether the switch has answered anything in this exchange.
        self.answered = False
        # Whether all workers have begun it, as a result shows. Until then a timer tells of a slow one, not of a loss.
        self.begun = begun
        self._first = first_sequence
        self._turn = turn
        self._probes = probes
        self._recovers = recovers
        self._retried = False
        self._tries = np.zeros(chunks, np.uint8)
        self._lost = np.full(chunks, not contributes)

    def lose(self, chunk: int) -> None:
        """Record that the switch no longer has the chunk's result."""
        self._lost[chunk] = True

    def choose(self, chunks: Chunks, *, overtaken: bool, last: bool, waited_for: bool) -> Outgoing:
        """Return the first of the chunks, and all others that are to be sent in the same way. The rest stays due.

        ``overtaken``: results of later chunks have arrived; otherwise a timer has expired. ``last``: these are the last
        open chunks of the exchange. ``waited_for``: one more round trip for their results would make the exchange
        longer.
        """
        kinds = np.array([self._kind(chunk, overtaken, last, waited_for) for chunk in chunks.tolist()])
        chosen = chunks[kinds == kinds[0]]
        self._tries[chosen] += self._tries[chosen] < _TRIES_MAX
        self._retried = True
        return Outgoing(chosen, SendKind(int(kinds[0])))

    def urgent(self, chunks: Chunks) -> Outgoing:
        """Like :meth:`choose`, for chunks whose contribution the switch asked for or whose result it no longer has."""
        lost = self._lost[chunks]
        return Outgoing(chunks[lost], SendKind.RECOVER) if lost.any() else Outgoing(chunks, SendKind.RESEND)

    def _kind(self, chunk: int, overtaken: bool, last: bool, waited_for: bool) -> SendKind:
        tries = int(self._tries[chunk])
        # A chunk is found overtaken about once per round trip. It is retried at the 1st, 2nd, 3rd, 5th, 9th, ... time.
        if overtaken and tries & (tries - 1) > 0 and tries > 0:
            return SendKind.WAIT
        if self._lost[chunk] or (self._recovers and tries == _RECOVER_AFTER):
            return SendKind.RECOVER
        own = (self._first + chunk) % self._turn.workers == self._turn.rank
        if self.budget is not None and (overtaken or self.begun):
            if (own or tries > 0) and self.budget.reserve(chunk):
                return SendKind.FLUSH
            # The FLUSH of another worker closes the slot for all. Only a worker whose result was lost must send, and
            # INFORM tells which one that is, a round trip later.
            if overtaken and not waited_for and tries == 0 and self._probes and self.budget.allowed:
                return SendKind.PROBE
        # Without a PROBE first: an overtaken chunk was most likely lost; the very first packets may have reached no
        # switch; and the last chunks hold up the whole tensor.
        unheard = not self.answered and not self._retried
        if not self._probes or (tries == 0 and (overtaken or unheard)) or (tries < 2 and last):
            return SendKind.RESEND
        return SendKind.RESEND if tries % _CONTRIBUTION_EVERY == _CONTRIBUTION_EVERY - 1 else SendKind.PROBE
