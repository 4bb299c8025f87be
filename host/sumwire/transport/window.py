# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which chunks go out when: a state machine without clock, socket or tensor, for many chunks a call.

Chunks of all exchanges of a job share one sequence number K, counted from 0 and equal on all workers.
Chunk K uses slot ``K mod S`` in round ``K div S``. With a = S // 2 and b = S - a, a chunk goes out only when this
worker has the results of K - a and of K - b (the same chunk unless S is odd). Why no result is ever lost:
if any worker sends K + S, it has the result of K + b, so with a quorum of all workers everybody has sent K + b,
so everybody has the result of K, whose slot is now overwritten. At most S // 2 chunks are in flight.

Where a slot may close without some workers (a quorum below their number, or a FLUSH with a loss bound), that is true
only of those who are in the sum of K + b. A worker that was left out may lack the result of K when its slot goes on.
It is then told STALE: nothing is folded into a wrong sum, nor is a wrong result taken, since rounds differ. It gets
the result from another worker, which has it; a window that does not recover raises StaleRunError.
Such a worker also gets results of chunks before it has sent them: they are taken, and the chunks never sent. But what
follows a chunk still waits for all that went before it, so no worker takes a slot from under a chunk of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sumwire.config import SLOTS_MIN
from sumwire.errors import DeadlineError, StaleRunError, UsageError
from sumwire.transport.budget import Budget
from sumwire.transport.congestion import WindowLimit
from sumwire.transport.in_flight import Flight
from sumwire.transport.retries import Chunks, Retries, Turn, Way
from sumwire.transport.rtt import RttEstimator

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
# The same where a retry may be a question or close the slot: cheap enough to be early, and what is lost last is all
# that a tensor then waits for.
QUICK_TIMEOUT_S: Final = 0.012
# The same in round trips, the shortest there was.
END_ROUND_TRIPS: Final = 1.5
# Where packets take several paths, later results come first: a chunk is overtaken only when it was sent so many
# smoothed round trips ago.
PATHS_ROUND_TRIPS: Final = 2.0

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
    flushed: int = 0
    probes: int = 0
    informs: int = 0


@dataclass(frozen=True)
class Manners:
    """What a window does beyond sending again. The default is a plain one, for a quorum of all workers.

    ``careful``: retries are those of :mod:`sumwire.transport.retries`, and timers are quick. ``early``: slots may
    close without
    this worker. ``recovers``: results that the switch has no more come another way. ``lapped``: the others may be ahead
    from the start, since the quorum is below their number. ``paths``: more than one between leaf and root.
    """

    careful: bool = False
    probes: bool = False
    early: bool = False
    recovers: bool = False
    lapped: bool = False
    paths: int = 1
    turn: Turn = field(default_factory=Turn)


class Window:
    """The chunks of one exchange after another.

    Use: :meth:`begin`; then until :attr:`done`, give what :meth:`find` makes of results to :meth:`complete`, send
    what :meth:`take` returns until that is nothing, and sleep no longer than :meth:`wake_at`. Chunk numbers in and
    out are indices inside the exchange, as int64 arrays. Times are seconds of any monotonic clock. ``limit``, if any,
    bounds the chunks in flight below half of the slots.
    """

    def __init__(
        self,
        slots: int,
        rtt: RttEstimator,
        *,
        job: int = 0,
        deadline_s: float = 10.0,
        manners: Manners | None = None,
        limit: WindowLimit | None = None,
    ) -> None:
        if slots < SLOTS_MIN:
            raise UsageError(f"slots = {slots}: a window needs at least {SLOTS_MIN}")
        self.slots = slots
        self.short_step = slots // 2
        self.long_step = slots - self.short_step
        self.counters = WindowCounters()
        # How the chunks that :meth:`take` gave last are to go out.
        self.way = Way.FIRST
        self.limit = limit
        self.manners = manners or Manners()
        # Latest results that other workers keep, where they do.
        self.kept: int | None = None
        self.base = 0
        self.chunks = 0
        self.open_chunks = 0
        # Chunks below this are ready to be sent, as far as their content goes.
        self.filled = 0
        self._job = job
        self._path_rtt = rtt
        short_s = QUICK_TIMEOUT_S if self.manners.careful else SHORT_TIMEOUT_S
        self._short_rtt = RttEstimator(initial_s=short_s, min_s=short_s, max_s=max(short_s, rtt.max_s))
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
        self._retries: Retries | None = None
        # The shortest round trip so far, of a careful window; 0.0 before the first.
        self._shortest_s = 0.0
        self.contributes = True
        # Chunks that the switch asked for by an INFORM.
        self._urgent: list[int] = []

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
        budget: Budget | None = None,
        contributes: bool = True,
    ) -> None:
        """Start an exchange of ``chunks`` chunks, of which the first ``filled`` may be sent (all if None).

        ``sampled=False``: its round trips hold the wait for slow workers, so they are no measure of the path, and
        the timeout starts at SHORT_TIMEOUT_S.
        ``deadline_s``: seconds without any new result after which DeadlineError is raised.
        ``budget``: contributions that may be missing from the sums; needs careful manners.
        ``contributes=False``: nothing is ever sent, results of all chunks are only waited for; the same.
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
        # Chunks whose turn has come; followed only where results may come before that.
        self._turned = np.arange(chunks if self.manners.early else 0) < self._ready_to
        self._answered = [0] * REORDER_TOLERANCE
        self._burst = 0
        self._burst_size = TIMEOUT_BURST_CHUNKS
        self._timer_from = self._progress_at = now
        self._path_rtt.settle()
        self._short_rtt.settle()
        self._urgent = []
        self._retries = None
        self.contributes = contributes
        if self.manners.careful:
            self._retries = Retries(
                chunks,
                self.base,
                turn=self.manners.turn,
                budget=budget,
                probes=self.manners.probes,
                contributes=contributes,
                recovers=self.manners.recovers,
            )
        if not contributes:
            self._ready_from = self._ready_to = 0
            self._flight.send(np.arange(chunks), now)

    def place(self, chunk: int) -> tuple[int, int]:
        """(slot, round) of a chunk."""
        sequence = self.base + chunk
        return sequence % self.slots, sequence // self.slots % _ROUNDS

    def take(self, now: float, most: int) -> Chunks:
        """Up to ``most`` chunks to send now, counted as sent. None to send is an empty array.

        All go out in one way, which :attr:`way` then is.
        """
        if self._urgent and len(chunks := self._take_urgent(now, most)):
            return chunks
        while len(chunks := self._overtaken(now, most)):
            chunks = self._retry(chunks, now, overtaken=True)
            if self.way != Way.WAIT:
                return chunks
        self.way = Way.FIRST
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
        fresh = known[self._flight.first_open(chunks[known], unsent=self.manners.early)]
        found[fresh] = chunks[fresh]
        self.counters.duplicates += len(chunks) - len(fresh)
        return found

    def are_open(self, first: int, last: int) -> bool:
        """Whether all chunks first..last-1 are in flight."""
        return bool(self._flight.flying[first:last].all())

    def complete(self, chunks: Chunks, now: float, *, marked: bool = False) -> None:
        """The results of open chunks, as told by :meth:`find`, have come. ``marked``: some met a long queue."""
        if not len(chunks):
            return
        flight = self._flight
        self.open_chunks -= len(chunks)
        self._results += len(chunks)
        self._progress_at = now
        sent = chunks
        if self.manners.early:
            sent = chunks[flight.flying[chunks]]
            flight.land_early(chunks)
        else:
            flight.land(chunks)
        if self._retries is not None:
            self._retries.answered = True
        # A result of a resent chunk counts as the answer to its first sending: were it taken for the resend's, one
        # needless resend would make all before it look overtaken.
        latest = np.sort(flight.first[sent])[-REORDER_TOLERANCE:].tolist()
        self._answered = sorted(self._answered + latest)[-REORDER_TOLERANCE:]
        self._sample(sent, now)
        if self.limit is not None:
            self.limit.results(len(chunks), now, marked=marked)
        if self.manners.early:
            self._follow_early(chunks)
        else:
            self._follow(chunks)

    def completed(self) -> int:
        """How many chunks from the first on have their results without a gap."""
        self._prefix = self._flight.landed_until(self._prefix)
        return self._prefix

    def settle(self, missing: Callable[[int], bool]) -> None:
        """Book what flushed chunks have cost that have their results; ``missing`` tells of one whether its sum lacks
        some."""
        budget = self._retries.budget if self._retries is not None else None
        if budget is not None and budget.reserved:
            landed = self._flight.landed
            budget.settle(lambda chunk: bool(landed[chunk]), lambda chunk: int(missing(chunk)))

    def on_stale(self, slot: int, switch_round: int) -> None:
        """The switch says that ``slot`` is already in ``switch_round``.

        An answer to an old packet of this worker is ignored. But where the slot has left the round of a chunk that
        this worker still waits for, its result must come from another worker; a window that does not recover raises
        StaleRunError, as does one that is further behind than what the others keep.
        """
        self.counters.stale += 1
        chunk = self._flying_in(slot)
        if chunk == NOTHING:
            return
        own_round = self.place(chunk)[1]
        if not round_newer(switch_round, own_round):
            return
        place = f"job {self._job}: slot {slot} is in round {switch_round}, this worker waits for round {own_round}"
        # A first exchange without a budget is whole where all are needed: nobody can be ahead in it.
        whole = self._retries is None or self._retries.budget is None
        early = self._results == 0 and whole and not self.manners.lapped
        if self.manners.recovers and not early and self._retries is not None:
            # Whoever sent to that round has the results up to half of the slots before it.
            ahead = (switch_round - own_round) % _ROUNDS * self.slots - self.long_step
            if self.kept is not None and ahead >= self.kept:
                raise StaleRunError(
                    f"{place}: the others are {ahead} chunks ahead and keep the results of {self.kept}, or this is "
                    "state of an earlier run, and the job's generation was not renewed since"
                )
            self._retries.lose(chunk)
            self._urgent.append(chunk)
            return
        if self._results == 0:
            raise StaleRunError(f"{place}: state of an earlier run; renew the job's generation")
        raise StaleRunError(f"{place}: the other workers went on without it")

    def on_inform(self, slot: int, switch_round: int, *, send: bool) -> None:
        """The switch's answer to a PROBE; ``send``: it would do something with this worker's contribution."""
        self.counters.informs += 1
        if self._retries is None:
            return
        self._retries.answered = True
        chunk = self._flying_in(slot)
        if send and chunk != NOTHING and self.place(chunk)[1] == switch_round:
            self._urgent.append(chunk)

    def wake_at(self) -> float:
        """When :meth:`take` or :meth:`check_deadline` next has something to do if no packet comes."""
        deadline = self._progress_at + self._deadline_s
        oldest = self._flight.oldest()
        if oldest == NOTHING:
            return deadline
        if self.manners.paths > 1 and len(self._flight.before(self._overtaken_before(), 1)):
            deadline = min(deadline, float(self._flight.sent_at[oldest]) + self._patience_s())
        return min(deadline, self._timer_at(oldest))

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

    def _overtaken(self, now: float, most: int) -> Chunks:
        chunks = self._flight.before(self._overtaken_before(), most)
        if self.manners.paths > 1 and len(chunks):
            chunks = chunks[self._flight.sent_at[chunks] <= now - self._patience_s()]
        return chunks

    def _patience_s(self) -> float:
        smoothed = self._path_rtt.smoothed_s
        return self._short_rtt.timeout_s if smoothed is None else PATHS_ROUND_TRIPS * smoothed

    def _take_urgent(self, now: float, most: int) -> Chunks:
        """What the switch asked for, or has no more."""
        chunks = np.array(self._urgent[:most], np.int64)
        del self._urgent[:most]
        chunks = np.unique(chunks[self._flight.flying[chunks]])
        if not len(chunks) or self._retries is None:
            return chunks[:0]
        chosen, self.way = self._retries.demanded(chunks)
        # Those in the other way go next.
        self._urgent[:0] = np.setdiff1d(chunks, chosen).tolist()
        self.counters.resent_quick += len(chosen) if self.way != Way.ASK else 0
        return self._resend(chosen, now)

    def _take_ready(self, now: float, most: int) -> Chunks:
        """Chunks whose turn has come, up to the first that is not filled yet."""
        if not self.contributes:
            return _NO_CHUNKS
        if self.limit is not None:
            most = min(most, max(self.limit.chunks - self._flight.count, 0))
        while True:
            chunks = self._ready[self._ready_from : min(self._ready_to, self._ready_from + most)]
            if not len(chunks):
                return chunks
            if self.filled < self.chunks:
                empty = np.flatnonzero(chunks >= self.filled)
                chunks = chunks[: empty[0]] if len(empty) else chunks
            if not len(chunks):
                return chunks
            self._ready_from += len(chunks)
            if self.manners.early:
                open_ones = chunks[~self._flight.landed[chunks]]
                if not len(open_ones):
                    continue
                chunks = open_ones
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
        chunks = self._retry(chunks, now, overtaken=False)
        self._burst -= len(chunks)
        return chunks

    def _retry(self, chunks: Chunks, now: float, *, overtaken: bool) -> Chunks:
        """Those of the chunks that go out again now, in one way."""
        self.way = Way.AGAIN
        if self._retries is not None:
            chunks, self.way = self._retries.choose(chunks, overtaken=overtaken, last=self._at_end())
        if self.way in (Way.AGAIN, Way.FLUSH):
            if overtaken:
                self.counters.resent_quick += len(chunks)
            else:
                self.counters.resent_timeout += len(chunks)
        return self._resend(chunks, now)

    def _resend(self, chunks: Chunks, now: float) -> Chunks:
        counters, way = self.counters, self.way
        if way in (Way.AGAIN, Way.FLUSH):
            counters.sent += len(chunks)
            counters.resent += len(chunks)
            counters.flushed += len(chunks) if way == Way.FLUSH else 0
        elif way == Way.PROBE:
            counters.sent += len(chunks)
            counters.probes += len(chunks)
        self._flight.send_again(chunks, now)
        return chunks

    def _sample(self, chunks: Chunks, now: float) -> None:
        """One round trip of those that came together, the longest. Karn's rule: a resent chunk gives no sample."""
        sent_at = self._flight.sent_once_at(chunks) if self._sampled else _NO_TIMES
        if len(sent_at):
            seconds = now - float(sent_at.min())
            self._rtt.sample(seconds)
            if self.manners.careful:
                self._shortest_s = min(self._shortest_s or seconds, seconds)
            if self.limit is not None:
                self.limit.round_trip(seconds)
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

    def _follow_early(self, chunks: Chunks) -> None:
        """The same where some of the chunks may have had no turn yet, and those that follow may have results."""
        landed, turned = self._flight.landed, self._turned
        passed = chunks[turned[chunks]]
        while len(passed):
            followers = np.unique(np.concatenate([passed + self.short_step, passed + self.long_step]))
            followers = followers[followers < self.chunks]
            followers = followers[~turned[followers]]
            for step in (self.short_step, self.long_step):
                before = followers - step
                followers = followers[(before < 0) | (landed[before] & turned[before])]
            turned[followers] = True
            passed = followers[landed[followers]]
            followers = followers[~landed[followers]]
            end = self._ready_to + len(followers)
            self._ready[self._ready_to : end] = followers
            self._ready_to = end

    def _overtaken_before(self) -> int:
        """Transmissions with a smaller number are overtaken.

        When the last chunk that could go is answered, no more can follow to overtake the few still open (as in
        RFC 5827).
        """
        last = self._answered[-1]
        if last == self._flight.last_first and self._drained() and self.in_flight <= REORDER_TOLERANCE:
            return last
        return self._answered[0]

    def _timer_at(self, oldest: int) -> float:
        start = max(float(self._flight.sent_at[oldest]), self._timer_from)
        expiry = start + self._rtt.timeout_s
        if self._at_end():
            expiry = min(expiry, max(start, self._progress_at) + self._end_timeout_s())
        return expiry

    def _at_end(self) -> bool:
        """Only a burst is open. Its timer is short, since the queue that full windows measure has drained."""
        return self._drained() and self.in_flight <= TIMEOUT_BURST_CHUNKS

    def _drained(self) -> bool:
        """No chunk has its turn before another one's result is here: all are sent, or those left wait for the few in
        flight, in whose slots they follow. A plain window does not look that closely."""
        return not self.unsent or (self.manners.careful and self._ready_from == self._ready_to)

    def _end_timeout_s(self) -> float:
        # With the queues drained a round trip is a short one again, which on a long path is not that short.
        short_s = max(self._short_rtt.timeout_s, END_ROUND_TRIPS * self._shortest_s)
        return max(short_s, self._patience_s()) if self.manners.paths > 1 else short_s

    def _expire(self, now: float) -> None:
        progress = self._progress_at > self._timer_from
        self._burst = self._burst_size = self._burst_size * 2 if progress else TIMEOUT_BURST_CHUNKS
        waited_s = self._end_timeout_s() if self._at_end() else self._rtt.timeout_s
        self._expired_at = now - min(waited_s, self._rtt.timeout_s)
        self._timer_from = now
        for rtt in {self._rtt, self._short_rtt}:
            rtt.back_off()

    def _flying_in(self, slot: int) -> int:
        # At most half of the slots are in flight, so a slot has at most one open chunk.
        flying = self._flight.all_flying()
        here = flying[(flying + self.base % self.slots) % self.slots == slot]
        return int(here[0]) if len(here) else NOTHING
