# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sends and receives many datagrams in one call, by Linux's sendmmsg and recvmmsg over arrays made once.

Python's work for a single packet costs more than the packet's path through the kernel. Here a call sends rows of an
array without copying them, and receives into the rows of another. Consecutive rows go to the kernel as one piece, which
it cuts into datagrams (UDP segmentation offload, in software if the card has none): sending through veth and HTB then
costs less than half as much.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import socket
import struct
import sys
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.errors import UsageError

# C's layouts of struct iovec, struct mmsghdr (a msghdr and the number of bytes moved) and struct timespec.
VECTOR: Final = np.dtype([("base", np.uintp), ("length", np.uintp)], align=True)
_HEADER: Final = np.dtype(
    [
        ("name", np.uintp),
        ("name_length", np.uint32),
        ("vectors", np.uintp),
        ("vectors_length", np.uintp),
        ("control", np.uintp),
        ("control_length", np.uintp),
        ("flags", np.int32),
    ],
    align=True,
)
MESSAGE: Final = np.dtype([("header", _HEADER), ("length", np.uint32)], align=True)
# struct cmsghdr with an int, padded to the alignment of the next one.
_CONTROL: Final = np.dtype(
    [("length", np.uintp), ("level", np.int32), ("type", np.int32), ("value", np.int32), ("rest", np.int32)], align=True
)
_CONTROL_BYTES: Final = 20
# From asm-generic/socket.h. Older Pythons have no names for these.
_SO_SNDBUFFORCE: Final = 32
_SO_RCVBUFFORCE: Final = 33
# From linux/udp.h: the option that sets the size of the datagrams that a longer message is cut into.
UDP_SEGMENT: Final = 103
# The most rows of one piece. More are not cheaper, as measured, and a piece of any op's packets stays below 64 KiB.
JOINED_ROWS: Final = 16
# Errors of a kernel that cannot cut: it is too old, or the device computes no checksums.
NO_SEGMENTS: Final = frozenset({errno.EIO, errno.EINVAL, errno.EMSGSIZE, errno.EOPNOTSUPP})
# Seconds without a datagram after which a receive that wants several returns. The kernel counts in ticks, so it may
# take 8 ms.
_COLLECT_S: Final = 0.003
NOTHING_THERE: Final = frozenset({errno.EAGAIN, errno.EINTR})
_NANO: Final = 1_000_000_000
# Room for half of all slots, at twice the largest packet, since the kernel counts its own overhead too.
SOCKET_BUFFER_BYTES: Final = p4.SLOTS_TOTAL * 2 * p4.SLOT_WORDS * p4.WORD_BYTES


class _Messages:
    """The messages of a call, each of one piece of memory."""

    def __init__(self, count: int) -> None:
        self.vectors = np.zeros(count, VECTOR)
        self._messages = np.zeros(count, MESSAGE)
        self._messages["header"]["vectors"] = address_of(self.vectors) + np.arange(count) * VECTOR.itemsize
        self._messages["header"]["vectors_length"] = 1
        self.lengths: NDArray[np.uint32] = self._messages["length"]
        self.address = address_of(self._messages)
        self._controls = np.zeros(count, _CONTROL)
        self._controls["length"] = _CONTROL_BYTES
        self._controls["level"] = socket.IPPROTO_IP
        self._controls["type"] = socket.IP_TOS
        self._messages["header"]["control"] = address_of(self._controls) + np.arange(count) * _CONTROL.itemsize
        self._messages["header"]["control_length"] = 0
        self._tagged = False

    def tag(self, tos: NDArray[np.uint8] | None) -> None:
        """Set the TOS bytes of the first messages, or none."""
        if tos is not None:
            self._controls["value"][: len(tos)] = tos
        if self._tagged != (tos is not None):
            self._tagged = tos is not None
            self._messages["header"]["control_length"] = _CONTROL.itemsize if self._tagged else 0


class BatchSocket:
    """A connected socket. Sending never waits for room. Receiving may wait, see :meth:`receive`.

    ``received`` has a row of ``row_bytes`` for each datagram of a call, at most ``batch``; longer datagrams are cut.
    ``sizes`` has the bytes of each row. The next call overwrites both.

    Raises UsageError on a system without sendmmsg.
    """

    def __init__(self, sock: socket.socket, *, row_bytes: int, batch: int) -> None:
        self._sendmmsg, self._recvmmsg = calls()
        self._socket = sock
        self.batch = batch
        sock.setblocking(True)
        whole, part = divmod(_COLLECT_S, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", int(whole), int(part * 1e6)))
        self._collect = np.zeros(2, np.int_)
        self._collect_at = address_of(self._collect)
        self.received = np.zeros((batch, row_bytes), np.uint8)
        self._out, self._in = _Messages(batch), _Messages(batch)
        self._in.vectors["base"] = address_of(self.received) + np.arange(batch) * row_bytes
        self._in.vectors["length"] = row_bytes
        self.sizes = self._in.lengths
        self._rows = np.zeros((0, 0), np.uint8)
        self._tos: NDArray[np.uint8] | None = None
        self._base = self._size = 0
        # The most rows of a piece; more than 1 if the socket cuts pieces into rows of the present size.
        self._joined = 1

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def load(self, rows: NDArray[np.uint8], *, joined: int = JOINED_ROWS, tos: NDArray[np.uint8] | None = None) -> None:
        """Set the rows (n, bytes of one), without gaps, that :meth:`send` sends from. Their memory must stay in place.

        ``joined``: the most rows of a piece; 1 if the socket is no UDP socket. ``tos``: the IPv4 TOS byte of each row,
        which may change later; without it the socket's own.
        """
        self._tos = tos
        self._rows, self._base, self._size = rows, address_of(rows), rows.shape[1]
        self._joined = joined
        if joined > 1:
            try:
                self._socket.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, self._size)
            except OSError:
                self._joined = 1

    def send(self, rows: NDArray[np.integer[Any]]) -> int:
        """Send some of the loaded rows, by number, at most ``batch``. Returns how many, from the first on, were sent.

        Raises OSError if none was sent, BlockingIOError if there is no room.
        """
        tos = None if self._tos is None else self._tos[rows]
        starts = _starts(rows, self._joined, tos)
        count = len(starts)
        self._out.tag(None if tos is None else tos[starts])
        vectors = self._out.vectors[:count]
        vectors["base"] = self._base + rows[starts] * self._size
        lengths = vectors["length"]
        lengths[:-1] = (starts[1:] - starts[:-1]) * self._size
        lengths[-1] = (len(rows) - starts[-1]) * self._size
        try:
            sent = checked(self._sendmmsg(self.fileno(), self._out.address, count, socket.MSG_DONTWAIT))
        except OSError as error:
            if self._joined == 1 or error.errno not in NO_SEGMENTS:
                raise
            self._stop_joining()
            return self.send(rows)
        return len(rows) if sent == count else int(starts[sent])

    def receive(self, wanted: int = 0) -> int:
        """Receive the datagrams that have arrived, up to a batch. Returns their number.

        With ``wanted``, waits a few milliseconds for as many, so that the process is not woken for each one. Raises
        OSError, for example for an earlier packet's ICMP error.
        """
        count = min(wanted, self.batch) or self.batch
        flags = 0 if wanted else int(socket.MSG_DONTWAIT)
        # The kernel overwrites it with the time left.
        self._collect[:] = 0, int(_COLLECT_S * _NANO)
        collect = self._collect_at if wanted else None
        received = self._recvmmsg(self.fileno(), self._in.address, count, flags, collect)
        if received < 0 and ctypes.get_errno() in NOTHING_THERE:
            return 0
        return checked(received)

    def _stop_joining(self) -> None:
        self._joined = 1
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 0)


def _starts(rows: NDArray[np.integer[Any]], joined: int, tos: NDArray[np.uint8] | None) -> NDArray[np.intp]:
    """The rows that pieces begin with: those that do not follow the row before, or have another TOS byte than it, and
    one after every ``joined`` rows."""
    if joined == 1:
        return np.arange(len(rows))
    follows = rows[1:] == rows[:-1] + 1
    if tos is not None:
        follows &= tos[1:] == tos[:-1]
    if follows.all():
        return np.arange(0, len(rows), joined)
    places = np.arange(len(rows))
    first = np.ones(len(rows), np.bool_)
    np.logical_not(follows, out=first[1:])
    run_began = np.maximum.accumulate(np.where(first, places, 0))
    return np.flatnonzero((places - run_began) % joined == 0)


def address_of(array: NDArray[Any]) -> int:
    """The address of an array's memory."""
    return int(array.ctypes.data)


def checked(done: int) -> int:
    """The result of a call of the C library. Raises OSError if it failed."""
    if done < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return done


def enlarge_buffers(udp: socket.socket) -> None:
    """Set the socket's buffers to room for a whole window: above the system's limit if this process has CAP_NET_ADMIN,
    else up to it."""
    for option, force in ((socket.SO_RCVBUF, _SO_RCVBUFFORCE), (socket.SO_SNDBUF, _SO_SNDBUFFORCE)):
        try:
            udp.setsockopt(socket.SOL_SOCKET, force, SOCKET_BUFFER_BYTES)
        except PermissionError:
            udp.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER_BYTES)


@cache
def calls() -> tuple[Any, Any]:
    """The C library's sendmmsg and recvmmsg. Other threads run during a call."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not sys.platform.startswith("linux") or not hasattr(libc, "sendmmsg"):
        raise UsageError(f"a host on {sys.platform}: needs Linux, whose sendmmsg moves many packets at once")
    send, receive = libc.sendmmsg, libc.recvmmsg
    send.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int)
    receive.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_void_p)
    send.restype = receive.restype = ctypes.c_int
    return send, receive
