# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which chunks are sent when: a state machine without clock, socket or tensor, for many chunks per call.

A chunk is sent for one of these reasons, in this order:

1. The switch asked for it, or no longer has its result (:meth:`Window.on_inform`, :meth:`Window.on_stale`).
2. It was overtaken (:mod:`sumwire.transport.retransmission`).
3. It is its turn for the first time (:mod:`sumwire.transport.scheduling`, :mod:`sumwire.transport.scheduling`).
4. The timer has expired (:mod:`sumwire.transport.retransmission`).

How it is sent in cases 1, 2 and 4: :mod:`sumwire.transport.retransmission`.

Example: S = 8 slots, an exchange of 6 chunks, and the contribution of chunk 0 is lost. Chunks 0 to 3 are sent. The
results of 1, 2 and then 3 arrive, and with them go out chunks 5 (which follows 1) and 0 (overtaken). Its result lets
chunk 4 go.
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
from sumwire.transport.scheduling import Chunks, EarlyClosing, Flight, Landing, SendSchedule
from sumwire.transport.stats import WindowCounters
from sumwire.transport.steady import Steady, steady_of
from sumwire.wire.packets import ROUND_BITS, ROUNDS, Place, place_of, round_newer

NOTHING: Final = -1
# A chunk is sent only when all chunks so many rounds before it have their results, so that whoever looks at one slot
# knows in which rounds the others can be. Only a chunk that is lost again and again makes the others wait.
SPREAD_ROUNDS: Final = 12


class Window:
    """The chunks of one exchange after another.

    Use: :meth:`begin`; then, until :attr:`done`, give what :meth:`find` makes of results to :meth:`complete`, send what
    :meth:`take` returns until that is None, and sleep no longer than :meth:`wake_at`. Chunks are int64 indices in the
    exchange. Times are seconds of any monotonic clock. ``limit``: bounds the chunks in flight below S // 2.
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
        self._prefix = 0
        # Chunks from this on are not sent yet, as far as looked.
        self._sendable = 0
        self._flight = Flight(0)
        self._turns = SendSchedule(0, slots, self._flight)
        self._steady: Steady | None = None
        self._fast = FastRetransmit()
        self._retries: Retries | None = None
        # Chunks that the switch asked for, or whose results it no longer has.
        self._urgent: list[int] = []

    @property
    def done(self) -> bool:
        """Whether every chunk of the exchange has its result."""
        return self.open_chunks == 0

    @property
    def in_flight(self) -> int:
        """Chunks that are sent and have no result."""
        return self._flight.count

    @property
    def timeout_s(self) -> float:
        """After how many seconds a packet is sent again."""
        return self._timers.timeout_s

    @property
    def flying(self) -> NDArray[np.bool_]:
        """Whether each chunk of the exchange is in flight: the window's own array, until the next exchange begins."""
        return self._flight.flying

    @property
    def unsent(self) -> int:
        """Chunks that have no result and were never sent."""
        return self.open_chunks - self._flight.count

    def begin(
        self,
        chunks: int,
        now: float,
        *,
        filled: int | None = None,
        budget: Budget | None = None,
        options: ExchangeOptions = PLAIN,
    ) -> None:
        """Start an exchange of ``chunks`` chunks. The payload of the first ``filled`` is ready (of all if None).

        ``budget``: contributions that may be missing from the sums. A budget, and an exchange that does not contribute,
        need ``adaptive_retries``. Raises UsageError while chunks of the exchange before are open.
        """
        if not self.done:
            raise UsageError(f"{self.open_chunks} chunks of the exchange before are open: finish it first")
        self.base += self.chunks
        self.chunks = self.open_chunks = chunks
        self.filled = chunks if filled is None else filled
        self.contributes = options.contribute
        self._prefix = 0
        self._sendable = SPREAD_ROUNDS * self.slots
        self._flight = Flight(chunks)
        self._fast = FastRetransmit()
        self._timers.begin(now, sampled=not options.waits_for_workers)
        self._urgent = []
        self._turns = self._new_turns(bounded=budget is not None)
        self._steady = steady_of(self._flight, self._turns)
        self._retries = self._new_retries(budget) if self.options.adaptive_retries else None
        if not self.contributes:
            self._flight.send(np.arange(chunks), now)

    def restart(self, sequence: int) -> None:
        """Drop what is open: the next exchange begins with the chunk of this sequence number."""
        self.base, self.chunks, self.open_chunks = sequence, 0, 0
        self._flight = Flight(0)
        self._turns = SendSchedule(0, self.slots, self._flight)
        self._steady = None
        self._urgent = []
        self._retries = None

    def place(self, chunk: int) -> Place:
        """(slot, round) of a chunk."""
        return place_of(self.base + chunk, self.slots)

    def take(self, now: float, most: int) -> Outgoing | None:
        """Up to ``most`` chunks to send now, all in the same way; they count as sent. None if there are none."""
        if self._urgent and (urgent := self._take_urgent(now, most)) is not None:
            return urgent
        while len(chunks := self._overtaken(now, most)):
            outgoing = self._retry(chunks, now, overtaken=True)
            if outgoing.kind != SendKind.WAIT:
                return outgoing
        chunks = self._take_ready(now, most)
        return Outgoing(chunks, SendKind.FIRST) if len(chunks) else self._take_expired(now, most)

    def find(self, slots: NDArray[np.integer[Any]], rounds: NDArray[np.integer[Any]]) -> Chunks:
        """The open chunks of this exchange that results of (slot, round) pairs belong to, int64 of the same shape.

        NOTHING, counted as a duplicate, where the pair belongs to a chunk that has its result (also earlier in the same
        call) or to no chunk of this exchange.
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
        """Whether all chunks first..last-1 are in flight."""
        return bool(self._flight.flying[first:last].all())

    def complete(self, chunks: Chunks, now: float, *, marked: int = 0) -> None:
        """The results of open chunks, as told by :meth:`find`, have arrived. ``marked`` of them have the CE mark."""
        if not len(chunks):
            return
        sent = self._turns.land(chunks)
        self._note(len(chunks), self._flight.landing(sent, REORDER_TOLERANCE), now, marked=marked)
        self._turns.follow(chunks)

    def complete_run(self, first: int, last: int, now: float) -> None:
        """Like :meth:`complete`, for the chunks first..last-1, all in flight, none marked."""
        if self._steady is None:
            self.complete(np.arange(first, last), now)
        else:
            self._note(last - first, self._steady.land(first, last), now, marked=0)

    @property
    def is_usual(self) -> bool:
        """Whether C may go on with the exchange: results are missing, and no chunk waits to be sent in another way than
        all others."""
        limit = self.limit
        if (
            self._steady is None
            or self.done
            or not self.contributes
            or (limit is not None and limit.chunks < limit.most)
        ):
            return False
        return not (self._urgent or self._timers.burst or self._reordering.expected)

    def lend(self, state: Any) -> None:
        """Let C go on with the exchange, until :meth:`take_back`."""
        assert self._steady is not None
        self._steady.lend(state, self.slots if self.limit is None else self.limit.chunks)
        state.prefix = self.completed()
        state.filled = min(self.filled, self._sendable)
        state.answered[:] = self._fast.numbers

    def take_back(self, state: Any) -> Chunks:
        """Take over what C has done. Returns chunks that it has counted as sent and the socket has not taken."""
        assert self._steady is not None
        self.counters.sent += self._steady.take_back(state)
        self._prefix = int(state.prefix)
        if state.results:
            sent_at = state.round_trip_from if state.round_trips else None
            self._note(int(state.results), Landing([], sent_at), state.now, marked=0)
            self._fast.numbers = list(state.answered)
        taken = int(state.taken)
        return self._turns.ready[taken - int(state.held) : taken]

    def completed(self) -> int:
        """How many chunks from the first on have their results without a gap."""
        self._prefix = self._flight.landed_until(self._prefix)
        return self._prefix

    def settle(self, missing: Callable[[int], bool]) -> None:
        """Book the cost of flushed chunks that have their results by now. ``missing`` tells whether a chunk's sum lacks
        a contribution."""
        budget = self._retries.budget if self._retries is not None else None
        if budget is not None and budget.reserved:
            landed = self._flight.landed
            budget.settle(lambda chunk: bool(landed[chunk]), lambda chunk: int(missing(chunk)))

    def on_stale(self, slot: int, switch_round: int) -> None:
        """STALE: the switch already uses ``slot`` for ``switch_round``.

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
        """INFORM, the switch's answer to a PROBE. ``send``: the switch needs this worker's contribution."""
        self.counters.informs += 1
        if self._retries is None:
            return
        self._retries.answered = True
        chunk = self._flying_in(slot)
        if send and chunk != NOTHING and self.place(chunk)[1] == switch_round:
            self._urgent.append(chunk)

    def wake_at(self) -> float:
        """When :meth:`take` next has something to do if no packet arrives; infinity if it never has."""
        oldest = self._flight.oldest()
        if oldest == NOTHING:
            return math.inf
        sent_at = float(self._flight.sent_at[oldest])
        expiry = self._timers.expiry(sent_at, at_end=self._at_end())
        if self._reordering.expected and len(self._flight.before(self._overtaken_before(), 1)):
            return min(expiry, sent_at + self._timers.reordering_s)
        return expiry

    @property
    def progress_at(self) -> float:
        """When the latest new result arrived, or the exchange began."""
        return self._timers.progress_at

    @property
    def had_results(self) -> bool:
        """Whether any exchange has had a result."""
        return self._results > 0

    def waits_for(self, slot: int, round_: int) -> bool:
        """Whether a chunk in this slot and round is in flight."""
        chunk = self._flying_in(slot)
        return chunk != NOTHING and self.place(chunk)[1] == round_

    @property
    def newest_round(self) -> int:
        """The round of the newest chunk that this worker has sent in the exchange, or of the exchange's first chunk."""
        sent = np.flatnonzero(self._flight.first)
        return self.place(int(sent[-1]) if len(sent) else 0)[1]

    def oldest(self) -> int:
        """The chunk in flight whose latest transmission is the oldest; 0 if none is in flight."""
        return max(self._flight.oldest(), 0)

    def deadline_error(self, now: float, chunk: int, missing: Collection[int] | None = None) -> DeadlineError:
        """The error about one open chunk. ``missing``: the workers known not to be in its sum."""
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

    def _note(self, count: int, landing: Landing, now: float, *, marked: int) -> None:
        """Take note of what so many new results tell."""
        self.open_chunks -= count
        self._results += count
        self._timers.progress_at = now
        if self._retries is not None:
            self._retries.answered = True
        self._fast.answered(landing.latest)
        round_trip_s = self._timers.measured(landing.sent_at, now)
        if self.limit is not None:
            if round_trip_s is not None:
                self.limit.round_trip(round_trip_s)
            self.limit.results(count, now, marked=marked)

    def _new_turns(self, *, bounded: bool) -> SendSchedule:
        options = self.options
        if not options.early_closing:
            return SendSchedule(self.chunks, self.slots, self._flight)
        return EarlyClosing(
            self.chunks,
            self.slots,
            self._flight,
            from_the_start=bounded or options.quorum_below_workers,
            kept_results=options.kept_results,
        )

    def _new_retries(self, budget: Budget | None) -> Retries:
        return Retries(
            self.chunks,
            self.base,
            turn=self.options.turn,
            budget=budget,
            probes=self.options.probes,
            contributes=self.contributes,
            recovers=self.options.early_closing,
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
        chunks = self._send_next(now, most)
        if not len(chunks) and most and self._sendable < self.filled:
            self._sendable = self.completed() + SPREAD_ROUNDS * self.slots
            # The chunk that the others wait for may stand behind one of them.
            self._turns.sort()
            chunks = self._send_next(now, most)
        self.counters.sent += len(chunks)
        return chunks

    def _send_next(self, now: float, most: int) -> Chunks:
        filled = min(self.filled, self._sendable)
        if self._steady is not None:
            return self._steady.send(most, filled, now)
        chunks = self._turns.next(most, filled)
        if len(chunks):
            self._flight.send(chunks, now)
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
            outgoing = self._retries.choose(chunks, overtaken=overtaken, last=self._at_end())
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
        return not self.unsent or (self.options.adaptive_retries and self._turns.exhausted)

    def _flying_in(self, slot: int) -> int:
        # At most half of the slots are in flight, so a slot has at most one chunk in flight.
        flying = self._flight.all_flying()
        here = flying[(flying + self.base % self.slots) % self.slots == slot]
        return int(here[0]) if len(here) else NOTHING
