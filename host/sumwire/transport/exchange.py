# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One exchange under way: a payload up and a result down for each of its chunks.

:class:`FastPath` lets C go on alone while nothing unusual happens: plain results arrive in order, and for each one more
chunk is sent. C returns at a loss, a timer, a notice of the switch, a full socket or the last few chunks, and
:class:`Exchange` takes over with :class:`Sender`, :class:`sumwire.transport.receiving.Receiver` and
:class:`sumwire.transport.waiting.Waiting`. Python's part of a batch of results costs more than the batch's way through
the kernel.
"""

from __future__ import annotations

import ctypes
import time
from types import TracebackType
from typing import Final, Self

import numpy as np
from nativelib.declarations import Native
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.errors import SumwireError
from sumwire.trace import span
from sumwire.transport.buffers import Buffers, Results
from sumwire.transport.connection import Connection
from sumwire.transport.guard import Guard
from sumwire.transport.link import Moved
from sumwire.transport.options import DeadlinePassedError, Patience
from sumwire.transport.receiving import Receiver, ask_who_is_missing
from sumwire.transport.retransmission import Outgoing, SendKind
from sumwire.transport.scheduling import Chunks
from sumwire.transport.steady import COLLECTED_PART, Outcome, kernels
from sumwire.transport.waiting import Waiting

_NO_CHUNKS: Final = np.zeros(0, np.int64)
# Chunks that the window releases in one call.
_BATCH: Final = 512
# Seconds between two questions for the configuration of the switch, while packets are lost.
_ASK_EVERY_S: Final = 1.0


class Sender:
    """``held``: chunks that the window has released and the full socket has not accepted yet."""

    def __init__(self, connection: Connection, buffers: Buffers) -> None:
        self.held: Chunks = _NO_CHUNKS
        self._connection = connection
        self._buffers = buffers

    def send(self) -> None:
        """Send all that may be sent now, until the window or the socket has enough."""
        connection = self._connection
        now = connection.clock()
        few_first = False
        while True:
            if not len(self.held):
                outgoing = connection.window.take(now, _BATCH)
                if outgoing is None:
                    return
                if outgoing.kind != SendKind.FIRST:
                    self._ask_for_configuration(now)
                    if not self._prepare(outgoing):
                        continue
                self.held = outgoing.chunks
                # Retries come before first transmissions, or by a timer that is looked at soon.
                few_first = outgoing.kind == SendKind.FIRST and len(self.held) < _BATCH
            self.held = self.held[connection.link.send(self.held, connection.pace.train) :]
            if len(self.held) or few_first:
                return

    def _ask_for_configuration(self, now: float) -> None:
        """Say HELLO, now and then: packets were lost, maybe because the switch was given another configuration."""
        if now - self._connection.link.asked_at >= _ASK_EVERY_S:
            self._connection.say_hello()

    def _prepare(self, outgoing: Outgoing) -> bool:
        """Make the packets of a retry. Returns False if the exchange's own packets are not to be sent."""
        connection, buffers, (chunks, kind) = self._connection, self._buffers, outgoing
        if kind == SendKind.RECOVER:
            self._recover(chunks)
        elif kind == SendKind.PROBE:
            for chunk in chunks.tolist():
                connection.link.send_one(buffers.probe(chunk), buffers.protected_tos(chunk))
        else:
            buffers.prepare(chunks, kind, connection.closing_contributions - 1)
            return True
        return False

    def _recover(self, chunks: Chunks) -> None:
        connection = self._connection
        if connection.catch_up is not None:
            connection.catch_up.recovery.ask((connection.window.base + chunks).tolist(), self._buffers.op)
            connection.catch_up.recovery.send(connection.clock())


class FastPath:
    """For one exchange."""

    def __init__(
        self, library: Native, connection: Connection, sender: Sender, receiver: Receiver, waiting: Waiting
    ) -> None:
        self._run = library.fast_path_run
        self._connection = connection
        self._sender, self._receiver, self._waiting = sender, receiver, waiting
        self._state = library.fast_path()
        self._socket = library.fast_path_socket()
        self._state.socket = ctypes.addressof(self._socket)
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
        on.row_bytes, on.batch, on.descriptor = link.packet_bytes, link.socket.batch, link.socket.fileno()
        state.messages, state.run = ctypes.addressof(runs.messages), ctypes.addressof(runs.exchange)
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


class Exchange:
    """An exchange whose payload becomes ready in parts and whose results can be used in parts.

    Fill ``payload[first:last]``, call :meth:`ready`, call :meth:`progress` repeatedly, and use ``results`` up to what
    it returns. Also a context manager. After :meth:`close` its arrays belong to the next exchange.

    ``payload``: uint8 (chunks, up words, 128). ``results``: see :class:`Results`. ``guard``: a blind job's, whose
    chunks behind the caller's are in neither.
    """

    def __init__(
        self,
        connection: Connection,
        buffers: Buffers,
        patience: Patience,
        next_run: int | None = None,
        guard: Guard | None = None,
    ) -> None:
        self.chunks = buffers.chunks if guard is None else guard.chunks
        self.payload = buffers.payload[: self.chunks]
        self.results = buffers.results.first(self.chunks)
        self.closed = False
        self._connection = connection
        self._window = connection.window
        self._buffers = buffers
        self._guard = guard
        self._sender = Sender(connection, buffers)
        self._waiting = Waiting(connection, buffers, patience, next_run)
        self._receiver = Receiver(connection, buffers, self._waiting)
        self._fast_path = fast_path_of(connection, self._sender, self._receiver, self._waiting)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def take_ahead(self) -> None:
        """Accept the results that arrived before this exchange began. Closes it if one of them raises an error."""
        try:
            self._receiver.take_ahead()
        except SumwireError:
            self.close()
            raise

    def mark(self, first: int, flags: NDArray[np.uint8]) -> None:
        """Give the contributions of the chunks from ``first`` on flags, uint8 (n,), before they are :meth:`ready`."""
        self._buffers.mark(first, flags)

    def ready(self, upto: int) -> None:
        """The payload of all chunks before ``upto`` is filled: send what the window allows."""
        began = self._connection.clock()
        window = self._window
        if self._guard is not None:
            upto = self._guard.mask(window.base, window.filled, upto, self._buffers.payload)
        window.filled = upto
        with span("send"):
            self._sender.send()
        self._connection.stats.exchange_s += self._connection.clock() - began

    def progress(self, *, block: bool, upto: int = 0) -> int:
        """Take in results and send what they allow. With ``block``, wait until there is something to do; where nothing
        unusual happens, until the first ``upto`` chunks have their results, or two windows more.

        Returns how many chunks, from the first on without a gap, have their results. Raises StaleRunError and
        OrderError; with ``block`` also DeadlineError, see :meth:`finish`.
        """
        connection, window = self._connection, self._window
        began = connection.clock()
        if upto >= self.chunks:
            upto = self._buffers.chunks
        try:
            # What a recovered result lets go must not wait for the next packet.
            with span("wait" if block else "receive"):
                outcome = self._fast_path.go(upto) if block and self._fast_path is not None else None
                if outcome == Outcome.ENOUGH:
                    return self._completed()
                if self._receiver.recover() or not block:
                    self._receiver.receive()
                # What C has taken in lets something go: an overtaken chunk, or one not looked at yet.
                # Others may wait for it, and then nothing comes that would end this wait.
                elif not window.done and outcome in (None, Outcome.TIME_OVER):
                    self._wait()
            if not window.done:
                with span("send"):
                    self._sender.send()
        finally:
            connection.stats.exchange_s += connection.clock() - began
        return self._completed()

    def _completed(self) -> int:
        done = self._window.completed()
        return done if self._guard is None else self._guard.completed(done, self._buffers.results)

    def finish(self) -> Results:
        """Wait until every chunk has its result, and close the exchange.

        Raises DeadlineError when no new result arrives for the deadline's time, with the missing workers if the switch
        still answers (:mod:`sumwire.transport.receiving`).
        """
        with self:
            while self._completed() < self.chunks:
                self.progress(block=True, upto=self.chunks)
            return self.results

    def close(self) -> None:
        """End the exchange, complete or not; closing twice is allowed."""
        if self.closed:
            return
        self.closed = True
        if self._connection.catch_up is not None:
            self._connection.catch_up.recovery.forget()
        if self._window.done:
            self._count_results()
        self._copy_counters()

    def _wait(self) -> None:
        """Sleep until packets, room in the socket, the window's timer or the deadline; take in what has arrived."""
        connection, window = self._connection, self._window
        now = connection.clock()
        if now >= self._waiting.next_at and not self._may_wait(now):
            return
        held = len(self._sender.held) > 0
        wake_at = min(window.wake_at(), self._waiting.next_at)
        if connection.catch_up is not None:
            wake_at = min(wake_at, connection.catch_up.recovery.wake_at())
        # Rounded up: a timer must have expired when the wait is over, or the loop would spin.
        if connection.link.wait(max(0, int((max(wake_at, now) - now) * 1000) + 1), room=held):
            wanted = 0 if held else window.in_flight // COLLECTED_PART
            self._receiver.receive(wanted if wanted > 1 else 0)
        else:
            self._receiver.discard_late_answers()

    def _may_wait(self, now: float) -> bool:
        """Ask the patience, if it is time. Returns False if the deadline has passed and a new result came after all."""
        window = self._window
        try:
            self._waiting.check(now)
        except DeadlinePassedError:
            error = window.deadline_error(now, window.oldest())
            ask_who_is_missing(self._connection, self._buffers, self._receiver, error)
            return False
        return True

    def _count_results(self) -> None:
        """Add what is missing from the results of a complete exchange to the statistics."""
        config, stats, results = self._connection.config, self._connection.stats, self.results
        stats.missing += len(results.counts) * config.workers - int(results.counts.sum())
        stats.left_out += int(np.count_nonzero(results.contributors >> np.uint32(config.seat) & np.uint32(1) == 0))
        if results.flags.any() or results.cuts.any():
            stats.trimmed += int(np.count_nonzero((results.flags & p4.FLAG_TRIMMED != 0) | (results.cuts != 0)))
            stats.ce_marks += int(np.count_nonzero(results.flags & p4.FLAG_CE))

    def _copy_counters(self) -> None:
        counters, stats = self._window.counters, self._connection.stats
        stats.retransmissions = counters.resent
        stats.retransmissions_quick = counters.resent_quick
        stats.retransmissions_timeout = counters.resent_timeout
        stats.duplicates = counters.duplicates
        stats.stale = counters.stale
        if self._connection.catch_up is not None:
            stats.refused_questions = self._connection.catch_up.recovery.service.counters.refused
        stats.flushed, stats.probes, stats.informs = counters.flushed, counters.probes, counters.informs
