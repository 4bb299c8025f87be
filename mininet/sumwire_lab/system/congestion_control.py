# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The congestion control of a process's own TCP connections, also of those that a library has made.

A network namespace may make only some kinds its default. For a socket root may choose any that the kernel has.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Final

from sumwire_lab.errors import LabError

_OPEN_FILES: Final = Path("/proc/self/fd")
_AVAILABLE: Final = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


def available(wanted: tuple[str, ...], file: Path = _AVAILABLE) -> tuple[str, ...]:
    """Those of the kinds wanted that the kernel has, in their order. Raises LabError for none."""
    has = file.read_text().split()
    found = tuple(name for name in wanted if name in has)
    if not found:
        raise LabError(f"{file.name} has {' '.join(has)!r}, none of {', '.join(wanted)}")
    return found


def choose(name: str) -> int:
    """Let all TCP sockets of this process have it from now on. Returns how many they are. Raises OSError."""
    return sum(_choose(int(entry.name), name) for entry in _OPEN_FILES.iterdir())


def _choose(file: int, name: str) -> int:
    try:
        own = os.dup(file)
    except OSError:
        return 0  # the listing's own, or one that another thread has closed
    try:
        connection = socket.socket(fileno=own)
    except OSError:
        os.close(own)
        return 0  # no socket
    with connection:
        if connection.type != socket.SOCK_STREAM or connection.family not in (socket.AF_INET, socket.AF_INET6):
            return 0
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        return 1
