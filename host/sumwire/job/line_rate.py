# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The rate of the link behind an address, as far as the host knows it."""

from __future__ import annotations

import os
import socket
import struct
from contextlib import suppress
from fcntl import ioctl
from pathlib import Path
from typing import Final

# Mbit/s, for links that are slower than their device says: behind a slower switch, or shaped.
VARIABLE: Final = "SUMWIRE_LINK_MBIT"
_GET_ADDRESS: Final = 0x8915
# struct ifreq: a name, and a struct sockaddr_in.
_REQUEST: Final = struct.Struct("16s2x2x4s16x")
_DEVICES: Final = Path("/sys/class/net")
_BYTES_OF_MBIT: Final = 1e6 / 8


def line_rate(address: str) -> float | None:
    """Bytes per second, as SUMWIRE_LINK_MBIT or else the device with this IPv4 address says. None if neither does."""
    told = _number(os.environ.get(VARIABLE, ""))
    if told is None:
        device = _device(address)
        with suppress(OSError):
            told = None if device is None else _number((_DEVICES / device / "speed").read_text())
    return None if told is None else told * _BYTES_OF_MBIT


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if 0 < found < float("inf") else None


def _device(address: str) -> str | None:
    packed = socket.inet_aton(address)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        for _, name in socket.if_nameindex():
            with suppress(OSError):
                answer = ioctl(udp, _GET_ADDRESS, _REQUEST.pack(name.encode(), b""))
                if _REQUEST.unpack(answer)[1] == packed:
                    return name
    return None
