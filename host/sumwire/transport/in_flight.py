# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The chunks of one exchange that are in flight: sent, and without a result.

Transmissions are numbered from 1 in the order of sending. A log holds the chunk of every transmission. An entry is dead
when its chunk was retransmitted later or has its result; a head moves past dead entries.

Example: chunks 0, 1, 2 are transmissions 1, 2, 3; chunk 0 is retransmitted as number 4. The oldest chunk in flight is
now 1.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

# Indices of chunks in their exchange.
Chunks = NDArray[np.int64]

_NOTHING: Final = -1
# Entries of the log that one numpy call looks at.
_STRIDE: Final = 128


class Landing(NamedTuple):
    """What results that arrived together tell about the transmissions that they answer.

    ``latest``: the largest numbers of first transmissions, in any order; as many as matter. ``sent_at``: when the chunk
    was sent that was longest in flight, of those sent only once; None if there is none.
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
        """Chunks are sent for the first time."""
        self.first[chunks] = self._append(chunks, now)
        self.flying[chunks] = True
        self.count_sent(len(chunks))

    def count_sent(self, count: int) -> None:
        """So many chunks were sent for the first time."""
        self.end += count
        self.last_first = self.end - 1
        self.count += count

    def send_again(self, chunks: Chunks, now: float) -> None:
        """Chunks in flight are retransmitted."""
        self._append(chunks, now)
        self.end += len(chunks)
        self._resends += len(chunks)

    def land(self, chunks: Chunks) -> None:
        """Chunks in flight have their results."""
        self.flying[chunks] = False
        self.landed[chunks] = True
        self.count -= len(chunks)

    def land_early(self, chunks: Chunks) -> None:
        """Chunks have their results, in flight or not sent at all."""
        self.count -= int(np.count_nonzero(self.flying[chunks]))
        self.flying[chunks] = False
        self.landed[chunks] = True

    def first_open(self, chunks: Chunks, *, unsent: bool = False) -> NDArray[np.bool_]:
        """Which of the chunks are in flight (with ``unsent``: or not sent), each only where it is named first."""
        places = np.arange(len(chunks))
        # Of several assignments to one index the last one stays. In reverse order that is the first place.
        self._seen[chunks[::-1]] = places[::-1]
        open_ones = ~self.landed[chunks] if unsent else self.flying[chunks]
        fresh: NDArray[np.bool_] = open_ones & (self._seen[chunks] == places)
        return fresh

    def landed_until(self, first: int) -> int:
        """The first chunk from ``first`` on that has no result."""
        while first < len(self.landed):
            part = self.landed[first : first + _STRIDE]
            gap = int(part.argmin())
            if not part[gap]:
                return first + gap
            first += len(part)
        return first

    def oldest(self) -> int:
        """The chunk in flight whose latest transmission is the oldest, or -1."""
        if self.count == 0:
            return _NOTHING
        self._skip_dead()
        return int(self.log[self.head])

    def before(self, transmission: int, most: int) -> Chunks:
        """Up to ``most`` chunks in flight whose latest transmission has a smaller number, oldest first."""
        if self.head < transmission:
            self._skip_dead()
        if self.head >= transmission:
            return self.log[:0]
        return self._alive(self.head, transmission)[:most]

    def sent_until(self, time: float, most: int) -> Chunks:
        """Up to ``most`` chunks in flight whose latest transmission was no later than ``time``, oldest first."""
        flying = self.all_flying()[:most]
        return flying[self.sent_at[flying] <= time]

    def landing(self, chunks: Chunks, latest: int) -> Landing:
        """What the results of chunks tell that were in flight. ``latest``: how many numbers of transmissions."""
        first = self.first[chunks]
        once = chunks if not self._resends else chunks[self.latest[chunks] == first]
        sent_at = float(self.sent_at[once].min()) if len(once) else None
        return Landing(np.sort(first)[-latest:].tolist(), sent_at)

    def sent_twice(self, chunks: Chunks) -> int:
        """How many of the chunks were retransmitted."""
        return int(np.count_nonzero(self.latest[chunks] != self.first[chunks])) if self._resends else 0

    def make_room(self, transmissions: int) -> None:
        """Make room in the log for so many more."""
        end = self.end + transmissions
        if end > len(self.log):
            self.log = np.concatenate([self.log, np.zeros(end, np.int64)])

    def all_flying(self) -> Chunks:
        """All chunks in flight, oldest first."""
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
        if self.head < self.end:
            # Most often it has not moved: three single looks cost less than one at many.
            chunk = self.log[self.head]
            if self.flying[chunk] and self.latest[chunk] == self.head:
                return
        while self.head < self.end:
            end = min(self.head + _STRIDE, self.end)
            chunks = self.log[self.head : end]
            alive = self.flying[chunks] & (self.latest[chunks] == np.arange(self.head, end))
            first = int(alive.argmax())
            if alive[first]:
                self.head += first
                return
            self.head = end
