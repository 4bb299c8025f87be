# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Linux's sendmmsg and recvmmsg, the C structures that they take as numpy records, and the parsing of control messages.

A received message has two further values beside its bytes: the size of a train's datagrams, and IPv4's TOS byte. Each
comes in a control message, if the socket asks for it: UDP_GRO, IP_RECVTOS. The kernel joins only datagrams of one TOS,
so a train has one. The kernel decides order and number of control messages. The C version is native/controls.h.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.errors import UsageError
from sumwire.native import NativeFolder

# Of a TOS byte (RFC 3168).
ECN_BITS: Final = 0x03
_PROTOCOL: Final = (
    *("SUMWIRE_BYTES", "TAG_BYTES", "WORD_BYTES", "SLOT_WORDS", "KIND_CONTRIBUTE", "KIND_PROBE", "KIND_REFUSED"),
    "ECN_CE",
)
NATIVE: Final = NativeFolder(
    "sumwire-wire",
    Path(__file__).parent / "native",
    {"ECN_BITS": ECN_BITS, **{name: getattr(p4, name) for name in _PROTOCOL}},
    without="numpy cuts what is sent into trains and computes authentication tags, at a far higher price than C",
)
"""Who includes its headers has constants of these names too."""
kernels: Final = NATIVE.kernels


class Compiled(NamedTuple):
    """Addresses of C functions and structures. ``arrivals_collect``: the receiving function, the structure it works on,
    the number of messages that it has filled, and how many of these were marked. ``trains_cut``: the function that cuts
    trains, and the messages of a sending call. ``collect_ns``: how long a receive waits."""

    collect: int
    arrivals: int
    filled: int
    marked: int
    cut: int
    trains: int
    out: int
    collect_ns: int


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

    ``lengths``: the same for their lengths, uint32. ``segments``: the same for the bytes of each datagram in them,
    int32; 0 if the message is a single datagram.
    """

    memory: int
    message_bytes: int
    lengths: int
    length_bytes: int
    segments: int
    segment_bytes: int


def address_of(array: NDArray[Any]) -> int:
    """Return the address of an array's memory."""
    return int(array.ctypes.data)


def checked(done: int) -> int:
    """Return the result of a call of the C library. Raises OSError if it failed."""
    if done < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return done


def send_despite_icmp(send: Callable[[], int]) -> int:
    """Return what ``send`` returns. Raises OSError; EMSGSIZE only if the device itself refuses the message."""
    for _ in range(_TOO_LONG_TRIES - 1):
        try:
            return send()
        except OSError as error:
            if error.errno != errno.EMSGSIZE:
                raise
    return send()


def forbid_fragments(udp: socket.socket) -> None:
    """Forbid fragments, which no switch accepts. A packet that does not fit the device then fails, and one that does
    not fit the path is lost. ICMP messages about the path are ignored, because they are not authenticated."""
    udp.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_PROBE)


@cache
def calls() -> tuple[Any, Any]:
    """Return the C library's sendmmsg and recvmmsg. Other threads run during a call.

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


# struct cmsghdr with a number, padded, as it comes: the TOS (8 bits) of a message, or the size (32 bits) of a train's
# datagrams.
_CONTROL: Final = np.dtype(
    {
        "names": ["length", "level", "type", "size", "tos"],
        "formats": [np.uintp, np.int32, np.int32, np.int32, np.uint8],
        "offsets": [0, 8, 12, 16, 16],
        "itemsize": 24,
    }
)
# A message may have both.
_PER_MESSAGE: Final = 2
CONTROLS_BYTES: Final = _PER_MESSAGE * _CONTROL.itemsize
_NO_TYPE: Final = -1
# Of a number: the type of its control message.
_KINDS: Final = {"size": UDP_GRO, "tos": socket.IP_TOS}


class ReceivedControls:
    """Room for the control messages of received messages. ``headers``: the struct msghdr of each."""

    def __init__(self, headers: NDArray[Any]) -> None:
        self._controls = np.zeros((len(headers), _PER_MESSAGE), _CONTROL)
        self._controls["type"] = _NO_TYPE
        headers["control"] = address_of(self._controls) + np.arange(len(headers)) * CONTROLS_BYTES
        headers["control_length"] = CONTROLS_BYTES
        self._lengths: NDArray[np.uintp] = headers["control_length"]

    def renew(self, count: int) -> None:
        """Reset the first ``count`` messages for another call: the kernel has overwritten the lengths, and writes no
        type if it has no control message."""
        self._lengths[:count] = CONTROLS_BYTES
        self._controls["type"][:count] = _NO_TYPE

    def sizes(self, count: int) -> NDArray[np.int32]:
        """Return the bytes of each datagram in the first messages, (count,): 0 if the message is a single datagram."""
        return self._told(count, "size")

    def tos(self, count: int) -> NDArray[np.uint8]:
        """Return the TOS bytes of the first ``count`` messages, (count,)."""
        return self._told(count, "tos")

    def _told(self, count: int, field: str) -> NDArray[Any]:
        controls = self._controls[:count]
        return np.asarray((controls[field] * (controls["type"] == _KINDS[field])).max(axis=1))


def are_marked(tos: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return which TOS bytes say that a queue on the way was long (CE)."""
    marked: NDArray[np.bool_] = tos & ECN_BITS == p4.ECN_CE
    return marked


def ask_for_tos(udp: socket.socket) -> None:
    """Make a socket report the TOS byte of each message that it receives."""
    udp.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
