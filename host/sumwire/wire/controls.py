# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the kernel tells of a received message beside its bytes: the size of a train's datagrams, and IPv4's TOS byte.

Each comes in a control message, if the socket asks for it: UDP_GRO, IP_RECVTOS. The kernel joins only datagrams of one
TOS, so a train has one. Order and number of control messages are the kernel's. In C: native/controls.h.
"""

from __future__ import annotations

import socket
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.wire.messages import UDP_GRO, address_of

# Of a TOS byte (RFC 3168).
ECN_BITS: Final = 0x03
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
        """The first messages are to be received anew: the kernel has written how much it used, and no type where there
        was nothing to tell."""
        self._lengths[:count] = CONTROLS_BYTES
        self._controls["type"][:count] = _NO_TYPE

    def sizes(self, count: int) -> NDArray[np.int32]:
        """Bytes of each datagram in the first messages, (count,): 0 where the message is a single one."""
        return self._told(count, "size")

    def tos(self, count: int) -> NDArray[np.uint8]:
        """The TOS bytes of the first messages, (count,)."""
        return self._told(count, "tos")

    def _told(self, count: int, field: str) -> NDArray[Any]:
        controls = self._controls[:count]
        return np.asarray((controls[field] * (controls["type"] == _KINDS[field])).max(axis=1))


def are_marked(tos: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Which TOS bytes say that a queue on the way was long (CE)."""
    marked: NDArray[np.bool_] = tos & ECN_BITS == p4.ECN_CE
    return marked


def ask_for_tos(udp: socket.socket) -> None:
    """Let a socket tell the TOS byte of what it receives."""
    udp.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
