# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What happens to nearly every chunk, by C: its turn comes, it is sent, and its result arrives with those of its
neighbours.

A run is a set of plain results of consecutive chunks; C checks and stores it in one pass. Without a compiler, or with
SUMWIRE_NATIVE=0, numpy does the same at a higher price (:class:`sumwire.transport.scheduling.Flight`,
:class:`sumwire.transport.scheduling.SendSchedule`, :meth:`sumwire.transport.buffers.Buffers.plain_run`), as it does
whatever else can happen to a chunk.
"""

from __future__ import annotations

import math
from enum import IntEnum
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from nativelib.declarations import Native
from numpy.typing import NDArray

from sumwire.native import NativeFolder
from sumwire.transport.buffers import Buffers
from sumwire.transport.retransmission import REORDER_TOLERANCE, TIMEOUT_BURST_CHUNKS
from sumwire.transport.scheduling import Chunks, Flight, Landing, SendSchedule
from sumwire.wire.messages import MessagePlaces
from sumwire.wire.packets import CHUNK_MASK, HEADER_BYTES, offset_of

# A worker with nothing else to do wakes when one in so many of its open chunks is answered. The rest keeps the switch
# busy meanwhile, and the worker is woken less often (docs/measurements.md, sending by C).
COLLECTED_PART: Final = 2


class Outcome(IntEnum):
    """Why C ended the fast path (:mod:`sumwire.transport.exchange`)."""

    ENOUGH = 0
    TIME_OVER = 1
    OTHER_MESSAGES = 2
    RECEIVE_FAILED = 3
    OVERTAKEN = 4
    HELD = 5
    FEW_LEFT = 6


NATIVE: Final = NativeFolder(
    "sumwire-transport",
    Path(__file__).parent / "native",
    {
        "HEADER_BYTES": HEADER_BYTES,
        "HEAD_NUMBERS": HEADER_BYTES // 8,
        "CHUNK_MASK": CHUNK_MASK,
        "CHUNK_AT": offset_of("cut_chunk"),
        "COUNT_AT": offset_of("count"),
        "CONTRIBUTORS_AT": offset_of("contributors"),
        "REORDER_TOLERANCE": REORDER_TOLERANCE,
        "TIMEOUT_BURST_CHUNKS": TIMEOUT_BURST_CHUNKS,
        "COLLECTED_PART": COLLECTED_PART,
        **{outcome.name: outcome.value for outcome in Outcome},
    },
    without="numpy sends and takes in results, at a higher price than C",
)
kernels: Final = NATIVE.kernels
_ADDRESS: Final = attrgetter("ctypes.data")


class Run(NamedTuple):
    """Messages with datagrams of one size, about consecutive chunks. ``longest``: datagrams of the longest message."""

    first: int
    datagrams: int
    longest: int
    datagram_bytes: int


class Runs:
    """The runs among the results of one exchange.

    ``messages``: where received messages lie; ``exchange``: what is taken from them. Both are for C. ``flying``: bool
    (chunks,), whether a chunk is in flight; read at every call.
    """

    def __init__(self, library: Native, messages: MessagePlaces, buffers: Buffers, flying: NDArray[np.bool_]) -> None:
        expected, results = buffers.expected, buffers.results
        # The structures only have addresses.
        self._kept = expected.heads, results, flying
        self._take = library.runs_take
        self.messages = library.runs_messages(*messages)
        payload_bytes = math.prod(results.words.shape[1:])
        self.exchange = library.runs_exchange(
            expected.heads.ctypes.data,
            tuple(expected.mask.tolist()),
            buffers.chunks,
            payload_bytes,
            buffers.tag_bytes,
            *map(_ADDRESS, (flying, results.words, results.counts, results.contributors)),
        )
        # Of each result.
        self.datagram_bytes = HEADER_BYTES + payload_bytes + buffers.tag_bytes

    def take(self, messages: int) -> Run | None:
        """Store the results that lie in so many messages, if they are all plain ones of consecutive chunks in flight.

        Returns None, with nothing stored, if there is anything else among them.
        """
        exchange = self.exchange
        count = self._take(self.messages, messages, exchange)
        return Run(exchange.first, count, exchange.longest, self.datagram_bytes) if count else None


class Steady:
    """Works on the state of one exchange, whose slots close with all workers: with early closing, results can arrive of
    chunks that were not sent. ``exchange``: that state, for C. ``flying``, ``log``: see :class:`Flight`."""

    def __init__(self, library: Native, flight: Flight, turns: SendSchedule) -> None:
        self._flight, self._turns = flight, turns
        self.library, self.flying = library, flight.flying
        self.log = flight.log
        self._landing = library.steady_landing()
        arrays = turns.ready, flight.flying, flight.landed, flight.first, flight.latest, flight.sent_at, flight.log
        # Only the log is ever moved.
        self.exchange = library.steady_exchange(
            len(flight.flying), turns.short_step, turns.long_step, *map(_ADDRESS, arrays)
        )

    def send(self, most: int, below: int, now: float) -> Chunks:
        """Send chunks whose turn has come for the first time: :meth:`SendSchedule.next`, :meth:`Flight.send`."""
        flight, turns = self._flight, self._turns
        begin = turns.taken
        self.make_room(min(turns.to - begin, most))
        sent: int = self.library.steady_send(self.exchange, begin, turns.to, most, below, flight.end, now)
        turns.taken += sent
        flight.count_sent(sent)
        return turns.ready[begin : begin + sent]

    def land(self, first: int, last: int) -> Landing:
        """Note that results of chunks first..last-1 have arrived: :meth:`SendSchedule.land`, `SendSchedule.follow`."""
        flight, turns, landing = self._flight, self._turns, self._landing
        if flight.log is not self.log:
            self.make_room(0)
        landing.head, landing.end = flight.head, flight.end
        turns.to = self.library.steady_land(self.exchange, first, last, turns.to, landing)
        flight.head = landing.head
        flight.count -= last - first
        return Landing(list(landing.latest), landing.sent_at if landing.sent_once else None)

    def make_room(self, transmissions: int) -> None:
        """Make room in ``log`` for so many more. Retransmissions may have moved the flight's."""
        flight = self._flight
        if flight.end + transmissions > len(flight.log):
            flight.make_room(transmissions)
        if flight.log is not self.log:
            self.log = flight.log
            self.exchange.log = self.log.ctypes.data
