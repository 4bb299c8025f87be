# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Tracks which chunks are in flight, and the order in which chunks are sent for the first time.

Transmissions are numbered from 1 in the order of sending. A log holds the chunk of every transmission. An entry is dead
when its chunk was retransmitted later or has its result; a head moves past dead entries.

Example: chunks 0, 1, 2 are transmissions 1, 2, 3; chunk 0 is retransmitted as number 4. The oldest chunk in flight is
now 1.

With S slots, a = S // 2 and b = S - a, chunk K is sent only when this worker has the results of K - a and of K - b (the
same chunk if S is even). So at most S // 2 chunks are in flight.

Example: with S = 8, chunk 6 waits for the result of chunk 2. With S = 7 (a = 3, b = 4), chunk 4 waits for chunks 1 and
0.

Why no result is lost. Slot ``K mod S`` is overwritten when some worker sends K + S. That worker has the result of K +
b, so all workers have sent K + b, so all workers have the result of K.

A slot closes early when the quorum is below the number of workers, or when a FLUSH spends the loss budget of a tensor.
Two things then differ (:class:`EarlyClosing`).

* Results arrive of chunks that this worker has not sent. They are accepted, and the chunks are never sent. But a chunk
  still waits for its turn, so this worker never overwrites the slot of an open chunk of its own.
  Example: with S = 4, results of chunks 2 and 4 arrive while chunk 0 is open. Chunk 6 is sent only after the result of
  chunk 0, since 2 follows 0, 4 follows 2, and 6 follows 4.
* The argument that no result is lost only holds for workers that are in the sum. A worker that was left out may lack
  the result of K when the other workers send K + S. The switch answers it with STALE; rounds differ, so nothing is
  added to a wrong sum. The worker gets the result from another worker (:mod:`sumwire.transport.recovery`).
"""

from __future__ import annotations

from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np
from nativelib.declarations import Native
from numpy.typing import NDArray

from sumwire.errors import StaleRunError

# Indices of chunks in their exchange.
Chunks = NDArray[np.int64]

_NOTHING: Final = -1
# Entries of the log that one numpy call looks at.
_STRIDE: Final = 128


class Landing(NamedTuple):
    """What results that arrived together show about the transmissions that they answer.

    ``latest``: the largest numbers of first transmissions, in any order; as many as matter. ``sent_at``: among the
    chunks sent only once, when the one longest in flight was sent; None if there is none.
    """

    latest: list[int]
    sent_at: float | None


class Flight:
    """The state of ``chunks`` chunks. All arrays are indexed by chunk.

    ``flying``: in flight. ``landed``: has its result. ``first``: number of the first transmission, 0 before it.
    ``latest``: number of the latest transmission. ``sent_at``: its time, in seconds. ``count``: chunks in flight.
    ``last_first``: number of the latest first transmission. ``log``, ``end``: entry k is the chunk of transmission k,
    below ``end``; there is none with number 0. All entries before ``head`` are dead.
    """

    def __init__(self, chunks: int) -> None:
        self.flying = np.zeros(chunks, np.bool_)
        self.landed = np.zeros(chunks, np.bool_)
        self.first = np.zeros(chunks, np.int64)
        self.sent_at = np.zeros(chunks)
        self.count = 0
        self.last_first = 0
        self.latest = np.zeros(chunks, np.int64)
        self._seen = np.zeros(chunks, np.int64)
        self._resends = 0
        self.log = np.zeros(chunks + 1, np.int64)
        self.head = self.end = 1

    def send(self, chunks: Chunks, now: float) -> None:
        """Record that chunks are sent for the first time."""
        self.first[chunks] = self._append(chunks, now)
        self.flying[chunks] = True
        self.count_sent(len(chunks))

    def count_sent(self, count: int) -> None:
        """Record that ``count`` chunks were sent for the first time."""
        if count:
            self.end += count
            self.last_first = self.end - 1
            self.count += count

    def send_again(self, chunks: Chunks, now: float) -> None:
        """Record that chunks in flight are retransmitted."""
        self._append(chunks, now)
        self.end += len(chunks)
        self._resends += len(chunks)

    def land(self, chunks: Chunks) -> None:
        """Record that chunks in flight have their results."""
        self.flying[chunks] = False
        self.landed[chunks] = True
        self.count -= len(chunks)

    def land_early(self, chunks: Chunks) -> None:
        """Record that chunks have their results, whether in flight or not yet sent."""
        self.count -= int(np.count_nonzero(self.flying[chunks]))
        self.flying[chunks] = False
        self.landed[chunks] = True

    def first_open(self, chunks: Chunks, *, unsent: bool = False) -> NDArray[np.bool_]:
        """Return which of the chunks are in flight (with ``unsent``: or not sent). A repeated chunk counts only at its
        first place."""
        places = np.arange(len(chunks))
        # Of several assignments to one index the last one stays. In reverse order that is the first place.
        self._seen[chunks[::-1]] = places[::-1]
        open_ones = ~self.landed[chunks] if unsent else self.flying[chunks]
        fresh: NDArray[np.bool_] = open_ones & (self._seen[chunks] == places)
        return fresh

    def landed_until(self, first: int) -> int:
        """Return the first chunk from ``first`` on that has no result."""
        while first < len(self.landed):
            part = self.landed[first : first + _STRIDE]
            gap = int(part.argmin())
            if not part[gap]:
                return first + gap
            first += len(part)
        return first

    def oldest(self) -> int:
        """Return the chunk in flight with the oldest latest transmission, or -1."""
        if self.count == 0:
            return _NOTHING
        chunk = int(self.log[self.head])
        # Most often the head has not moved.
        if self.head == self.end or not self.flying[chunk] or self.latest[chunk] != self.head:
            self._skip_dead()
            chunk = int(self.log[self.head])
        return chunk

    def before(self, transmission: int, most: int) -> Chunks:
        """Return up to ``most`` chunks in flight whose latest transmission has a smaller number, oldest first."""
        if self.head < transmission:
            self._skip_dead()
        if self.head >= transmission:
            return self.log[:0]
        return self._alive(self.head, transmission)[:most]

    def sent_until(self, time: float, most: int) -> Chunks:
        """Return up to ``most`` chunks in flight whose latest transmission was no later than ``time``, oldest first."""
        flying = self.all_flying()[:most]
        return flying[self.sent_at[flying] <= time]

    def landing(self, chunks: Chunks, latest: int) -> Landing:
        """Return what the results of these chunks, which were in flight, show. ``latest``: how many transmission
        numbers to return."""
        first = self.first[chunks]
        once = chunks if not self._resends else chunks[self.latest[chunks] == first]
        sent_at = float(self.sent_at[once].min()) if len(once) else None
        return Landing(np.sort(first)[-latest:].tolist(), sent_at)

    def sent_twice(self, chunks: Chunks) -> int:
        """Return how many of the chunks were retransmitted."""
        return int(np.count_nonzero(self.latest[chunks] != self.first[chunks])) if self._resends else 0

    def make_room(self, transmissions: int) -> None:
        """Make room in the log for ``transmissions`` more entries."""
        end = self.end + transmissions
        if end > len(self.log):
            self.log = np.concatenate([self.log, np.zeros(end, np.int64)])

    def all_flying(self) -> Chunks:
        """Return all chunks in flight, oldest first."""
        self._skip_dead()
        return self._alive(self.head, self.end)

    def _append(self, chunks: Chunks, now: float) -> Chunks:
        """Log transmissions. Returns their numbers."""
        self.make_room(len(chunks))
        end = self.end + len(chunks)
        numbers = np.arange(self.end, end)
        self.log[self.end : end] = chunks
        self.latest[chunks] = numbers
        self.sent_at[chunks] = now
        return numbers

    def _alive(self, begin: int, end: int) -> Chunks:
        """The chunks in flight whose latest transmissions are begin..end-1."""
        chunks = self.log[begin:end]
        alive: Chunks = chunks[self.flying[chunks] & (self.latest[chunks] == np.arange(begin, end))]
        return alive

    def _skip_dead(self) -> None:
        while self.head < self.end:
            end = min(self.head + _STRIDE, self.end)
            chunks = self.log[self.head : end]
            alive = self.flying[chunks] & (self.latest[chunks] == np.arange(self.head, end))
            first = int(alive.argmax())
            if alive[first]:
                self.head += first
                return
            self.head = end


class SendSchedule:
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
        """Whether no further chunk may be sent before another result arrives."""
        return self.taken == self.to

    def next(self, most: int, below: int) -> Chunks:
        """Up to ``most`` chunks whose turn has come and which are below ``below``. The others keep their order."""
        waiting = self.ready[self.taken : self.to]
        if below < self._chunks and not (waiting < below).all():
            places = np.flatnonzero(waiting < below)[:most]
            waiting[:] = np.concatenate([waiting[places], np.delete(waiting, places)])
            most = len(places)
        chunks = waiting[:most]
        self.taken += len(chunks)
        return chunks

    def sort(self) -> None:
        """Sort the chunks that are due."""
        self.ready[self.taken : self.to].sort()

    def before(self, chunk: int) -> int:
        """Return how many of the chunks whose turn has come are before this one. They are in order."""
        return int(np.searchsorted(self.ready[self.taken : self.to], chunk))

    def first_open(self, chunks: Chunks) -> NDArray[np.bool_]:
        """Return which of the chunks can still get a result. A repeated chunk counts only at its first place."""
        return self._flight.first_open(chunks)

    def land(self, chunks: Chunks) -> Chunks:
        """Record the results of open chunks. Returns those chunks that were in flight."""
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
        """Handle that the switch already uses the slot of an open chunk for a later round. Returns if the result can be
        recovered.

        ``first_results``: the job has had no result yet. ``where`` begins the message. Raises StaleRunError: with a
        quorum of all workers, this means another run.
        """
        raise StaleRunError(
            f"{where}: another run of the job has begun; was a worker restarted? Then start all workers again"
        )

    def _queue(self, chunks: Chunks) -> None:
        end = self.to + len(chunks)
        self.ready[self.to : end] = chunks
        self.to = end


class EarlyClosing(SendSchedule):
    """The send schedule of an exchange whose slots may close without this worker.

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
        # Without those that C has queued since, which are in ``ready`` from place ``_known`` on.
        self._turned = np.zeros(chunks, np.bool_)
        self._known = 0

    def next(self, most: int, below: int) -> Chunks:
        """Like :meth:`SendSchedule.next`, without the chunks that have results already."""
        while len(chunks := super().next(most, below)):
            open_ones = chunks[~self._flight.landed[chunks]]
            if len(open_ones):
                return open_ones
        return chunks

    def first_open(self, chunks: Chunks) -> NDArray[np.bool_]:
        """Like :meth:`SendSchedule.first_open`; chunks that were not sent count as open."""
        return self._flight.first_open(chunks, unsent=True)

    def land(self, chunks: Chunks) -> Chunks:
        """Like :meth:`SendSchedule.land`, for chunks that are in flight or were not sent."""
        sent = chunks[self._flight.flying[chunks]]
        self._flight.land_early(chunks)
        return sent

    def follow(self, chunks: Chunks) -> None:
        """Like :meth:`SendSchedule.follow`. Chunks may have no turn yet, and those that follow may have results."""
        landed, turned = self._flight.landed, self.turned()
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

    def turned(self) -> NDArray[np.bool_]:
        """Return which chunks' turn has come, sent or not."""
        self._turned[self.ready[self._known : self.to]] = True
        # From here on ``ready`` may be put in another order.
        self._known = self.taken
        return self._turned

    def overwritten(self, rounds_ahead: int, where: str, *, first_results: bool) -> None:
        """Like :meth:`SendSchedule.overwritten`, but raises StaleRunError only if the result cannot be recovered.

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


class Steady:
    """Schedules and landings in C, for an exchange in which every result was that of a chunk in flight. With early
    closing, results could arrive for chunks that were not sent.

    ``exchange``: the exchange's state, a C structure. ``flying``, ``log``: see :class:`Flight`.
    """

    def __init__(self, library: Native, flight: Flight, turns: SendSchedule) -> None:
        self._flight, self._turns = flight, turns
        self.library, self.flying = library, flight.flying
        self.log = flight.log
        self._landing = library.steady_landing()
        arrays = turns.ready, flight.flying, flight.landed, flight.first, flight.latest, flight.sent_at, flight.log
        # Only the log is ever moved.
        self.exchange = library.steady_exchange(
            len(flight.flying), turns.short_step, turns.long_step, *map(attrgetter("ctypes.data"), arrays)
        )

    def send(self, most: int, below: int, now: float) -> Chunks:
        """Send chunks for the first time whose turn has come, like :meth:`SendSchedule.next` and
        :meth:`Flight.send`."""
        flight, turns = self._flight, self._turns
        begin = turns.taken
        self.make_room(min(turns.to - begin, most))
        sent: int = self.library.steady_send(self.exchange, begin, turns.to, most, below, flight.end, now)
        turns.taken += sent
        flight.count_sent(sent)
        return turns.ready[begin : begin + sent]

    def land(self, first: int, last: int) -> Landing:
        """Record that results of chunks first..last-1 have arrived, like :meth:`SendSchedule.land` and
        `SendSchedule.follow`."""
        flight, turns, landing = self._flight, self._turns, self._landing
        if flight.log is not self.log:
            self.make_room(0)
        landing.head, landing.end = flight.head, flight.end
        turns.to = self.library.steady_land(self.exchange, first, last, turns.to, landing)
        flight.head = landing.head
        flight.count -= last - first
        return Landing(list(landing.latest), landing.sent_at if landing.sent_once else None)

    def make_room(self, transmissions: int) -> None:
        """Make room in ``log`` for ``transmissions`` more. Retransmissions may have replaced the flight's log."""
        flight = self._flight
        if flight.end + transmissions > len(flight.log):
            flight.make_room(transmissions)
        if flight.log is not self.log:
            self.log = flight.log
            self.exchange.log = self.log.ctypes.data
