# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Frames of a network interface as they come and go. Needs root, or the right CAP_NET_RAW."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from typing import Final

from sumwire.errors import UsageError
from sumwire.see.captures import FRAME_MOST, Frame

_ETHERNET: Final = 1
_ALL_PROTOCOLS: Final = 3
_ROOM_BYTES: Final = 1 << 24
# Of a frame's address, in linux/if_packet.h and linux/if_arp.h.
_OUTGOING: Final = 4
_LOOPBACK: Final = 772


def frames_of(interface: str) -> Iterator[Frame]:
    """The frames of an interface, without end. Raises UsageError."""
    try:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS)) as raw:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _ROOM_BYTES)
            raw.bind((interface, 0))
            while True:
                data, (_, _, way, kind, _) = raw.recvfrom(FRAME_MOST)
                # A loopback device shows what is sent once more as what has come.
                if kind == _LOOPBACK and way == _OUTGOING:
                    continue
                yield Frame(time.time(), interface, _ETHERNET, data)
    except PermissionError as error:
        cure = f"run it with sudo, or: sudo tcpdump -i {interface} -U -w - udp port 21335 | sumwire decode -"
        raise UsageError(f"{interface}: capturing needs root; {cure}") from error
    except OSError as error:
        raise UsageError(f"{interface}: {error.strerror}; name an interface that is there and up: ip link") from error
