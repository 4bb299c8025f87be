# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Which chunk goes out when: a state machine without clock, socket or tensor.

Chunks of all exchanges of a job share one sequence number K, counted from 0 and equal on all workers.
Chunk K uses slot ``K mod S`` in round ``K div S``. With a = S // 2 and b = S - a, a chunk goes out only when this
worker has the results of K - a and of K - b (the same chunk unless S is odd). Why no result is ever lost:
if any worker sends K + S, it has the result of K + b, so with a quorum of all workers everybody has sent K + b,
so everybody has the result of K, whose slot is now overwritten. At most S // 2 chunks are in flight.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from sumwire.config import SLOTS_MIN
from sumwire.errors import DeadlineError, StaleRunError, UsageError
from sumwire.rtt import RttEstimator

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

_UNSENT: Final = 0
_FLYING: Final = 1
_DONE: Final = 2


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

    Use: :meth:`begin`; then until :attr:`done`, give every result to :meth:`on_result`, send what :meth:`take`
    returns until it returns NOTHING, and sleep no longer than :meth:`wake_at`. Chunk numbers in and out are
    indices inside the exchange. Times are seconds of any monotonic clock.
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
        self._unsent = 0
        self._state = bytearray()
        self._sent_at: list[float] = []
        self._resends = bytearray()
        self._ready: deque[int] = deque()
        # chunk -> number of its latest transmission, oldest first: a resent chunk goes to the end.
        self._flying: dict[int, int] = {}
        self._transmission = 0
        # Number of each chunk's first transmission. A result of a resent chunk counts as the answer to that one:
        # were it taken for the resend's, one needless resend would make all before it look overtaken.
        self._first: list[int] = []
        self._last_first = 0
        # The three latest transmissions that were answered; the smallest tells what is overtaken.
        self._answered = [0] * REORDER_TOLERANCE
        self._burst = 0
        self._burst_size = TIMEOUT_BURST_CHUNKS
        # Chunks sent later than this are not resent by the timer's latest expiry.
        self._expired_at = 0.0
        self._timer_from = 0.0
        self._progress_at = 0.0

    @property
    def done(self) -> bool:
        return self.open_chunks == 0

    def begin(self, chunks: int, now: float, *, sampled: bool = True, deadline_s: float | None = None) -> None:
        """Start an exchange of ``chunks`` chunks.

        ``sampled=False``: its round trips hold the wait for slow workers, so they are no measure of the path, and
        the timeout starts at SHORT_TIMEOUT_S.
        ``deadline_s``: seconds without any new result after which DeadlineError is raised.
        """
        if not self.done:
            raise UsageError(f"{self.open_chunks} chunks of the exchange before are open")
        self.base += self.chunks
        self.chunks = self.open_chunks = self._unsent = chunks
        self._deadline_s = self._default_deadline_s if deadline_s is None else deadline_s
        self._sampled = sampled
        self._rtt = self._path_rtt if sampled else self._short_rtt
        self._state = bytearray(chunks)
        self._sent_at = [0.0] * chunks
        self._resends = bytearray(chunks)
        self._first = [0] * chunks
        self._ready = deque(range(min(self.short_step, chunks)))
        self._answered = [self._transmission] * REORDER_TOLERANCE
        self._burst = 0
        self._burst_size = TIMEOUT_BURST_CHUNKS
        self._timer_from = self._progress_at = now
        self._path_rtt.settle()
        self._short_rtt.settle()

    def place(self, chunk: int) -> tuple[int, int]:
        """(slot, round) of a chunk."""
        sequence = self.base + chunk
        return sequence % self.slots, sequence // self.slots % _ROUNDS

    def take(self, now: float) -> int:
        """The chunk to send now, counted as sent, or NOTHING."""
        flying = self._flying
        oldest = next(iter(flying), NOTHING)
        if oldest != NOTHING and flying[oldest] < self._overtaken_before():
            self.counters.resent_quick += 1
            return self._resend(oldest, now)
        if self._ready:
            chunk = self._ready.popleft()
            self._state[chunk] = _FLYING
            self._first[chunk] = self._last_first = self._transmission + 1
            self._unsent -= 1
            return self._send(chunk, now)
        if oldest == NOTHING:
            return NOTHING
        if self._burst == 0 and now >= self._timer_at(oldest):
            self._expire(now)
        if self._burst and self._sent_at[oldest] <= self._expired_at:
            self._burst -= 1
            self.counters.resent_timeout += 1
            return self._resend(oldest, now)
        self._burst = 0
        return NOTHING

    def find(self, slot: int, round_: int) -> int:
        """The open chunk of this exchange that (slot, round) belongs to, or NOTHING: a duplicate, late or foreign."""
        if slot >= self.slots:
            return NOTHING
        chunk = (round_ * self.slots + slot - self.base) % (self.slots << ROUND_BITS)
        if chunk < self.chunks and self._state[chunk] == _FLYING:
            return chunk
        self.counters.duplicates += 1
        return NOTHING

    def complete(self, chunk: int, now: float) -> None:
        """The result of an open chunk, as told by :meth:`find`, has come."""
        state = self._state
        state[chunk] = _DONE
        self.open_chunks -= 1
        self._results += 1
        self._progress_at = now
        del self._flying[chunk]
        transmission = self._first[chunk]
        answered = self._answered
        if transmission > answered[0]:
            answered[0] = transmission
            answered.sort()
        # Karn's rule: a resent chunk gives no sample.
        if self._sampled and not self._resends[chunk]:
            self._rtt.sample(now - self._sent_at[chunk])
        else:
            self._rtt.settle()
        self._short_rtt.settle()
        short, long = self.short_step, self.long_step
        follower = chunk + short
        if follower < self.chunks and (follower < long or state[follower - long] == _DONE):
            self._ready.append(follower)
        if long != short and chunk + long < self.chunks and state[chunk + long - short] == _DONE:
            self._ready.append(chunk + long)

    def on_result(self, slot: int, round_: int, now: float) -> int:
        """Take in a result; the chunk it completes, or NOTHING."""
        chunk = self.find(slot, round_)
        if chunk != NOTHING:
            self.complete(chunk, now)
        return chunk

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
        if not self._flying:
            return deadline
        oldest = next(iter(self._flying))
        return min(deadline, self._timer_at(oldest))

    def check_deadline(self, now: float) -> None:
        """Raises DeadlineError when no new result has come for the deadline's time."""
        if not self.done and now - self._progress_at >= self._deadline_s:
            raise self.deadline_error(now, next(iter(self._flying), 0))

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

    def _overtaken_before(self) -> int:
        """Transmissions with a smaller number are overtaken.

        When the very last chunk is answered, no more can follow to overtake the few still open (as in RFC 5827).
        """
        last = self._answered[-1]
        if last == self._last_first and not self._unsent and len(self._flying) <= REORDER_TOLERANCE:
            return last
        return self._answered[0]

    def _timer_at(self, oldest: int) -> float:
        start = max(self._sent_at[oldest], self._timer_from)
        expiry = start + self._rtt.timeout_s
        if self._at_end():
            expiry = min(expiry, max(start, self._progress_at) + self._short_rtt.timeout_s)
        return expiry

    def _at_end(self) -> bool:
        """Only a burst is open. Its timer is short, since the queue that full windows measure has drained."""
        return not self._unsent and len(self._flying) <= TIMEOUT_BURST_CHUNKS

    def _expire(self, now: float) -> None:
        progress = self._progress_at > self._timer_from
        self._burst = self._burst_size = self._burst_size * 2 if progress else TIMEOUT_BURST_CHUNKS
        waited_s = self._short_rtt.timeout_s if self._at_end() else self._rtt.timeout_s
        self._expired_at = now - min(waited_s, self._rtt.timeout_s)
        self._timer_from = now
        for rtt in {self._rtt, self._short_rtt}:
            rtt.back_off()

    def _send(self, chunk: int, now: float) -> int:
        self._transmission += 1
        self._flying[chunk] = self._transmission
        self._sent_at[chunk] = now
        self.counters.sent += 1
        return chunk

    def _resend(self, chunk: int, now: float) -> int:
        del self._flying[chunk]
        self._resends[chunk] = 1
        self.counters.resent += 1
        return self._send(chunk, now)

    def _flying_in(self, slot: int) -> int:
        # At most half of the slots are in flight, so a slot has at most one open chunk.
        for chunk in self._flying:
            if (self.base + chunk) % self.slots == slot:
                return chunk
        return NOTHING
