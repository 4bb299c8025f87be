# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What happens to nearly every chunk, by C: its turn comes, it is sent, and its result arrives with those of its
neighbours. :class:`Flight` and :class:`Turns` do the same by numpy, and whatever else can happen to a chunk."""

from __future__ import annotations

from ctypes import CDLL, pointer

from sumwire.transport.in_flight import Chunks, Flight, Landing
from sumwire.transport.kernels import FastPathState, SteadyExchange, SteadyLanding, kernels
from sumwire.transport.turns import Turns
from sumwire.wire.messages import address_of


class Steady:
    """Works on the state of one exchange."""

    def __init__(self, library: CDLL, flight: Flight, turns: Turns) -> None:
        self._flight, self._turns = flight, turns
        self._library = library
        self._log = flight.log
        self._landing = SteadyLanding()
        # Only the log is ever moved.
        self._exchange = SteadyExchange(
            len(flight.flying),
            turns.short_step,
            turns.long_step,
            *map(address_of, (turns.ready, flight.flying, flight.landed, flight.first, flight.latest, flight.sent_at)),
            address_of(flight.log),
        )

    def send(self, most: int, filled: int, now: float) -> Chunks:
        """See :meth:`Turns.next` and :meth:`Flight.send`: chunks whose turn has come are sent for the first time."""
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
        """See :meth:`Turns.land` and :meth:`Turns.follow`: the results of the chunks first..last-1 have arrived."""
        flight, turns, landing = self._flight, self._turns, self._landing
        self._find_log()
        landing.head, landing.end = flight.head, flight.end
        turns.to = self._library.steady_land(self._exchange, first, last, turns.to, landing)
        flight.head = landing.head
        flight.count -= last - first
        return Landing(list(landing.latest), landing.sent_at if landing.sent_once else None)

    def lend(self, state: FastPathState, most_in_flight: int) -> None:
        """Let C work on the exchange alone (:mod:`sumwire.transport.fast_path`)."""
        flight, turns = self._flight, self._turns
        flight.make_room(len(turns.ready) - turns.taken)
        self._find_log()
        state.exchange = pointer(self._exchange)
        state.landing.head, state.landing.end = flight.head, flight.end
        state.taken, state.to = turns.taken, turns.to
        state.in_flight, state.most_in_flight = flight.count, most_in_flight

    def take_back(self, state: FastPathState) -> int:
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


def steady_of(flight: Flight, turns: Turns) -> Steady | None:
    """None if numpy has to do it. With early closing, results can arrive of chunks that were not sent."""
    library = kernels()
    return None if library is None or type(turns) is not Turns else Steady(library, flight, turns)
