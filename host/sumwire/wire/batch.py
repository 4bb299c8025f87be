# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sends and receives many datagrams in one call, by Linux's sendmmsg and recvmmsg over arrays made once.

Python's work for a single packet costs more than the packet's path through the kernel. Here a call sends rows of an
array without copying them, and receives into the rows of another. Consecutive rows cross the kernel as trains
(:mod:`sumwire.wire.trains`), both ways, where the kernel can do that.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import socket
import struct
from typing import Any, Final

import numpy as np
from nativelib.declarations import Native
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.wire.messages import (
    CONTROL,
    CONTROL_BYTES,
    CONTROLS_BYTES,
    MESSAGE,
    NO_TRAINS,
    NOTHING_THERE,
    UDP_GRO,
    UDP_SEGMENT,
    VECTOR,
    Compiled,
    MessagePlaces,
    ReceivedControls,
    address_of,
    are_marked,
    ask_for_tos,
    calls,
    checked,
    kernels,
    send_despite_icmp,
)
from sumwire.wire.trains import TRAIN_ROWS, Arrivals, train_limit, train_starts

# From asm-generic/socket.h. Older Pythons have no names for these.
_SO_SNDBUFFORCE: Final = 32
_SO_RCVBUFFORCE: Final = 33
# Seconds without a datagram after which a receive that wants several returns. The kernel counts in ticks, so it may
# take 8 ms.
_COLLECT_S: Final = 0.003
_NANO: Final = 1_000_000_000
# Room for half of all slots, at twice the largest packet, since the kernel counts its own overhead too.
SOCKET_BUFFER_BYTES: Final = p4.SLOTS_TOTAL * 2 * p4.SLOT_WORDS * p4.WORD_BYTES


class _Messages:
    """The messages of a call, each of one piece of memory."""

    def __init__(self, count: int) -> None:
        self.vectors = np.zeros(count, VECTOR)
        self._messages = np.zeros(count, MESSAGE)
        self.headers: NDArray[Any] = self._messages["header"]
        self.headers["vectors"] = address_of(self.vectors) + np.arange(count) * VECTOR.itemsize
        self.headers["vectors_length"] = 1
        self.lengths: NDArray[np.uint32] = self._messages["length"]
        self.address = address_of(self._messages)


class _Outbox(_Messages):
    """Messages to be sent, each with room for a TOS byte."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        controls = np.zeros(count, CONTROL)
        controls["length"] = CONTROL_BYTES
        controls["level"] = socket.IPPROTO_IP
        controls["type"] = socket.IP_TOS
        self.controls: NDArray[np.int32] = controls["value"]
        self.headers["control"] = address_of(controls) + np.arange(count) * CONTROL.itemsize
        self.control_lengths: NDArray[np.uintp] = self.headers["control_length"]


class _Inbox(_Messages):
    """Messages that are received. ``segments``: the bytes of each datagram in a message, 0 if it is a single one;
    ``marks``: whether a queue on its way has marked it."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.controls = ReceivedControls(self.headers)
        self.segments = np.zeros(count, np.int32)
        self.marks = np.zeros(count, np.bool_)

    def note(self, count: int) -> int:
        """So many were received, by Python. Returns how many were marked."""
        self.segments[:count] = self.controls.sizes(count)
        self.marks[:count] = are_marked(self.controls.tos(count))
        return int(np.count_nonzero(self.marks[:count]))


class BatchSocket:
    """A connected socket. Sending never waits for room. Receiving may wait, see :meth:`receive`.

    ``received`` has a row for each datagram that the latest call brought, ``sizes`` the bytes of each; at least
    ``row_bytes`` of a datagram are there, but see ``usual_bytes``, and longer ones are cut. The next call overwrites
    both. A call moves at most ``batch`` messages, each a datagram or a train of them; ``messages_sent`` and
    ``messages_received`` count them. ``sends_trains`` and ``receives_trains``: False once the kernel or the device
    turned out to support none; all rows then go one by one. ``joined``: the most rows of a train; more than 1 if the
    socket cuts messages into rows of the present size.

    ``usual_bytes``: if all datagrams have this size, rows have it too. ``tells_marks``: whether ``marked`` is set,
    which tells the datagrams of the latest call that a queue on their way has marked (ECN). Raises UsageError on a
    system without sendmmsg.
    """

    def __init__(
        self,
        sock: socket.socket,
        *,
        row_bytes: int,
        batch: int,
        usual_bytes: int | None = None,
        tells_marks: bool = False,
    ) -> None:
        self._sendmmsg, self._recvmmsg = calls()
        self._socket = sock
        self.batch = batch
        self.messages_sent = self.messages_received = 0
        self.sends_trains, self.receives_trains = True, receive_trains(sock)
        if tells_marks:
            ask_for_tos(sock)
        sock.setblocking(True)
        whole, part = divmod(_COLLECT_S, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", int(whole), int(part * 1e6)))
        self._collect = np.zeros(2, np.int_)
        self._collect_at = address_of(self._collect)
        self._out, self._in = _Outbox(batch), _Inbox(batch)
        usual_bytes = usual_bytes or row_bytes
        self._arrivals = Arrivals(batch, row_bytes=row_bytes, usual_bytes=usual_bytes, trains=self.receives_trains)
        memory = self._arrivals.memory
        self._in.vectors["base"] = address_of(memory) + np.arange(batch) * memory.strides[0]
        self._in.vectors["length"] = memory.shape[1]
        self._filled = batch
        # Messages of the latest call that were marked.
        self.marked_messages = 0
        # Datagrams of the longest train of late.
        self.longest_in = 1
        self._kernels = kernels()
        # Structures for C.
        self._cut_rows: Any = None
        self._messages_in: Any = None
        if self._kernels is not None:
            self._prepare(self._kernels)
        self._rows = np.zeros((0, 0), np.uint8)
        self._tos: NDArray[np.uint8] | None = None
        self._base = self._size = self._phase = 0
        self.joined = 1

    def _prepare(self, kernels: Native) -> None:
        out, arriving = self._out, self._in
        self._cut_rows = kernels.trains_out(
            vectors=address_of(out.vectors),
            controls=address_of(out.controls),
            control_bytes=out.controls.strides[0],
            room=self.batch,
        )
        self._messages_in = kernels.arrivals_in(
            messages=arriving.address,
            control_bytes=CONTROLS_BYTES,
            segments=address_of(arriving.segments),
            marks=address_of(arriving.marks),
            room=self.batch,
            filled=self.batch,
        )

    @functools.cached_property
    def compiled(self) -> Compiled | None:
        """What other C code needs to send and receive like :meth:`send` and :meth:`collect`; None if Python does it."""
        kernels, out = self._kernels, self._out
        if kernels is None:
            return None
        at = ctypes.addressof(self._messages_in)
        return Compiled(
            collect=ctypes.cast(kernels.arrivals_collect, ctypes.c_void_p).value or 0,
            arrivals=at,
            filled=at + kernels.arrivals_in.filled.offset,
            marked=at + kernels.arrivals_in.marked.offset,
            cut=ctypes.cast(kernels.trains_cut, ctypes.c_void_p).value or 0,
            trains=ctypes.addressof(self._cut_rows),
            out=out.address,
            collect_ns=int(_COLLECT_S * _NANO),
        )

    def see_collected(self) -> None:
        """Note that other C code has received messages, which :meth:`take_apart` is to split."""
        self._filled, self.marked_messages = self._messages_in.filled, self._messages_in.marked

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    @property
    def received(self) -> NDArray[np.uint8]:
        """The datagrams of the latest call; there may be more rows than datagrams."""
        return self._arrivals.rows

    @property
    def sizes(self) -> NDArray[np.uint32]:
        """The bytes of each datagram of the latest call."""
        return self._arrivals.sizes

    @property
    def marked(self) -> NDArray[np.bool_] | None:
        """Which datagrams of the latest call were marked, (n,), after :meth:`take_apart`; None if none was."""
        if not self.marked_messages:
            return None
        marks, counts = self._in.marks[: self._filled], self._arrivals.counts
        return marks if counts is None else np.repeat(marks, counts)

    def load(
        self, rows: NDArray[np.uint8], *, joined: int = TRAIN_ROWS, tos: NDArray[np.uint8] | None = None, phase: int = 0
    ) -> None:
        """Set the rows (n, packet bytes), without gaps, that :meth:`send` sends. Their memory must stay in place.

        ``joined``: the most rows of a train; 1 if the socket is no UDP socket. ``tos``: the IPv4 TOS byte of each row,
        which may change later; without it the socket's own. ``phase``: the slot of row 0, see :func:`train_starts`.
        """
        self._tos = tos
        self._rows, self._base, self._size, self._phase = rows, rows.ctypes.data, rows.shape[1], phase
        self._out.control_lengths[:] = 0 if tos is None else CONTROL.itemsize
        if (cut := self._cut_rows) is not None:
            cut.base, cut.row_bytes, cut.phase = self._base, self._size, phase
            cut.tos = None if tos is None else address_of(tos)
        self.joined = train_limit(self._size, joined) if self.sends_trains else 1
        if self.joined > 1:
            try:
                self._socket.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, self._size)
            except OSError:
                self._stop_joining()

    def send(self, rows: NDArray[np.integer[Any]], joined: int = TRAIN_ROWS) -> int:
        """Send the loaded rows with these numbers, in at most ``batch`` messages. Returns how many, from the first on,
        were sent.

        ``joined``: the most rows of a train, if below the limit of :meth:`load`. Raises OSError if none was sent,
        BlockingIOError if there is no room.
        """
        if not len(rows):
            return 0
        count, end = self._cut(rows, 1 << min(joined, self.joined).bit_length() - 1)
        try:
            sent = send_despite_icmp(
                lambda: checked(self._sendmmsg(self.fileno(), self._out.address, count, socket.MSG_DONTWAIT))
            )
        except OSError as error:
            if self.joined == 1 or error.errno not in NO_TRAINS:
                raise
            self._stop_joining()
            return self.send(rows)
        self.messages_sent += sent
        return end if sent == count else int(self._out.vectors["length"][:sent].sum()) // self._size

    def _cut(self, rows: NDArray[np.integer[Any]], longest: int) -> tuple[int, int]:
        """Lay trains of at most ``longest`` rows into the messages, as far as these suffice. Returns how many messages,
        and how many rows are in them."""
        if self._kernels is None:
            return self._cut_by_numpy(rows, longest)
        numbers = np.ascontiguousarray(rows, np.int64)
        messages: int = self._kernels.trains_cut(self._cut_rows, address_of(numbers), len(numbers), longest)
        return messages, self._cut_rows.rows

    def _cut_by_numpy(self, rows: NDArray[np.integer[Any]], longest: int) -> tuple[int, int]:
        tos = None if self._tos is None else self._tos[rows]
        starts = train_starts(rows, longest, self._phase, tos)
        end = len(rows)
        if len(starts) > self.batch:
            end = int(starts[self.batch])
            starts = starts[: self.batch]
        count = len(starts)
        self._out.controls[:count] = 0 if tos is None else tos[starts]
        vectors = self._out.vectors[:count]
        vectors["base"] = self._base + rows[starts] * self._size
        vectors["length"] = np.diff(starts, append=end) * self._size
        return count, end

    @property
    def places(self) -> MessagePlaces:
        """Where the messages of a call lie."""
        memory, lengths, segments = self._arrivals.memory, self._in.lengths, self._in.segments
        return MessagePlaces(
            *(address_of(memory), memory.strides[0]),
            *(address_of(lengths), lengths.strides[0]),
            *(address_of(segments), segments.strides[0]),
        )

    def receive(self, wanted: int = 0) -> int:
        """Call :meth:`collect` and :meth:`take_apart`. Returns the number of datagrams."""
        return self.take_apart() if self.collect(wanted) else 0

    def collect(self, wanted: int = 0) -> int:
        """Receive the messages that have arrived, up to a batch. Returns their number.

        With ``wanted``, waits a few milliseconds for about as many datagrams, so that the process is not woken for each
        one. Raises OSError if none have arrived, or for an ICMP error that an earlier packet caused.
        """
        # No more messages than bring as many: for too many it would wait although all datagrams are there.
        messages = min(max(1, wanted // self.longest_in), self.batch) if wanted else 0
        if self._kernels is None:
            self._collect_by_python(messages)
        else:
            arrivals = self._messages_in
            error = self._kernels.arrivals_collect(arrivals, self.fileno(), messages, int(_COLLECT_S * _NANO))
            self._filled, self.marked_messages = arrivals.filled, arrivals.marked
            if error:
                raise OSError(error, os.strerror(error))
        self.messages_received += self._filled
        return self._filled

    def take_apart(self) -> int:
        """Split the messages of the latest call into datagrams. Returns their number, and fills ``received``."""
        arrivals, count = self._arrivals, self._filled
        datagrams = arrivals.take_apart(self._in.lengths[:count], self._in.segments[:count])
        self.note_longest(1 if arrivals.counts is None else int(arrivals.counts.max()))
        return datagrams

    def note_longest(self, datagrams: int) -> None:
        """Note how many datagrams the longest message of the latest call had."""
        self.longest_in = max(datagrams, self.longest_in * 7 // 8)

    def _collect_by_python(self, wanted: int) -> None:
        """Receive the messages that have arrived; before these up to ``wanted``, for which it waits."""
        self._in.controls.renew(self._filled)
        self._filled = self.marked_messages = 0
        # The kernel overwrites it with the time left.
        self._collect[:] = 0, int(_COLLECT_S * _NANO)
        self._filled = self._receive(wanted, 0, self._collect_at)
        try:
            self._filled += self._receive(self.batch - self._filled, socket.MSG_DONTWAIT, None)
        except OSError:
            # It tells of a datagram that was sent. It must not cost those that have arrived.
            if not self._filled:
                raise
        self.marked_messages = self._in.note(self._filled)

    def _receive(self, most: int, flags: int, collect: int | None) -> int:
        """Receive messages behind those that are filled. Returns how many."""
        if not most:
            return 0
        address = self._in.address + self._filled * MESSAGE.itemsize
        received = self._recvmmsg(self.fileno(), address, most, flags, collect)
        return 0 if received < 0 and ctypes.get_errno() in NOTHING_THERE else checked(received)

    def _stop_joining(self) -> None:
        self.sends_trains, self.joined = False, 1
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 0)


_LEAST_TRAIN: Final = 4
# Packets of a train before anything is known.
_FIRST_TRAIN: Final = 16
_TRAIN_S: Final = 0.001
# The least time over which arrivals are counted.
_MEASURED_S: Final = 0.002
# The fastest of late counts, since a busy processor makes a link look slow. So much of a rate is kept from one
# measurement to the next: half of it after some seconds.
_KEPT: Final = 2047 / 2048


class Pace:
    """Limits the length of trains. ``train``: the most packets of a train. Times are seconds of any monotonic clock.

    A train (GSO) is never divided on its way, so urgent packets wait behind it. It is limited to about a millisecond of
    what the link carries. The rate of results shows the link's rate, since this worker may send one packet for each
    result.

    Example: at 100 Mbit/s come 10 results of THC in a millisecond, so trains have 8 packets; at 1 Gbit/s they have 64.
    """

    def __init__(self) -> None:
        self.train = _FIRST_TRAIN
        self._rate = 0.0
        self._since: float | None = None
        self._count = 0

    def begin(self) -> None:
        """Begin a new exchange. The time since the last one is not used."""
        self._since = None

    def arrived(self, count: int, began: float, now: float, *, drained: bool) -> None:
        """Record that a call that lasted from ``began`` to ``now`` returned ``count`` packets. ``drained``: it left
        none behind."""
        if self._since is not None:
            self._count += count
            if now - self._since < _MEASURED_S:
                return
            self._rate = max(self._count / (now - self._since), self._rate * _KEPT)
            self.train = min(max(round(self._rate * _TRAIN_S), _LEAST_TRAIN), TRAIN_ROWS)
        # What had arrived by then is not counted again.
        self._since, self._count = began if drained else None, 0


def receive_trains(sock: socket.socket) -> bool:
    """Let a UDP socket receive trains in one piece. Returns False if the kernel does not support it, or for another
    kind of socket."""
    try:
        sock.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
    except OSError:
        return False
    return True


def enlarge_buffers(udp: socket.socket) -> None:
    """Set the socket's buffers to the size of a whole window. Without CAP_NET_ADMIN the system's limit applies."""
    for option, force in ((socket.SO_RCVBUF, _SO_RCVBUFFORCE), (socket.SO_SNDBUF, _SO_SNDBUFFORCE)):
        try:
            udp.setsockopt(socket.SOL_SOCKET, force, SOCKET_BUFFER_BYTES)
        except PermissionError:
            udp.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER_BYTES)
