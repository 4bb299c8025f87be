# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Sets the congestion control of a process's own TCP connections, also of those that a library has opened. A network
namespace may only make some kinds its default. For a socket root may choose any kind that the kernel has."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sumwire_lab.errors import LabError

_OPEN_FILES: Final = Path("/proc/self/fd")
_AVAILABLE: Final = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


def available(wanted: tuple[str, ...], file: Path = _AVAILABLE) -> tuple[str, ...]:
    """Return those of the wanted kinds that the kernel has, in their order. Raises LabError if there are none."""
    has = file.read_text().split()
    found = tuple(name for name in wanted if name in has)
    if not found:
        raise LabError(f"{file.name} has {' '.join(has)!r}, none of {', '.join(wanted)}")
    return found


def choose(name: str) -> int:
    """Set the congestion control of all TCP sockets that this process has now. Returns their number. Raises OSError."""
    count = 0
    for connection in _connections():
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        count += 1
    return count


def _connections() -> Iterator[socket.socket]:
    """This process's TCP sockets, one at a time."""
    for entry in _OPEN_FILES.iterdir():
        connection = _socket(int(entry.name))
        if connection is None:
            continue
        with connection:
            if connection.type == socket.SOCK_STREAM and connection.family in (socket.AF_INET, socket.AF_INET6):
                yield connection


def _socket(file: int) -> socket.socket | None:
    try:
        own = os.dup(file)
    except OSError:
        return None  # the listing's own, or one that another thread has closed
    try:
        return socket.socket(fileno=own)
    except OSError:
        os.close(own)
        return None  # no socket
