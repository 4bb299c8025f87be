# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""One exchange under way: a payload up and a result down for each of its chunks.

:class:`FastPath` lets C run alone while nothing unusual happens: plain results arrive in order, and for each one more
chunk is sent. C returns on a loss, a timer, a notice of the switch, a full socket or the last few chunks, and
:class:`Exchange` takes over with :class:`Sender`, :class:`sumwire.transport.receiving.Receiver` and
:class:`sumwire.transport.waiting.Waiting`. Handling a batch of results in Python costs more than its path through the
    kernel.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire import trace
from sumwire.codec.errors import CodecError
from sumwire.errors import SumwireError, TamperedError
from sumwire.transport.buffers import Buffers, Results, Runs
from sumwire.transport.connection import Connection
from sumwire.transport.options import DeadlinePassedError, TimeoutPolicy
from sumwire.transport.receiving import Receiver, ask_who_is_missing
from sumwire.transport.retransmission import Outgoing, SendKind
from sumwire.transport.scheduling import Chunks
from sumwire.transport.steady import COLLECTED_PART, Outcome
from sumwire.transport.waiting import Waiting
from sumwire.transport.window import SPREAD_ROUNDS
from sumwire.wire.messages import Compiled, MessagePlaces
from sumwire.wire.packets import LOWER_HEADER_BYTES

if TYPE_CHECKING:
    from sumwire.blind.sums import SumCheck

# Masks payload, uint8 (chunks, up words, 128), of the chunks from a sequence number on, in place.
Hide = Callable[[int, NDArray[np.uint8]], None]


class Guard:
    """A blind job's masks and check for one exchange. ``chunks``: the number of the caller's chunks. ``check``: the
    check of the sums, whose chunks follow the caller's."""

    def __init__(self, chunks: int, hide: Hide, check: SumCheck | None, job: int) -> None:
        self.chunks = chunks
        self.room = 0 if check is None else check.room
        self._hide = hide
        self._check = check
        self._job = job
        self._taken = 0
        self._finished = check is None

    def mask(self, sequence: int, filled: int, upto: int, payload: NDArray[np.uint8]) -> int:
        """Mask the caller's chunks from ``filled`` to ``upto`` - 1, and after the last one also those of the check.

        ``payload``: that of all chunks; chunk 0 has the number ``sequence``. Returns how many are now ready.
        """
        if filled >= upto:
            return filled
        if self._check is not None:
            self._check.send(filled, payload[filled:upto])
            if upto == self.chunks:
                payload[upto:] = self._check.told()
                upto += self.room
        self._hide(sequence + filled, payload[filled:upto])
        return upto

    def completed(self, done: int, results: Results) -> int:
        """Return how many of the caller's results can be used, given that the first ``done`` results are in. The last
        one can be used only after the check of all. Raises TamperedError."""
        if self._check is None or self._finished:
            return min(done, self.chunks)
        upto = min(done, self.chunks)
        if upto > self._taken:
            self._check.take(self._taken, results.words[self._taken : upto])
            self._taken = upto
        if done < self.chunks + self.room:
            return min(upto, self.chunks - 1)
        try:
            self._check.finish(results.words[self.chunks :], results.counts, results.flags, results.cuts)
        except CodecError as error:
            raise tampered(self._job, error) from error
        self._finished = True
        return self.chunks


def tampered(job: int, error: CodecError) -> TamperedError:
    """Return the error for a packet that was changed on its way, as ``error`` says."""
    return TamperedError(
        f"job {job}: what the workers told each other through the switch was changed on the way: {error}; see who can "
        "write to the network or has the switch, then start all workers again"
    )


_OUTCOMES: Final = tuple(Outcome)
# Chunks that the window releases in one call.
_BATCH: Final = 512
# Seconds between two questions for the configuration of the switch, while packets are lost.
_ASK_EVERY_S: Final = 1.0


class Sender:
    """Sends what the window releases, in Python."""

    def __init__(self, connection: Connection, buffers: Buffers) -> None:
        self._connection = connection
        self._buffers = buffers

    def send(self) -> None:
        """Send everything that may be sent now, until the window or the socket is full."""
        connection, window = self._connection, self._connection.window
        now = connection.clock()
        few_first = False
        while True:
            if not len(window.held):
                outgoing = window.take(now, _BATCH)
                if outgoing is None:
                    return
                if outgoing.kind != SendKind.FIRST:
                    self._ask_for_configuration(now)
                    if not self._prepare(outgoing):
                        continue
                window.held = outgoing.chunks
                # Retries come before first transmissions, or by a timer that is looked at soon.
                few_first = outgoing.kind == SendKind.FIRST and len(window.held) < _BATCH
            window.held = window.held[connection.link.send(window.held, connection.pace.train) :]
            if len(window.held) or few_first:
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
    """Lets C send and receive for one exchange while nothing unusual happens. ``compiled``, ``places``: the link's."""

    def __init__(self, connection: Connection, buffers: Buffers, compiled: Compiled, places: MessagePlaces) -> None:
        link, window = connection.link, connection.window
        steady, socket = window.steady, link.socket
        assert steady is not None
        library = steady.library
        self._connection = connection
        self._buffers = buffers
        self._run, self._send = library.fast_path_run, library.fast_path_send
        runs = self._runs = Runs(library, places, buffers, steady.flying)
        where = link.packet_bytes, socket.batch, link.udp.fileno()
        self._socket = library.fast_path_socket(*compiled, *where, *link.compiled_tags)
        parts = self._socket, runs.messages, runs.exchange, steady.exchange
        self._state = library.fast_path(*map(ctypes.addressof, parts), spread=SPREAD_ROUNDS * window.slots)
        self._state.adaptive = window.options.adaptive_retries

    def go(self, upto: int, until_s: float = 0.0, *, block: bool = False, receive: bool = True) -> Outcome | None:
        """Process results and send what they allow. Ends when the first ``upto`` chunks, or one more round of slots,
        have results (ENOUGH), when something needs Python, or at ``until_s``. ``block``: wait for results.
        ``receive=False``: only send what may be sent now (ENOUGH or HELD).

        Returns why it ended. Returns None and does nothing if something needs Python from the beginning.
        """
        connection, state = self._connection, self._state
        link, window, catch_up = connection.link, connection.window, connection.catch_up
        if catch_up is not None and catch_up.recovery.missing:
            return None
        if not window.lend(state, upto):
            return None
        landed = None if catch_up is None else window.landed.copy()
        state.waits, state.until_s = block, until_s
        # A power of two.
        state.longest_train = 1 << min(connection.pace.train, link.socket.joined).bit_length() - 1
        state.longest_in = link.socket.longest_in
        state.results = state.messages_in = state.messages_out = state.sent = state.held = state.round_trips = 0
        state.error = state.forged = 0
        outcome: Outcome = _OUTCOMES[self._run(state) if receive else self._send(state)]
        window.take_back(state)
        self._count(state)
        if state.messages_in:
            connection.pace.arrived(state.results, state.began, state.now, drained=bool(state.drained))
        if catch_up is not None and landed is not None and state.results:
            chunks = np.flatnonzero(window.landed & ~landed)
            catch_up.applied(window.base + chunks, *self._buffers.datagrams(chunks))
        if outcome == Outcome.OTHER_MESSAGES:
            link.socket.see_collected()
        elif state.error:
            lost = link.failed(state.error, sending=outcome == Outcome.HELD)
            window.held = window.held[lost:]
        return outcome

    def _count(self, state: Any) -> None:
        """Note what C has received and sent."""
        stats, link = self._connection.stats, self._connection.link
        messages_in, messages_out = state.messages_in, state.messages_out
        stats.forged += state.forged
        if messages_in:
            link.socket.messages_received += messages_in
            link.socket.longest_in = state.longest_in
            stats.messages_received += messages_in
            stats.packets_received += state.results
            stats.bytes_received += state.results * (LOWER_HEADER_BYTES + self._runs.datagram_bytes)
        if messages_out:
            link.socket.messages_sent += messages_out
            stats.messages_sent += messages_out
            stats.packets_sent += state.sent
            stats.bytes_sent += state.sent * (LOWER_HEADER_BYTES + link.packet_bytes)


def _fast_path_of(connection: Connection, buffers: Buffers) -> FastPath | None:
    """None if Python does everything: C knows one clock."""
    if connection.window.steady is None or connection.clock is not time.monotonic:
        return None
    link = connection.link
    compiled, places = link.compiled, link.places
    return None if compiled is None or places is None else FastPath(connection, buffers, compiled, places)


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
        timeout_policy: TimeoutPolicy,
        next_run: int | None = None,
        guard: Guard | None = None,
    ) -> None:
        self.chunks = buffers.chunks if guard is None else guard.chunks
        self.payload = buffers.payload[: self.chunks]
        self.results = buffers.results if guard is None else buffers.results.first(self.chunks)
        self.closed = False
        # Whether nobody takes the results: what they lack is then in no mean, and is not counted.
        self.discarded = False
        self._connection = connection
        self._window = connection.window
        self._buffers = buffers
        self._guard = guard
        self._timeout_policy = timeout_policy
        self._next_run = next_run
        self._fast_path = _fast_path_of(connection, buffers)

    # What is rare is made when it is needed.

    @cached_property
    def _sender(self) -> Sender:
        return Sender(self._connection, self._buffers)

    @cached_property
    def _waiting(self) -> Waiting:
        return Waiting(self._connection, self._buffers, self._timeout_policy, self._next_run)

    @cached_property
    def _receiver(self) -> Receiver:
        return Receiver(self._connection, self._buffers, self._waiting)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def take_ahead(self) -> None:
        """Accept the results that arrived before this exchange began. Closes the exchange if one of them raises an
        error."""
        try:
            self._receiver.take_ahead()
        except SumwireError:
            self.close()
            raise

    def mark(self, first: int, flags: NDArray[np.uint8]) -> None:
        """Set flags, uint8 (n,), in the contributions of the chunks from ``first`` on, before they are
        :meth:`ready`."""
        self._buffers.mark(first, flags)

    def ready(self, upto: int) -> None:
        """Declare the payload of all chunks before ``upto`` filled, and send what the window allows."""
        began = self._connection.clock()
        window = self._window
        if self._guard is not None:
            upto = self._guard.mask(window.base, window.filled, upto, self._buffers.payload)
        window.filled = upto
        with trace.now.send:
            if self._fast_path is None or self._fast_path.go(0, receive=False) != Outcome.ENOUGH:
                self._sender.send()
        self._connection.stats.exchange_s += self._connection.clock() - began

    def progress(self, *, block: bool, upto: int = 0) -> int:
        """Process results and send what they allow. With ``block``, wait until there is something to do. If nothing
        unusual happens, that is until the first ``upto`` chunks have results, or two more windows of chunks.

        Returns how many chunks, counted from the first without a gap, have results. Raises StaleRunError and
        OrderError; with ``block`` also DeadlineError, see :meth:`finish`.
        """
        connection, window = self._connection, self._window
        began = connection.clock()
        if upto >= self.chunks:
            upto = self._buffers.chunks
        try:
            with trace.now.wait if block else trace.now.receive:
                outcome = None
                if self._fast_path is not None:
                    outcome = self._fast_path.go(upto, self._wake_at(), block=block)
                if outcome == Outcome.OTHER_MESSAGES:
                    self._receiver.take_apart()
                elif outcome == Outcome.TIME_OVER and block:
                    self._wait()
                elif outcome is None:
                    self._receive_or_wait(block)
            if window.open_chunks and outcome not in (Outcome.ENOUGH, Outcome.FEW_LEFT):
                with trace.now.send:
                    self._sender.send()
        finally:
            connection.stats.exchange_s += connection.clock() - began
        # C looks how far results are there without a gap.
        done = window.prefix if outcome in (Outcome.ENOUGH, Outcome.FEW_LEFT) else window.completed()
        return done if self._guard is None else self._guard.completed(done, self._buffers.results)

    def _wake_at(self) -> float:
        """When a timer or the time-out policy next has something to do."""
        waiting: Waiting | None = self.__dict__.get("_waiting")
        if waiting is None:
            return self._window.wake_at(self._connection.tick_s)
        return min(self._window.wake_at(), waiting.next_at)

    def _receive_or_wait(self, block: bool) -> None:
        # What a recovered result lets go must not wait for the next packet.
        if self._receiver.recover() or not block:
            self._receiver.receive()
        elif self._window.open_chunks:
            self._wait()

    def finish(self) -> Results:
        """Wait until every chunk has its result, and close the exchange.

        Raises DeadlineError when no new result arrives for the deadline's time, with the missing workers if the switch
        still answers (:mod:`sumwire.transport.receiving`).
        """
        with self:
            while self.progress(block=True, upto=self.chunks) < self.chunks:
                pass
            return self.results

    def close(self) -> None:
        """End the exchange, complete or not; closing twice is allowed."""
        if self.closed:
            return
        self.closed = True
        if self._connection.catch_up is not None:
            self._connection.catch_up.recovery.forget()
        self._count()

    def _wait(self) -> None:
        """Sleep until packets, room in the socket, the window's timer or the deadline; take in what has arrived."""
        connection, window = self._connection, self._window
        now = connection.clock()
        if now >= self._waiting.next_at and not self._may_wait(now):
            return
        held = len(window.held) > 0
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
        """Ask the time-out policy, if it is time. Returns False if a new result came after all when the deadline had
        passed."""
        window = self._window
        try:
            self._waiting.check(now)
        except DeadlinePassedError:
            error = window.deadline_error(now, window.oldest())
            ask_who_is_missing(self._connection, self._buffers, self._receiver, error)
            return False
        return True

    def _count(self) -> None:
        """Bring the statistics up to date, with what is missing from the results if the exchange is complete."""
        config, counters, stats = self._connection.config, self._window.counters, self._connection.stats
        results = self.results
        if not self._window.open_chunks:
            if not self.discarded:
                without = results.contributors >> np.uint32(config.seat) & np.uint32(1) == 0
                stats.missing += len(results.counts) * config.workers - int(results.counts.sum())
                stats.left_out += int(np.count_nonzero(without))
            if results.flags.any() or results.cuts.any():
                stats.trimmed += int(np.count_nonzero((results.flags & p4.FLAG_TRIMMED != 0) | (results.cuts != 0)))
                stats.ce_marks += int(np.count_nonzero(results.flags & p4.FLAG_CE))
        stats.retransmissions = counters.resent
        stats.retransmissions_quick = counters.resent_quick
        stats.retransmissions_timeout = counters.resent_timeout
        stats.duplicates = counters.duplicates
        stats.stale = counters.stale
        if self._connection.catch_up is not None:
            stats.refused_questions = self._connection.catch_up.recovery.service.counters.refused
        stats.flushed, stats.probes, stats.informs = counters.flushed, counters.probes, counters.informs
