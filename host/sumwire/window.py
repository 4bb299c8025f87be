# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which chunks go out when: a state machine without clock, socket or tensor, for many chunks a call.

Chunks of all exchanges of a job share one sequence number K, counted from 0 and equal on all workers.
Chunk K uses slot ``K mod S`` in round ``K div S``. With a = S // 2 and b = S - a, a chunk goes out only when this
worker has the results of K - a and of K - b (the same chunk unless S is odd). Why no result is ever lost:
if any worker sends K + S, it has the result of K + b, so with a quorum of all workers everybody has sent K + b,
so everybody has the result of K, whose slot is now overwritten. At most S // 2 chunks are in flight.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sumwire.config import SLOTS_MIN
from sumwire.errors import DeadlineError, StaleRunError, UsageError
from sumwire.flight import Flight
from sumwire.rtt import RttEstimator

Chunks = NDArray[np.int64]

ROUND_BITS: Final = 32
_ROUNDS: Final = 1 << ROUND_BITS
_HALF_ROUNDS: Final = 1 << (ROUND_BITS - 1)

# A chunk is resent at once when this many chunks sent after it have their results.
REORDER_TOLERANCE: Final = 3
# Chunks resent when the timer expires the first time: few, since most often a slow worker is all that is missing.
# Each later expiry with results in between doubles them.
TIMEOUT_BURST_CHUNKS: Final = 4

# First timeout where round trips cannot be measured or are not those of full windows, which are mostly queues: in an
# exchange that waits for slow workers, and for the last chunks of any. Too short a timeout costs one small burst.
SHORT_TIMEOUT_S: Final = 0.06

NOTHING: Final = -1
_NO_CHUNKS: Final = np.zeros(0, np.int64)
_NO_TIMES: Final = np.zeros(0)


def round_newer(a: int, b: int) -> bool:
    """Whether round ``a`` comes after ``b`` in serial-number arithmetic (RFC 1982)."""
    return a != b and (a - b) % _ROUNDS < _HALF_ROUNDS


@dataclass
class WindowCounters:
    """Totals over the life of a window, in packets (resent also has its two reasons apart)."""

    sent: int = 0
    resent: int = 0
    resent_quick: int = 0
    resent_timeout: int = 0
    duplicates: int = 0
    stale: int = 0


class Window:
    """The chunks of one exchange after another.

    Use: :meth:`begin`; then until :attr:`done`, give what :meth:`find` makes of results to :meth:`complete`, send
    what :meth:`take` returns until that is nothing, and sleep no longer than :meth:`wake_at`. Chunk numbers in and
    out are indices inside the exchange, as int64 arrays. Times are seconds of any monotonic clock.
    """

    def __init__(self, slots: int, rtt: RttEstimator, *, job: int = 0, deadline_s: float = 10.0) -> None:
        if slots < SLOTS_MIN:
            raise UsageError(f"slots = {slots}: a window needs at least {SLOTS_MIN}")
        self.slots = slots
        self.short_step = slots // 2
        self.long_step = slots - self.short_step
        self.counters = WindowCounters()
        self.base = 0
        self.chunks = 0
        self.open_chunks = 0
        # Chunks below this are ready to be sent, as far as their content goes.
        self.filled = 0
        self._job = job
        self._path_rtt = rtt
        self._short_rtt = RttEstimator(
            initial_s=SHORT_TIMEOUT_S, min_s=SHORT_TIMEOUT_S, max_s=max(SHORT_TIMEOUT_S, rtt.max_s)
        )
        self._rtt = rtt
        self._default_deadline_s = deadline_s
        self._deadline_s = deadline_s
        self._sampled = True
        self._results = 0
        self._prefix = 0
        self._flight = Flight(0)
        # Chunks whose turn has come, in its order; those before _ready_from are sent.
        self._ready = _NO_CHUNKS
        self._ready_from = self._ready_to = 0
        # The three latest transmissions that were answered; the first, the smallest, tells what is overtaken.
        self._answered: list[int] = [0] * REORDER_TOLERANCE
        self._burst = 0
        self._burst_size = TIMEOUT_BURST_CHUNKS
        # Chunks sent later than this are not resent by the timer's latest expiry.
        self._expired_at = 0.0
        self._timer_from = 0.0
        self._progress_at = 0.0

    @property
    def done(self) -> bool:
        return self.open_chunks == 0

    @property
    def in_flight(self) -> int:
        """Chunks that are sent and have no result."""
        return self._flight.count

    @property
    def unsent(self) -> int:
        """Chunks that were never sent."""
        return self.open_chunks - self._flight.count

    def begin(
        self,
        chunks: int,
        now: float,
        *,
        filled: int | None = None,
        sampled: bool = True,
        deadline_s: float | None = None,
    ) -> None:
        """Start an exchange of ``chunks`` chunks, of which the first ``filled`` may be sent (all if None).

        ``sampled=False``: its round trips hold the wait for slow workers, so they are no measure of the path, and
        the timeout starts at SHORT_TIMEOUT_S.
        ``deadline_s``: seconds without any new result after which DeadlineError is raised.
        """
        if not self.done:
            raise UsageError(f"{self.open_chunks} chunks of the exchange before are open")
        self.base += self.chunks
        self.chunks = self.open_chunks = chunks
        self.filled = chunks if filled is None else filled
        self._deadline_s = self._default_deadline_s if deadline_s is None else deadline_s
        self._sampled = sampled
        self._rtt = self._path_rtt if sampled else self._short_rtt
        self._prefix = 0
        self._flight = Flight(chunks)
        self._ready = np.empty(chunks, np.int64)
        self._ready_from = 0
        self._ready_to = min(self.short_step, chunks)
        self._ready[: self._ready_to] = np.arange(self._ready_to)
        self._answered = [0] * REORDER_TOLERANCE
        self._burst = 0
        self._burst_size = TIMEOUT_BURST_CHUNKS
        self._timer_from = self._progress_at = now
        self._path_rtt.settle()
        self._short_rtt.settle()

    def place(self, chunk: int) -> tuple[int, int]:
        """(slot, round) of a chunk."""
        sequence = self.base + chunk
        return sequence % self.slots, sequence // self.slots % _ROUNDS

    def take(self, now: float, most: int) -> Chunks:
        """Up to ``most`` chunks to send now, counted as sent. None to send is an empty array."""
        chunks = self._flight.before(self._overtaken_before(), most)
        if len(chunks):
            self.counters.resent_quick += len(chunks)
            return self._resend(chunks, now)
        chunks = self._take_ready(now, most)
        return chunks if len(chunks) else self._take_expired(now, most)

    def find(self, slots: NDArray[np.integer[Any]], rounds: NDArray[np.integer[Any]]) -> Chunks:
        """The open chunks of this exchange that (slot, round) pairs belong to.

        NOTHING, counted as a duplicate, for a place that is answered already (also earlier in the same call), late or
        foreign.
        """
        span = self.slots << ROUND_BITS
        chunks = (rounds.astype(np.int64) * self.slots + slots - self.base % span) % span
        known = np.flatnonzero((slots < self.slots) & (chunks < self.chunks))
        found = np.full(len(chunks), NOTHING, np.int64)
        fresh = known[self._flight.first_open(chunks[known])]
        found[fresh] = chunks[fresh]
        self.counters.duplicates += len(chunks) - len(fresh)
        return found

    def are_open(self, first: int, last: int) -> bool:
        """Whether all chunks first..last-1 are in flight."""
        return bool(self._flight.flying[first:last].all())

    def complete(self, chunks: Chunks, now: float) -> None:
        """The results of open chunks, as told by :meth:`find`, have come."""
        if not len(chunks):
            return
        flight = self._flight
        self.open_chunks -= len(chunks)
        self._results += len(chunks)
        self._progress_at = now
        flight.land(chunks)
        # A result of a resent chunk counts as the answer to its first sending: were it taken for the resend's, one
        # needless resend would make all before it look overtaken.
        latest = np.sort(flight.first[chunks])[-REORDER_TOLERANCE:].tolist()
        self._answered = sorted(self._answered + latest)[-REORDER_TOLERANCE:]
        self._sample(chunks, now)
        self._follow(chunks)

    def completed(self) -> int:
        """How many chunks from the first on have their results without a gap."""
        self._prefix = self._flight.landed_until(self._prefix)
        return self._prefix

    def on_stale(self, slot: int, switch_round: int) -> None:
        """The switch says that ``slot`` is already in ``switch_round``.

        An answer to an old packet of this worker is ignored. But no slot may leave the round of a chunk that
        this worker still waits for: then StaleRunError is raised.
        """
        self.counters.stale += 1
        chunk = self._flying_in(slot)
        if chunk == NOTHING:
            return
        own_round = self.place(chunk)[1]
        if not round_newer(switch_round, own_round):
            return
        place = f"job {self._job}: slot {slot} is in round {switch_round}, this worker waits for round {own_round}"
        if self._results == 0:
            raise StaleRunError(f"{place}: state of an earlier run; renew the job's generation")
        raise StaleRunError(f"{place}: the other workers went on without it")

    def wake_at(self) -> float:
        """When :meth:`take` or :meth:`check_deadline` next has something to do if no packet comes."""
        deadline = self._progress_at + self._deadline_s
        oldest = self._flight.oldest()
        return deadline if oldest == NOTHING else min(deadline, self._timer_at(oldest))

    def check_deadline(self, now: float) -> None:
        """Raises DeadlineError when no new result has come for the deadline's time."""
        if not self.done and now - self._progress_at >= self._deadline_s:
            raise self.deadline_error(now, max(self._flight.oldest(), 0))

    def deadline_error(self, now: float, chunk: int, missing: Collection[int] | None = None) -> DeadlineError:
        """The error about one open chunk; ``missing`` are the workers known not to be in it."""
        slot, round_ = self.place(chunk)
        return DeadlineError(
            job=self._job,
            slot=slot,
            round_=round_,
            chunk=chunk,
            open_chunks=self.open_chunks,
            waited_s=now - self._progress_at,
            missing=missing,
        )

    def _take_ready(self, now: float, most: int) -> Chunks:
        """Chunks whose turn has come, up to the first that is not filled yet."""
        chunks = self._ready[self._ready_from : min(self._ready_to, self._ready_from + most)]
        if not len(chunks):
            return chunks
        if self.filled < self.chunks:
            empty = np.flatnonzero(chunks >= self.filled)
            chunks = chunks[: empty[0]] if len(empty) else chunks
        self._ready_from += len(chunks)
        self.counters.sent += len(chunks)
        self._flight.send(chunks, now)
        return chunks

    def _take_expired(self, now: float, most: int) -> Chunks:
        oldest = self._flight.oldest()
        if oldest == NOTHING:
            return _NO_CHUNKS
        if self._burst == 0 and now >= self._timer_at(oldest):
            self._expire(now)
        if self._burst == 0:
            return _NO_CHUNKS
        chunks = self._flight.sent_until(self._expired_at, min(most, self._burst))
        if not len(chunks):
            self._burst = 0
            return chunks
        self._burst -= len(chunks)
        self.counters.resent_timeout += len(chunks)
        return self._resend(chunks, now)

    def _resend(self, chunks: Chunks, now: float) -> Chunks:
        self.counters.sent += len(chunks)
        self.counters.resent += len(chunks)
        self._flight.send_again(chunks, now)
        return chunks

    def _sample(self, chunks: Chunks, now: float) -> None:
        """One round trip of those that came together, the longest. Karn's rule: a resent chunk gives no sample."""
        sent_at = self._flight.sent_once_at(chunks) if self._sampled else _NO_TIMES
        if len(sent_at):
            self._rtt.sample(now - float(sent_at.min()))
        else:
            self._rtt.settle()
        self._short_rtt.settle()

    def _follow(self, chunks: Chunks) -> None:
        """Queue the chunks whose turn comes with these results."""
        short, long = self.short_step, self.long_step
        landed = self._flight.landed
        followers = chunks + short
        followers = followers[followers < self.chunks]
        if long != short:
            # Odd S: a chunk needs two results, and both may have come at once.
            followers = followers[(followers < long) | landed[followers - long]]
            others = chunks + long
            others = others[others < self.chunks]
            followers = np.unique(np.concatenate([followers, others[landed[others - short]]]))
        end = self._ready_to + len(followers)
        self._ready[self._ready_to : end] = followers
        self._ready_to = end

    def _overtaken_before(self) -> int:
        """Transmissions with a smaller number are overtaken.

        When the very last chunk is answered, no more can follow to overtake the few still open (as in RFC 5827).
        """
        last = self._answered[-1]
        if last == self._flight.last_first and not self.unsent and self.in_flight <= REORDER_TOLERANCE:
            return last
        return self._answered[0]

    def _timer_at(self, oldest: int) -> float:
        start = max(float(self._flight.sent_at[oldest]), self._timer_from)
        expiry = start + self._rtt.timeout_s
        if self._at_end():
            expiry = min(expiry, max(start, self._progress_at) + self._short_rtt.timeout_s)
        return expiry

    def _at_end(self) -> bool:
        """Only a burst is open. Its timer is short, since the queue that full windows measure has drained."""
        return not self.unsent and self.in_flight <= TIMEOUT_BURST_CHUNKS

    def _expire(self, now: float) -> None:
        progress = self._progress_at > self._timer_from
        self._burst = self._burst_size = self._burst_size * 2 if progress else TIMEOUT_BURST_CHUNKS
        waited_s = self._short_rtt.timeout_s if self._at_end() else self._rtt.timeout_s
        self._expired_at = now - min(waited_s, self._rtt.timeout_s)
        self._timer_from = now
        for rtt in {self._rtt, self._short_rtt}:
            rtt.back_off()

    def _flying_in(self, slot: int) -> int:
        # At most half of the slots are in flight, so a slot has at most one open chunk.
        flying = self._flight.all_flying()
        here = flying[(flying + self.base % self.slots) % self.slots == slot]
        return int(here[0]) if len(here) else NOTHING
