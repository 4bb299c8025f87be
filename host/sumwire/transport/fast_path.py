# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""An exchange by C alone, while nothing happens but the usual: plain results arrive in order, and for each one more
chunk is sent. At the first thing that is not usual, C returns, and :class:`sumwire.transport.exchange.Exchange` takes
over: a loss, a timer, a notice of the switch, a full socket, the last few chunks.

Python's part of a batch of results costs more than the batch's way through the kernel.
"""

from __future__ import annotations

import ctypes
import time
from ctypes import CDLL
from typing import Final

from sumwire.transport.connection import Connection
from sumwire.transport.kernels import FastPathSocket, FastPathState, Outcome, Polled, kernels
from sumwire.transport.link import Moved
from sumwire.transport.receiving import Receiver
from sumwire.transport.sending import Sender
from sumwire.transport.waiting import Waiting

_POLLIN: Final = 1


class FastPath:
    """For one exchange."""

    def __init__(
        self, library: CDLL, connection: Connection, sender: Sender, receiver: Receiver, waiting: Waiting
    ) -> None:
        self._run = library.fast_path_run
        self._connection = connection
        self._sender, self._receiver, self._waiting = sender, receiver, waiting
        self._state = FastPathState()
        self._socket = FastPathSocket()
        self._state.socket = ctypes.pointer(self._socket)
        self._ready = False
        self._result_bytes = 0

    def go(self, upto: int) -> Outcome | None:
        """Take in results and send what they allow, until the first ``upto`` chunks have theirs, or one more round of
        slots (ENOUGH), or something needs Python. Returns why it ended; None, and does nothing, where something needs
        Python from the beginning."""
        connection = self._connection
        window = connection.window
        if len(self._sender.held) or not window.is_usual or not (self._ready or self._prepare()):
            return None
        state = self._state
        state.until_s = min(window.wake_at(), self._waiting.next_at)
        state.longest_train = connection.link.socket.train(connection.pace.train)
        state.longest_in = connection.link.socket.longest_in
        state.results = state.messages_in = state.messages_out = state.sent = state.held = state.round_trips = 0
        state.error = 0
        window.lend(state)
        # After two windows Python looks at the round trip, the congestion window and the length of trains.
        state.until_prefix = min(upto, int(state.prefix) + window.slots)
        outcome = Outcome(self._run(state))
        self._take_note(outcome)
        return outcome

    def _prepare(self) -> bool:
        """Once the first packets are sent, C can be told where all things lie. Returns False if Python must go on."""
        link = self._connection.link
        compiled, runs = link.compiled(), self._receiver.runs
        if compiled is None or runs is None:
            return False
        on, state = self._socket, self._state
        on.collect, on.arrivals, on.filled, on.marked, on.cut, on.trains, on.out, on.collect_ns = compiled
        on.row_bytes, on.batch, on.polled = link.packet_bytes, link.socket.batch, Polled(link.socket.fileno(), _POLLIN)
        state.messages, state.run = ctypes.pointer(runs.messages), ctypes.pointer(runs.exchange)
        self._result_bytes = runs.datagram_bytes
        self._ready = True
        return True

    def _take_note(self, outcome: Outcome) -> None:
        """Everything that Python keeps account of."""
        connection, state = self._connection, self._state
        link = connection.link
        results = int(state.results)
        received = Moved(int(state.messages_in), results, self._result_bytes)
        sent = Moved(int(state.messages_out), int(state.sent), link.packet_bytes)
        link.moved(received, sent, int(state.longest_in))
        if state.messages_in:
            connection.pace.arrived(results, state.began, state.now, drained=bool(state.drained))
        self._sender.held = connection.window.take_back(state)
        if outcome == Outcome.OTHER_MESSAGES:
            self._receiver.take_apart()
        elif state.error:
            lost = link.failed(int(state.error), sending=outcome == Outcome.HELD)
            self._sender.held = self._sender.held[lost:]


def fast_path_of(connection: Connection, sender: Sender, receiver: Receiver, waiting: Waiting) -> FastPath | None:
    """None if Python does everything: C knows one clock, and results that others may ask for are kept by Python."""
    library = kernels()
    if library is None or connection.clock is not time.monotonic or receiver.runs is None:
        return None
    return FastPath(library, connection, sender, receiver, waiting)
