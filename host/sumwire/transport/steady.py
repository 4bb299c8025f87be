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
from ctypes import addressof
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from nativelib.declarations import Native
from numpy.typing import NDArray

from sumwire.native import NativeFolder
from sumwire.transport.buffers import Buffers
from sumwire.transport.retransmission import REORDER_TOLERANCE, TIMEOUT_BURST_CHUNKS
from sumwire.transport.scheduling import Chunks, Flight, Landing, SendSchedule
from sumwire.wire.messages import MessagePlaces, address_of
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
    NOTHING_READY = 6
    FEW_LEFT = 7


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
        self.exchange = library.runs_exchange(
            address_of(expected.heads),
            tuple(expected.mask.tolist()),
            buffers.chunks,
            math.prod(results.words.shape[1:]),
            buffers.tag_bytes,
            address_of(flying),
            address_of(results.words),
            address_of(results.counts),
            address_of(results.contributors),
        )

    @property
    def datagram_bytes(self) -> int:
        """Of each result."""
        return HEADER_BYTES + int(self.exchange.payload_bytes) + int(self.exchange.tag_bytes)

    def take(self, messages: int) -> Run | None:
        """Store the results that lie in so many messages, if they are all plain ones of consecutive chunks in flight.

        Returns None, with nothing stored, if there is anything else among them.
        """
        exchange = self.exchange
        count = self._take(self.messages, messages, exchange)
        return Run(exchange.first, count, exchange.longest, self.datagram_bytes) if count else None


class Steady:
    """Works on the state of one exchange."""

    def __init__(self, library: Native, flight: Flight, turns: SendSchedule) -> None:
        self._flight, self._turns = flight, turns
        self._library = library
        self._log = flight.log
        self._landing = library.steady_landing()
        # Only the log is ever moved.
        self._exchange = library.steady_exchange(
            len(flight.flying),
            turns.short_step,
            turns.long_step,
            *map(address_of, (turns.ready, flight.flying, flight.landed, flight.first, flight.latest, flight.sent_at)),
            address_of(flight.log),
        )

    def send(self, most: int, filled: int, now: float) -> Chunks:
        """Send chunks whose turn has come for the first time: :meth:`SendSchedule.next`, :meth:`Flight.send`."""
        flight, turns = self._flight, self._turns
        begin, end = turns.taken, min(turns.to, turns.taken + most)
        flight.make_room(end - begin)
        self._find_log()
        sent: int = self._library.steady_send(self._exchange, begin, end, filled, flight.end, now)
        if sent:
            turns.taken += sent
            flight.count_sent(sent)
        return turns.ready[begin : begin + sent]

    def land(self, first: int, last: int) -> Landing:
        """Note that results of chunks first..last-1 have arrived: :meth:`SendSchedule.land`, `SendSchedule.follow`."""
        flight, turns, landing = self._flight, self._turns, self._landing
        self._find_log()
        landing.head, landing.end = flight.head, flight.end
        turns.to = self._library.steady_land(self._exchange, first, last, turns.to, landing)
        flight.head = landing.head
        flight.count -= last - first
        return Landing(list(landing.latest), landing.sent_at if landing.sent_once else None)

    def lend(self, state: Any, most_in_flight: int) -> None:
        """Let C work on the exchange alone (:mod:`sumwire.transport.exchange`)."""
        flight, turns = self._flight, self._turns
        flight.make_room(len(turns.ready) - turns.taken)
        self._find_log()
        state.exchange = addressof(self._exchange)
        state.landing.head, state.landing.end = flight.head, flight.end
        state.taken, state.to = turns.taken, turns.to
        state.in_flight, state.most_in_flight = flight.count, most_in_flight

    def take_back(self, state: Any) -> int:
        """Take over what C has done. Returns how many chunks were sent."""
        flight, turns = self._flight, self._turns
        sent = int(state.taken) - turns.taken
        flight.head = int(state.landing.head)
        flight.count_sent(sent)
        flight.count -= int(state.results)
        turns.taken, turns.to = int(state.taken), int(state.to)
        return sent

    def _find_log(self) -> None:
        """Retransmissions may have moved it."""
        if self._flight.log is not self._log:
            self._log = self._flight.log
            self._exchange.log = address_of(self._log)


def steady_of(flight: Flight, turns: SendSchedule) -> Steady | None:
    """None if numpy has to do it. With early closing, results can arrive of chunks that were not sent."""
    library = kernels()
    return None if library is None or type(turns) is not SendSchedule else Steady(library, flight, turns)
