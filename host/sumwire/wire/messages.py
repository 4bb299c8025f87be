# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Linux's sendmmsg and recvmmsg, and the C structures that they take, as numpy records."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sumwire.errors import UsageError

# C's layouts of struct iovec, and of struct mmsghdr (a msghdr and the number of bytes moved).
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
CONTROL: Final = np.dtype(
    [("length", np.uintp), ("level", np.int32), ("type", np.int32), ("value", np.int32), ("rest", np.int32)], align=True
)
# Its length without the padding.
CONTROL_BYTES: Final = 20
# From linux/udp.h. Older Pythons have no names for these. The size of the datagrams that a longer message is cut into:
UDP_SEGMENT: Final = 103
# Datagrams that came as one train are received as one message, with the size of each in a control message:
UDP_GRO: Final = 104
# Errors of a kernel that cannot cut: it is too old, or the device computes no checksums.
NO_TRAINS: Final = frozenset({errno.EIO, errno.EINVAL, errno.EMSGSIZE, errno.EOPNOTSUPP})
NOTHING_THERE: Final = frozenset({errno.EAGAIN, errno.EINTR})
# From linux/in.h. Older Pythons have no names for these.
_IP_MTU_DISCOVER: Final = 10
_IP_PMTUDISC_PROBE: Final = 3
# A message that is too long for the device is refused each time. An ICMP error of an earlier packet is told once, and
# anybody can have made it up.
_TOO_LONG_TRIES: Final = 100


class MessagePlaces(NamedTuple):
    """Where a receiving call puts messages: the address of the first one, and the bytes from one to the next.

    ``lengths``: the same of their lengths, uint32. ``segments``: of the bytes of each datagram in them, int32; 0 if the
    message is a single one.
    """

    memory: int
    message_bytes: int
    lengths: int
    length_bytes: int
    segments: int
    segment_bytes: int


def address_of(array: NDArray[Any]) -> int:
    """The address of an array's memory."""
    return int(array.ctypes.data)


def checked(done: int) -> int:
    """The result of a call of the C library. Raises OSError if it failed."""
    if done < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return done


def send_despite_icmp(send: Callable[[], int]) -> int:
    """What ``send`` returns. Raises OSError, EMSGSIZE only if it is the device that refuses the message."""
    for _ in range(_TOO_LONG_TRIES - 1):
        try:
            return send()
        except OSError as error:
            if error.errno != errno.EMSGSIZE:
                raise
    return send()


def forbid_fragments(udp: socket.socket) -> None:
    """A packet that does not fit the device fails, and one that does not fit the path is lost, instead of going out in
    fragments, which no switch takes. What ICMP says of the path is not believed: it has no authentication."""
    udp.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_PROBE)


@cache
def calls() -> tuple[Any, Any]:
    """The C library's sendmmsg and recvmmsg. Other threads run during a call.

    Raises UsageError on a system without them.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if not sys.platform.startswith("linux") or not hasattr(libc, "sendmmsg"):
        raise UsageError(f"a host on {sys.platform}: needs Linux, whose sendmmsg moves many packets at once")
    send, receive = libc.sendmmsg, libc.recvmmsg
    send.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int)
    receive.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_void_p)
    send.restype = receive.restype = ctypes.c_int
    return send, receive
