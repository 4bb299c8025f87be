# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The addresses that this machine has."""

from __future__ import annotations

import fcntl
import socket
import struct
from array import array
from ipaddress import IPv4Address
from typing import Final

# netdevice(7). An ifreq is a name of 16 bytes and, here, a sockaddr_in, whose address is in its bytes 4 to 7.
_SIOCGIFCONF: Final = 0x8912
_IFCONF: Final = "iP"
_IFREQ_BYTES: Final = 16 + struct.calcsize("PPP")
_ADDRESS_AT: Final = 20
_INTERFACES_MOST: Final = 1024


def own_addresses() -> list[str]:
    """This machine's IPv4 addresses by which others may know it."""
    room = array("B", bytes(_INTERFACES_MOST * _IFREQ_BYTES))
    asked = struct.pack(_IFCONF, len(room), room.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        length, _ = struct.unpack(_IFCONF, fcntl.ioctl(probe, _SIOCGIFCONF, asked))
    found = [IPv4Address(room[at : at + 4].tobytes()) for at in range(_ADDRESS_AT, length, _IFREQ_BYTES)]
    return [str(address) for address in dict.fromkeys(found) if not address.is_loopback]
