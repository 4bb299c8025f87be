# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Decides when chunks are sent: a state machine without clock, socket or tensor. A call handles many chunks.

A chunk is sent for one of these reasons, in this order:

1. The switch asked for it, or no longer has its result (:meth:`Window.on_inform`, :meth:`Window.on_stale`).
2. It was overtaken (:mod:`sumwire.transport.retransmission`).
3. It is its turn for the first time (:mod:`sumwire.transport.scheduling`).
4. The timer has expired (:mod:`sumwire.transport.retransmission`).

For cases 1, 2 and 4, :mod:`sumwire.transport.retransmission` decides how it is sent.

Example: S = 8 slots, an exchange of 6 chunks, and the contribution of chunk 0 is lost. Chunks 0 to 3 are sent. The
results of 1, 2 and then 3 arrive, after which chunks 5 (which follows 1) and 0 (overtaken) are sent. The result of 0
allows chunk 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sumwire.config import SLOTS_MIN
from sumwire.errors import DeadlineError, StaleRunError, UsageError
from sumwire.transport.congestion import WindowLimit
from sumwire.transport.options import PLAIN, ExchangeOptions, WindowOptions
from sumwire.transport.retransmission import (
    REORDER_TOLERANCE,
    TIMEOUT_BURST_CHUNKS,
    Budget,
    FastRetransmit,
    Outgoing,
    Reordering,
    Retries,
    RttEstimator,
    SendKind,
    Timers,
)
from sumwire.transport.scheduling import Chunks, EarlyClosing, Flight, SendSchedule, Steady
from sumwire.transport.stats import WindowCounters
from sumwire.transport.steady import kernels
from sumwire.wire.packets import ROUND_BITS, ROUNDS, Place, place_of, round_newer

NOTHING: Final = -1
_NO_CHUNKS: Final = np.zeros(0, np.int64)
# A chunk is sent only when all chunks so many rounds before it have their results, so that whoever looks at one slot
# knows in which rounds the others can be. Only a chunk that is lost again and again makes the others wait.
SPREAD_ROUNDS: Final = 12


class Window:
    """The window of successive exchanges.

    Use: :meth:`begin`; then, until :attr:`done`, pass what :meth:`find` returns for results to :meth:`complete`, send
    what :meth:`take` returns until that is None, and sleep no longer than :meth:`wake_at`. Chunks are int64 indices in
    the exchange. Times are seconds of any monotonic clock. ``limit``: bounds the chunks in flight below S // 2.
    """

    def __init__(
        self,
        slots: int,
        rtt: RttEstimator,
        *,
        job: int = 0,
        options: WindowOptions | None = None,
        limit: WindowLimit | None = None,
    ) -> None:
        if slots < SLOTS_MIN:
            raise UsageError(f"slots = {slots}: a window needs at least {SLOTS_MIN}")
        self.slots = slots
        self.counters = WindowCounters()
        self.limit = limit
        self.options = options or WindowOptions()
        # Sequence number of the exchange's first chunk.
        self.base = 0
        self.chunks = 0
        self.open_chunks = 0
        # The payload of chunks below this is ready.
        self.filled = 0
        self.contributes = True
        self._job = job
        self._reordering = Reordering(several_paths=self.options.paths > 1, workers=self.options.workers)
        self._timers = Timers(rtt, self.options, self._reordering)
        self._results = 0
        # Chunks before this one have their results, as far as looked: see :meth:`completed`.
        self.prefix = 0
        self._flight = Flight(0)
        self._turns = SendSchedule(0, slots, self._flight)
        self._native = kernels()
        # Works on the exchange by C; None if numpy has to.
        self.steady: Steady | None = None
        self._fast = FastRetransmit()
        self._retries: Retries | None = None
        # Chunks that the switch asked for, or whose results it no longer has.
        self._urgent: list[int] = []
        # Chunks that count as sent and the full socket has not accepted yet.
        self.held: Chunks = _NO_CHUNKS

    @property
    def landed(self) -> NDArray[np.bool_]:
        """Which chunks have their results, bool (chunks,)."""
        return self._flight.landed

    @property
    def done(self) -> bool:
        """Whether every chunk of the exchange has its result."""
        return self.open_chunks == 0

    @property
    def in_flight(self) -> int:
        """Number of chunks that are sent and have no result."""
        return self._flight.count

    @property
    def timeout_s(self) -> float:
        """Seconds after which a packet is sent again."""
        return self._timers.timeout_s

    def begin(
        self,
        chunks: int,
        now: float,
        *,
        filled: int | None = None,
        budget: Budget | None = None,
        options: ExchangeOptions = PLAIN,
    ) -> None:
        """Start an exchange of ``chunks`` chunks. The payload of the first ``filled`` chunks is ready (all if None).

        ``budget``: contributions that may be missing from the sums. A budget, and an exchange that does not contribute,
        need ``adaptive_retries``. Raises UsageError while chunks of the previous exchange are open.
        """
        if self.open_chunks:
            raise UsageError(f"{self.open_chunks} chunks of the exchange before are open: finish it first")
        self.base += self.chunks
        self.chunks = self.open_chunks = chunks
        self.filled = chunks if filled is None else filled
        self.contributes = options.contribute
        self.prefix = 0
        self._flight = Flight(chunks)
        self._fast.numbers = [0] * REORDER_TOLERANCE
        self._urgent, self.held = [], _NO_CHUNKS
        if self.options.early_closing:
            self._turns = self._early_closing(bounded=budget is not None)
        else:
            self._turns = SendSchedule(chunks, self.slots, self._flight)
        library = None if self.options.early_closing and not self.contributes else self._native
        self.steady = None if library is None else Steady(library, self._flight, self._turns)
        self._timers.begin(now, sampled=not options.waits_for_workers)
        self._retries = self._new_retries(budget, options) if self.options.adaptive_retries else None
        if not self.contributes:
            self._flight.send(np.arange(chunks), now)

    def restart(self, sequence: int) -> None:
        """Drop all open chunks. The next exchange begins with the chunk of this sequence number."""
        self.base, self.chunks, self.open_chunks = sequence, 0, 0
        self._flight = Flight(0)
        self._turns = SendSchedule(0, self.slots, self._flight)
        self.steady = None
        self._urgent = []
        self._retries = None

    def place(self, chunk: int) -> Place:
        """Return the (slot, round) of a chunk."""
        return place_of(self.base + chunk, self.slots)

    def take(self, now: float, most: int) -> Outgoing | None:
        """Return up to ``most`` chunks to send now, all in the same way; they count as sent. None if there are none."""
        if self._urgent and (urgent := self._take_urgent(now, most)) is not None:
            return urgent
        while len(chunks := self._overtaken(now, most)):
            outgoing = self._retry(chunks, now, overtaken=True)
            if outgoing.kind != SendKind.WAIT:
                return outgoing
        chunks = self._take_ready(now, most)
        return Outgoing(chunks, SendKind.FIRST) if len(chunks) else self._take_expired(now, most)

    def find(self, slots: NDArray[np.integer[Any]], rounds: NDArray[np.integer[Any]]) -> Chunks:
        """Return the open chunks to which results for (slot, round) pairs belong, int64 of the same shape.

        The value is NOTHING, counted as a duplicate, if the pair belongs to a chunk that already has its result (also
        by an earlier pair of this call) or to no chunk of this exchange.
        """
        span = self.slots << ROUND_BITS
        chunks = (rounds.astype(np.int64) * self.slots + slots - self.base % span) % span
        known = np.flatnonzero((slots < self.slots) & (chunks < self.chunks))
        found = np.full(len(chunks), NOTHING, np.int64)
        are_fresh = self._turns.first_open(chunks[known])
        fresh = known[are_fresh]
        found[fresh] = chunks[fresh]
        if len(fresh) < len(known):
            self._reordering.answered_twice(self._flight.sent_twice(chunks[known[~are_fresh]]))
        self.counters.duplicates += len(chunks) - len(fresh)
        return found

    def are_open(self, first: int, last: int) -> bool:
        """Return whether all chunks first..last-1 are in flight."""
        return bool(self._flight.flying[first:last].all())

    def complete(self, chunks: Chunks, now: float, *, marked: int = 0) -> None:
        """Record the results of open chunks, as returned by :meth:`find`. ``marked`` of them have the CE mark."""
        if not len(chunks):
            return
        sent = self._turns.land(chunks)
        if len(sent) < len(chunks):
            # C knows no result that comes before its chunk is sent.
            self.steady = None
        self._note(len(chunks), *self._flight.landing(sent, REORDER_TOLERANCE), now, marked=marked)
        self._turns.follow(chunks)

    def complete_run(self, first: int, last: int, now: float) -> None:
        """Like :meth:`complete`, for chunks first..last-1, all in flight and none marked."""
        if self.steady is None:
            self.complete(np.arange(first, last), now)
        else:
            self._note(last - first, *self.steady.land(first, last), now, marked=0)

    def lend(self, state: Any, upto: int) -> bool:
        """Let C continue the exchange until :meth:`take_back`: until the first ``upto`` chunks, or one more round of
        slots, have results. Returns False if Python must continue, because no results are missing, or a chunk is to be
        sent in another way than the rest."""
        steady, limit = self.steady, self.limit
        if steady is None or not self.open_chunks or not self.contributes or len(self.held) or self._urgent:
            return False
        if (limit is not None and limit.chunks < limit.most) or self._timers.burst or self._reordering.expected:
            return False
        flight, turns, landing = self._flight, self._turns, state.landing
        room = len(turns.ready) - turns.taken
        if flight.log is not steady.log or flight.end + room > len(flight.log):
            steady.make_room(room)
        landing.head, landing.end = flight.head, flight.end
        state.taken, state.to = turns.taken, turns.to
        state.in_flight, state.last_first = flight.count, flight.last_first
        state.at_end = flight.count <= TIMEOUT_BURST_CHUNKS and turns.taken == turns.to
        state.most_in_flight = self.slots if limit is None else limit.chunks
        state.prefix, state.filled = self.prefix, self.filled
        # After two windows Python looks at the round trip, the congestion window and the length of trains.
        state.until_prefix = min(upto, self.prefix + self.slots, self.chunks)
        state.answered[:] = self._fast.numbers
        return True

    def take_back(self, state: Any) -> None:
        """Take over the state that C has changed."""
        flight, turns, landing, begin = self._flight, self._turns, state.landing, self._turns.taken
        flight.head, flight.end = landing.head, landing.end
        flight.count, flight.last_first = state.in_flight, state.last_first
        turns.taken, turns.to = state.taken, state.to
        sent = turns.ready[begin : turns.taken]
        self.counters.sent += len(sent)
        self.prefix = state.prefix
        if state.results:
            self._note(state.results, [], state.round_trip_from if state.round_trips else None, state.now, marked=0)
            self._fast.numbers = state.answered[:]
        self.held = sent[len(sent) - state.held :]

    def completed(self) -> int:
        """Return how many chunks, counted from the first without a gap, have results."""
        self.prefix = self._flight.landed_until(self.prefix)
        return self.prefix

    def settle(self, missing: Callable[[int], bool]) -> None:
        """Charge the budget for flushed chunks that now have results. ``missing``: whether a sum lacks a
        contribution."""
        budget = self._retries.budget if self._retries is not None else None
        if budget is not None and budget.reserved:
            landed = self._flight.landed
            budget.settle(lambda chunk: bool(landed[chunk]), lambda chunk: int(missing(chunk)))

    def on_stale(self, slot: int, switch_round: int) -> None:
        """Process a STALE: the switch already uses ``slot`` for ``switch_round``.

        The answer to an old packet of this worker is ignored. If the slot is past the round of an open chunk, its
        result must be recovered from another worker. Raises StaleRunError if it cannot.
        """
        self.counters.stale += 1
        chunk = self._flying_in(slot)
        if chunk == NOTHING:
            return
        own_round = self.place(chunk)[1]
        if not round_newer(switch_round, own_round):
            return
        where = f"job {self._job}: slot {slot} is in round {switch_round}, this worker waits for round {own_round}"
        try:
            self._turns.overwritten((switch_round - own_round) % ROUNDS, where, first_results=self._results == 0)
        except StaleRunError as error:
            raise StaleRunError(str(error), slot=slot, round_=switch_round) from error
        if self._retries is not None:
            self._retries.lose(chunk)
            self._urgent.append(chunk)

    def on_inform(self, slot: int, switch_round: int, *, send: bool) -> None:
        """Process an INFORM, the switch's answer to a PROBE. ``send``: the switch needs this worker's contribution."""
        self.counters.informs += 1
        if self._retries is None:
            return
        self._retries.answered = True
        chunk = self._flying_in(slot)
        if send and chunk != NOTHING and self.place(chunk)[1] == switch_round:
            self._urgent.append(chunk)

    def wake_at(self, tick_s: float = math.inf) -> float:
        """Return when :meth:`take` next has something to do if no packet arrives; infinity if never. It is at most
        ``tick_s`` after the latest new result."""
        flight, tick_at = self._flight, self._timers.progress_at + tick_s
        if not flight.count:
            return tick_at
        sent_at = float(flight.sent_at[flight.oldest()])
        at_end = flight.count <= TIMEOUT_BURST_CHUNKS and self._drained()
        expiry = self._timers.expiry(sent_at, at_end=at_end)
        if self._reordering.expected and len(self._flight.before(self._overtaken_before(), 1)):
            expiry = min(expiry, sent_at + self._timers.reordering_s)
        return min(expiry, tick_at)

    @property
    def progress_at(self) -> float:
        """When the latest new result arrived, or the exchange began."""
        return self._timers.progress_at

    @property
    def had_results(self) -> bool:
        """Whether any exchange has had a result."""
        return self._results > 0

    def waits_for(self, slot: int, round_: int) -> bool:
        """Return whether a chunk in this slot and round is in flight."""
        chunk = self._flying_in(slot)
        return chunk != NOTHING and self.place(chunk)[1] == round_

    @property
    def newest_round(self) -> int:
        """The round of the newest chunk that this worker has sent in the exchange, or of the exchange's first chunk."""
        sent = np.flatnonzero(self._flight.first)
        return self.place(int(sent[-1]) if len(sent) else 0)[1]

    def oldest(self) -> int:
        """Return the chunk in flight with the oldest latest transmission; 0 if none is in flight."""
        return max(self._flight.oldest(), 0)

    def deadline_error(self, now: float, chunk: int, missing: Collection[int] | None = None) -> DeadlineError:
        """Return the error for one open chunk. ``missing``: the workers known not to be in its sum."""
        slot, round_ = self.place(chunk)
        return DeadlineError(
            job=self._job,
            slot=slot,
            round_=round_,
            chunk=chunk,
            open_chunks=self.open_chunks,
            waited_s=now - self._timers.progress_at,
            missing=missing,
        )

    def _note(self, count: int, latest: list[int], sent_at: float | None, now: float, *, marked: int) -> None:
        """Take note of what so many new results tell.

        ``latest``, ``sent_at``: see :class:`sumwire.transport.scheduling.Landing`.
        """
        self.open_chunks -= count
        self._results += count
        self._timers.progress_at = now
        if self._retries is not None:
            self._retries.answered = self._retries.begun = True
        if latest:
            self._fast.answered(latest)
        round_trip_s = self._timers.measured(sent_at, now)
        if self.limit is not None:
            if round_trip_s is not None:
                self.limit.round_trip(round_trip_s)
            self.limit.results(count, now, marked=marked)

    def _early_closing(self, *, bounded: bool) -> EarlyClosing:
        options = self.options
        return EarlyClosing(
            self.chunks,
            self.slots,
            self._flight,
            from_the_start=bounded or options.quorum_below_workers,
            kept_results=options.kept_results,
        )

    def _new_retries(self, budget: Budget | None, options: ExchangeOptions) -> Retries:
        return Retries(
            self.chunks,
            self.base,
            turn=self.options.turn,
            budget=budget,
            probes=self.options.probes,
            contributes=self.contributes,
            recovers=self.options.early_closing,
            begun=not options.waits_for_workers,
        )

    def _overtaken(self, now: float, most: int) -> Chunks:
        chunks = self._flight.before(self._overtaken_before(), most)
        if self._reordering.expected and len(chunks):
            chunks = chunks[self._flight.sent_at[chunks] <= now - self._timers.reordering_s]
        return chunks

    def _take_urgent(self, now: float, most: int) -> Outgoing | None:
        chunks = np.array(self._urgent[:most], np.int64)
        del self._urgent[:most]
        chunks = np.unique(chunks[self._flight.flying[chunks]])
        if not len(chunks) or self._retries is None:
            return None
        outgoing = self._retries.urgent(chunks)
        # The others of them are sent in another way, by the next call.
        self._urgent[:0] = np.setdiff1d(chunks, outgoing.chunks).tolist()
        self.counters.resent_quick += len(outgoing.chunks) if outgoing.kind != SendKind.RECOVER else 0
        return self._resent(outgoing, now)

    def _allowed(self, limit: WindowLimit) -> int:
        """How many chunks may follow those in flight. Chunks that come before one in flight always may: another worker
        with a small window may have sent them, and wait for this one before it sends anything else."""
        free = limit.chunks - self._flight.count
        if limit.chunks == limit.most:
            return max(free, 0)
        self._turns.sort()
        flying = self._flight.all_flying()
        behind = self._turns.before(int(flying.max())) if len(flying) else 0
        return max(free, behind)

    def _take_ready(self, now: float, most: int) -> Chunks:
        if self.limit is not None:
            most = min(most, self._allowed(self.limit))
        most = most if self.contributes else 0
        below = self.filled
        if self.chunks > SPREAD_ROUNDS * self.slots:
            below = min(below, self.completed() + SPREAD_ROUNDS * self.slots)
        if self.steady is not None:
            chunks = self.steady.send(most, below, now)
        else:
            chunks = self._turns.next(most, below)
            self._flight.send(chunks, now)
        self.counters.sent += len(chunks)
        return chunks

    def _take_expired(self, now: float, most: int) -> Outgoing | None:
        oldest, timers = self._flight.oldest(), self._timers
        if oldest == NOTHING:
            return None
        if timers.burst == 0:
            at_end = self._at_end()
            if now < timers.expiry(float(self._flight.sent_at[oldest]), at_end=at_end):
                return None
            timers.expire(now, at_end=at_end)
        chunks = self._flight.sent_until(timers.expired_at, min(most, timers.burst))
        if not len(chunks):
            timers.burst = 0
            return None
        outgoing = self._retry(chunks, now, overtaken=False)
        timers.burst -= len(outgoing.chunks)
        return outgoing

    def _retry(self, chunks: Chunks, now: float, *, overtaken: bool) -> Outgoing:
        """Those of the chunks that are sent again now, all in the same way."""
        outgoing = Outgoing(chunks, SendKind.RESEND)
        if self._retries is not None:
            waited_for = self._drained() or not self._timers.queued
            outgoing = self._retries.choose(chunks, overtaken=overtaken, last=self._at_end(), waited_for=waited_for)
        if outgoing.kind in (SendKind.RESEND, SendKind.FLUSH):
            if overtaken:
                self.counters.resent_quick += len(outgoing.chunks)
                self._reordering.sent_again(len(outgoing.chunks))
            else:
                self.counters.resent_timeout += len(outgoing.chunks)
        return self._resent(outgoing, now)

    def _resent(self, outgoing: Outgoing, now: float) -> Outgoing:
        counters, (chunks, kind) = self.counters, outgoing
        if kind in (SendKind.RESEND, SendKind.FLUSH):
            counters.sent += len(chunks)
            counters.resent += len(chunks)
            counters.flushed += len(chunks) if kind == SendKind.FLUSH else 0
        elif kind == SendKind.PROBE:
            counters.sent += len(chunks)
            counters.probes += len(chunks)
        self._flight.send_again(chunks, now)
        return outgoing

    def _overtaken_before(self) -> int:
        """Transmissions with a smaller number are overtaken.

        When the last chunk that can be sent is answered, nothing can follow to overtake the few still open: these are
        overtaken already (compare early retransmit, RFC 5827).
        """
        latest = self._fast.latest
        if latest == self._flight.last_first and self._drained() and self.in_flight <= REORDER_TOLERANCE:
            return latest
        return self._fast.threshold

    def _at_end(self) -> bool:
        """Whether only a burst is open. Its timer is short, since the queueing of full windows is over."""
        return self._drained() and self.in_flight <= TIMEOUT_BURST_CHUNKS

    def _drained(self) -> bool:
        """Whether no chunk can be sent for the first time before another result arrives: all are sent, or (only looked
        at with adaptive retries) the unsent ones follow the chunks in flight."""
        return self.open_chunks == self._flight.count or (self.options.adaptive_retries and self._turns.exhausted)

    def _flying_in(self, slot: int) -> int:
        # At most half of the slots are in flight, so a slot has at most one chunk in flight.
        flying = self._flight.all_flying()
        here = flying[(flying + self.base % self.slots) % self.slots == slot]
        return int(here[0]) if len(here) else NOTHING
