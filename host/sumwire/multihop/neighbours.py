# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The sockets of one rank to the neighbour after it and from the one before it, and the thread that serves them.

The thread also answers between operations, while this rank computes. Otherwise a neighbour whose last STATE was lost
would wait for this rank's next operation.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from sumwire.errors import AddressError, ClosedError, TransportError
from sumwire.lifecycle import Lifecycle
from sumwire.multihop.schedule import HopError
from sumwire.multihop.transfer import (
    DATA,
    DONE,
    HEAD,
    MAGIC,
    PACKET,
    STATE_MAX,
    WINDOW_MAX,
    Incoming,
    OutgoingTensor,
    Path,
    here,
    unpack_state,
)
from sumwire.wire.batch import BatchSocket, enlarge_buffers
from sumwire.wire.messages import ask_for_tos

SILENCE_S: Final = 10.0
"""Default: seconds without a word from a neighbour after which it counts as gone."""
# Seconds of silence after which a neighbour is asked whether it is there, and between two such questions.
_ASK_S: Final = 0.25
# Seconds for which a rank that closes waits for its neighbour to know that all has arrived, and between its questions.
_LINGER_S: Final = 2.0
_LINGER_ASK_S: Final = 0.02
# Packets of one receiving call, and of one train.
_BATCH: Final = 256
_TRAIN: Final = 16
_ANCILLARY_BYTES: Final = socket.CMSG_SPACE(4)
# Errors after which a later call can succeed: an ICMP error of an earlier packet, a packet filter, a full queue.
_PASSING: Final = frozenset(
    {errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EPERM, errno.ENOBUFS, errno.EAGAIN}
)

Address = tuple[str, int]


@dataclass(frozen=True)
class Ports:
    """The ports at which neighbours reach this rank: the one before sends values to ``values``, the one after sends
    answers to ``answers``."""

    host: str
    values: int
    answers: int


@dataclass(eq=False)
class _Operation:
    number: int
    outgoing: OutgoingTensor
    incoming: Incoming
    answer_tos: int
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def done(self) -> bool:
        return self.outgoing.done and self.incoming.done


class _Heard:
    """When a neighbour was heard, and how often it was asked since. Silence is counted in questions, so that a process
    that was stopped for a while does not take its own absence for the neighbour's."""

    def __init__(self, side: str) -> None:
        self._side = side
        self._latest = 0.0
        self._questions = 0

    def word(self, now: float) -> None:
        """It was heard."""
        self._latest, self._questions = now, 0

    def asks(self, now: float, silence_s: float) -> bool:
        """Whether to ask now. Raises HopError after too many questions."""
        if now - self._latest <= _ASK_S:
            return False
        self._latest = now
        self._questions += 1
        if self._questions > silence_s / _ASK_S:
            raise HopError(
                f"no word from the neighbour {self._side} this rank for {silence_s:g} s; see its log, then start all "
                "workers again"
            )
        return True


class Neighbours:
    """One rank's place between two others; with two ranks both are the same. Also a context manager.

    ``host``: this rank's own address. ``silence_s``: see :data:`SILENCE_S`. Call :meth:`connect` before the first
    :meth:`run`. Raises AddressError if the address cannot be used here.
    """

    def __init__(self, host: str, *, silence_s: float = SILENCE_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._silence_s = silence_s
        self._clock = clock
        self._before, self._after = _bound(host), _bound(host)
        ask_for_tos(self._before)
        self.ports = Ports(host, self._before.getsockname()[1], self._after.getsockname()[1])
        self._batch = BatchSocket(self._after, row_bytes=STATE_MAX, batch=_BATCH)
        self._room = np.zeros(_BATCH, PACKET)
        self._rows = [row.data for row in self._room.view(np.uint8).reshape(_BATCH, -1)]
        self._tos = np.zeros(_BATCH, np.uint8)
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.poll()
        for waited in (self._before.fileno(), self._after.fileno(), self._wake):
            self._poll.register(waited, select.POLLIN)
        self._path = Path()
        self._token = 0
        self._begun = 0
        self._given: _Operation | None = None
        self._now: _Operation | None = None
        self._last: _Operation | None = None
        # Packets of the next operation that came before this rank began it, by number, and how many the neighbour sent.
        self._early: dict[int, tuple[bytes, int]] = {}
        self._before_heard, self._after_heard = _Heard("before"), _Heard("after")
        self._wants_room = False
        self._before_is_done = False
        self._closing_since: float | None = None
        self._error: Exception | None = None
        self._life = Lifecycle("the ring", "GroupRing() on all ranks")

    def __enter__(self) -> Neighbours:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def window(self) -> int:
        """How many packets may be in flight to the neighbour after this rank; see
        :mod:`sumwire.transport.congestion`."""
        return self._path.limit.chunks

    def connect(self, before: Address, after: Address, token: int) -> None:
        """Set the neighbours. ``before``: the address that the neighbour before sends from. ``after``: the address at
        which the neighbour after receives. ``token``: 64 bits that identify this ring."""
        try:
            self._before.connect(before)
            self._after.connect(after)
        except OSError as error:
            raise AddressError(
                f"no way to the neighbours {before[0]} and {after[0]}: {error.strerror}; bring the interface up, or "
                "add the route"
            ) from error
        self._token = token
        self._life.start(self._serve, "sumwire-neighbours", stop=self._stop)

    def run(self, outgoing: OutgoingTensor, incoming: Incoming, *, answer_tos: int = 0) -> None:
        """Send all of ``outgoing``, and receive all of ``incoming``. ``answer_tos``: the TOS byte of answers.

        Both neighbours must make this call too. Raises HopError if a neighbour is gone or makes another call, and
        ClosedError after :meth:`close`.
        """
        with self._life as life:
            if self._error is None and not life.running:
                raise ClosedError("the ring is not open: call connect() first")
            outgoing.packets["operation"], outgoing.packets["token"] = self._begun, self._token
            operation = _Operation(self._begun, outgoing, incoming, answer_tos)
            life.begun = True
            self._begun += 1
            self._given = operation
            # The thread may have failed since the last call. It sets the error, then ends the operations that it sees.
            if self._error is None:
                os.eventfd_write(self._wake, 1)
                operation.ended.wait()
            if self._error is not None:
                raise self._error

    def close(self) -> None:
        """Close the sockets, once the neighbour before knows that everything has arrived. Closing twice is allowed.

        A call under way in another thread ends with ClosedError.
        """
        if not self._life.forked:
            self._stop()
            self._life.close(self._close_files)

    def _stop(self) -> None:
        if self._closing_since is None:
            self._closing_since = self._clock()
            os.eventfd_write(self._wake, 1)

    def _close_files(self) -> None:
        self._before.close()
        self._batch.close()
        os.close(self._wake)

    # -- the thread ------------------------------------------------------------------------------------

    def _serve(self) -> None:
        try:
            while not self._may_end():
                self._turn()
            self._error = ClosedError("the ring is closed; make a new one: GroupRing() on all ranks")
        except OSError as error:
            self._error = TransportError(f"the socket of a ring failed: {error.strerror}; start all workers again")
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody may wait for this thread
            self._error = error
        for operation in (self._now, self._given):
            if operation is not None:
                operation.ended.set()

    def _turn(self) -> None:
        events = select.POLLIN | select.POLLOUT if self._wants_room else select.POLLIN
        self._poll.modify(self._after.fileno(), events)
        ready = dict(self._poll.poll(self._patience_ms()))
        if self._wake in ready:
            os.eventfd_read(self._wake)
        if self._now is None and self._given is not None:
            self._begin(self._given)
        if ready.get(self._before.fileno()):
            self._take_values()
        if ready.get(self._after.fileno(), 0) & ~select.POLLOUT:
            self._take_answers()
        if self._now is not None:
            self._send(self._now)
            self._ask(self._now)
            if self._now.done:
                self._finish(self._now)
        elif self._closing_since is not None:
            self._tell_before(asks=True)

    def _patience_ms(self) -> int:
        if self._now is None:
            return int(1000 * (_LINGER_ASK_S if self._closing_since is not None else _ASK_S))
        expiry = self._now.outgoing.expiry(self._path)
        wait = _ASK_S if expiry is None else min(max(expiry - self._clock(), 0.0), _ASK_S)
        return int(1000 * wait) + 1

    def _begin(self, operation: _Operation) -> None:
        self._now, self._given = operation, None
        self._before_heard.word(self._clock())
        self._after_heard.word(self._clock())
        self._before_is_done = False
        self._before.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, operation.answer_tos)
        outgoing = operation.outgoing
        count = len(outgoing.packets)
        if count:
            rows = outgoing.packets.view(np.uint8).reshape(count, PACKET.itemsize)
            self._batch.load(rows, joined=_TRAIN, tos=outgoing.tos)
        if self._early:
            packets = np.frombuffer(b"".join(raw for raw, _ in self._early.values()), PACKET)
            tos = np.array([each for _, each in self._early.values()], np.uint8)
            self._early.clear()
            operation.incoming.arrive(packets, tos)
        self._tell_before()

    def _finish(self, operation: _Operation) -> None:
        self._last, self._now = operation, None
        self._say_here(operation.number)
        operation.ended.set()

    def _may_end(self) -> bool:
        if self._closing_since is None:
            return False
        late = self._clock() - self._closing_since > _LINGER_S
        # With an operation under way its caller was interrupted.
        return self._now is not None or self._last is None or self._before_is_done or late

    # -- the neighbour before: values come, states go ---------------------------------------------------

    def _take_values(self) -> None:
        count = self._receive()
        packets = self._room[:count]
        ours = (packets["magic"] == MAGIC) & (packets["token"] == self._token)
        if not ours.any():
            return
        self._before_heard.word(self._clock())
        values = ours & (packets["kind"] == DATA)
        latest, coming = self._now or self._last, self._coming()
        for notice in packets[ours & ~values]:
            if notice["flags"] & DONE:
                self._before_is_done |= latest is not None and notice["operation"] == latest.number
        if self._now is not None:
            current = values & (packets["operation"] == self._now.number)
            if current.any():
                self._now.incoming.arrive(packets[current], self._tos[:count][current])
        for place in np.flatnonzero(values & (packets["operation"] == coming)):
            if len(self._early) < WINDOW_MAX:
                self._early[int(packets["number"][place])] = (packets[place].tobytes(), int(self._tos[place]))
        old = self._last is not None and (values & (packets["operation"] == self._last.number)).any()
        self._tell_before(old=bool(old))

    def _coming(self) -> int:
        """The number of the next operation."""
        latest = self._now or self._last
        return 0 if latest is None else latest.number + 1

    def _receive(self) -> int:
        """Receive packets with their TOS bytes. Returns how many."""
        for count, row in enumerate(self._rows):
            try:
                size, ancillary, _, _ = self._before.recvmsg_into([row], _ANCILLARY_BYTES, socket.MSG_DONTWAIT)
            except OSError as error:
                self._note_before(error)
                return count
            self._tos[count] = next((data[0] for _, kind, data in ancillary if kind == socket.IP_TOS), 0)
            short = size < HEAD.itemsize or (self._room["kind"][count] == DATA and size != PACKET.itemsize)
            if short:
                self._room["magic"][count] = 0
        return len(self._rows)

    def _tell_before(self, *, asks: bool = False, old: bool = False) -> None:
        """Send the state of what comes; ``old``: that of the operation before too."""
        told = [self._now or self._last, self._last if old else None]
        for operation in {id(one): one for one in told if one is not None}.values():
            state = operation.incoming.state(operation.number, asks=asks)
            self._tell(state.packed(self._token))
        if self._now is None and self._last is None:
            self._tell(here(0, self._token, done=False))

    def _tell(self, datagram: bytes) -> None:
        try:
            self._before.send(datagram, socket.MSG_DONTWAIT)
        except OSError as error:
            self._note_before(error)

    def _note_before(self, error: OSError) -> None:
        """Pass over an error that passes; all else is raised again."""
        if error.errno not in _PASSING:
            raise error
        if error.errno == errno.ECONNREFUSED and self._closing_since is not None:
            # It has closed, so it lacks nothing.
            self._before_is_done = True

    # -- the neighbour after: values go, states come ----------------------------------------------------

    def _take_answers(self) -> None:
        try:
            count = self._batch.receive()
        except OSError as error:
            if error.errno not in _PASSING:
                raise
            return
        for datagram, size in zip(self._batch.received[:count], self._batch.sizes[:count], strict=True):
            state = unpack_state(datagram[:size], self._token)
            if state is None:
                if datagram[:size].tobytes() == here(0, self._token, done=False):
                    # A neighbour that has not begun anything.
                    self._after_heard.word(self._clock())
                continue
            self._after_heard.word(self._clock())
            if self._now is not None and state.operation == self._now.number:
                self._now.outgoing.answered(state, self._path, self._clock())
            if state.asks:
                self._say_here(state.operation)

    def _say_here(self, operation: int) -> None:
        now = self._now
        done = now is None or now.number > operation or now.outgoing.done
        try:
            self._after.send(here(operation, self._token, done=done), socket.MSG_DONTWAIT)
        except OSError as error:
            if error.errno not in _PASSING:
                raise

    def _send(self, operation: _Operation) -> None:
        now = self._clock()
        numbers = operation.outgoing.due(self._path, now)
        self._wants_room = False
        while len(numbers):
            operation.outgoing.stamp(numbers)
            try:
                sent = self._batch.send(numbers, _TRAIN)
            except BlockingIOError:
                self._wants_room = True
                return
            except OSError as error:
                if error.errno not in _PASSING:
                    raise
                # This packet is lost.
                sent = 1
            operation.outgoing.sent(numbers[:sent], now)
            numbers = numbers[sent:]

    def _ask(self, operation: _Operation) -> None:
        """Ask neighbours that are silent. Raises HopError for one that has not answered for too long."""
        if not operation.incoming.done and self._before_heard.asks(self._clock(), self._silence_s):
            self._tell_before(asks=True)
        if not operation.outgoing.done and self._after_heard.asks(self._clock(), self._silence_s):
            self._say_here(operation.number)


def _bound(host: str) -> socket.socket:
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    try:
        udp.bind((host, 0))
    except OSError as error:
        udp.close()
        raise AddressError(
            f"address {host}: {error.strerror}; give one of this machine's own: `ip -br address`"
        ) from error
    enlarge_buffers(udp)
    return udp
