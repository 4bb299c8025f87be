# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Many datagrams for one call of the kernel: Linux's sendmmsg and recvmmsg over arrays made once.

Python around every packet costs more than the packet's way through the kernel. Here a call sends rows of an array
from where they lie, and leaves what it receives in the rows of another. Rows that follow each other are handed to the
kernel in one piece, which it cuts into datagrams (UDP segmentation offload, in software where the card has none): a
packet's way out through veth and HTB then costs less than half.
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

# struct iovec, struct mmsghdr (a msghdr and the bytes that were moved) and struct timespec, as C lays them out.
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
# struct cmsghdr with an int behind it, filled up to where a next one would begin.
_CONTROL: Final = np.dtype(
    [("length", np.uintp), ("level", np.int32), ("type", np.int32), ("value", np.int32), ("rest", np.int32)], align=True
)
_CONTROL_BYTES: Final = 20
# From asm-generic/socket.h; older Pythons have no names for them.
_SO_SNDBUFFORCE: Final = 32
_SO_RCVBUFFORCE: Final = 33
# From linux/udp.h: the option that sets the size of the datagrams that a longer message is cut into.
UDP_SEGMENT: Final = 103
# Rows in one piece at most: measured, more are not cheaper. All op's packets then stay below IPv4's 64 KiB.
JOINED_ROWS: Final = 16
# What a kernel answers that does not cut: it is too old, or this device's checksums are not left to it.
NO_SEGMENTS: Final = frozenset({errno.EIO, errno.EINVAL, errno.EMSGSIZE, errno.EOPNOTSUPP})
# How long a receive that wants several goes on waiting for the next; the silence that ends it is counted in the
# kernel's ticks, so it may be 8 ms.
_COLLECT_S: Final = 0.003
NOTHING_THERE: Final = frozenset({errno.EAGAIN, errno.EINTR})
_NANO: Final = 1_000_000_000
# Half of the most slots there are, at twice the largest packet (the kernel counts its own overhead too).
SOCKET_BUFFER_BYTES: Final = p4.SLOTS_TOTAL * 2 * p4.SLOT_WORDS * p4.WORD_BYTES


class _Messages:
    """As many messages as a call may move, each of one piece of memory."""

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
        """Give the first messages these TOS bytes, or none."""
        if tos is not None:
            self._controls["value"][: len(tos)] = tos
        if self._tagged != (tos is not None):
            self._tagged = tos is not None
            self._messages["header"]["control_length"] = _CONTROL.itemsize if self._tagged else 0


class BatchSocket:
    """A socket that knows where it sends to. Sending never waits for room; receiving may wait, see :meth:`receive`.

    ``received`` has a row of ``row_bytes`` for each datagram of a call, at most ``batch``, cut to it where longer;
    ``sizes`` has the bytes in each row. The next call overwrites both.
    Raises UsageError where the system has no sendmmsg.
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
        # Rows in one piece at most; more than 1 where the socket cuts them at the present size.
        self._joined = 1

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def load(self, rows: NDArray[np.uint8], *, joined: int = JOINED_ROWS, tos: NDArray[np.uint8] | None = None) -> None:
        """Rows (n, bytes of one) without gaps: what :meth:`send` takes from now on. They must stay where they are.

        ``joined``: how many rows the kernel may get in one piece; 1 where the socket is no UDP socket. ``tos``: the
        IPv4 TOS byte of each row, which may be changed meanwhile; without it the socket's own.
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
        """Send at most ``batch`` of the loaded rows, by number. How many went out: the first ones.

        Raises OSError if not even the first did; BlockingIOError for want of room.
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
        """Take in what is there, up to a batch. How many came.

        With ``wanted``, wait for as many, but only a few milliseconds: it spares a process that would else be woken
        for every single one. Raises OSError, for example of an earlier packet's ICMP error.
        """
        count = min(wanted, self.batch) or self.batch
        flags = 0 if wanted else int(socket.MSG_DONTWAIT)
        # The kernel counts it down.
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
    """Where pieces begin: at every row that does not follow its predecessor or has another TOS byte, and after every
    ``joined`` rows."""
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
    """Where an array's memory begins."""
    return int(array.ctypes.data)


def checked(done: int) -> int:
    """What a call of the C library returned. Raises OSError where that is a failure."""
    if done < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return done


def enlarge_buffers(udp: socket.socket) -> None:
    """Ask for room for a whole window, both ways: above the system's limit where this process may (CAP_NET_ADMIN), else
    up to it."""
    for option, force in ((socket.SO_RCVBUF, _SO_RCVBUFFORCE), (socket.SO_SNDBUF, _SO_SNDBUFFORCE)):
        try:
            udp.setsockopt(socket.SOL_SOCKET, force, SOCKET_BUFFER_BYTES)
        except PermissionError:
            udp.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER_BYTES)


@cache
def calls() -> tuple[Any, Any]:
    """sendmmsg and recvmmsg of the C library; both let other threads run meanwhile."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not sys.platform.startswith("linux") or not hasattr(libc, "sendmmsg"):
        raise UsageError(f"a host on {sys.platform}: needs Linux, whose sendmmsg moves many packets at once")
    send, receive = libc.sendmmsg, libc.recvmmsg
    send.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int)
    receive.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_void_p)
    send.restype = receive.restype = ctypes.c_int
    return send, receive
