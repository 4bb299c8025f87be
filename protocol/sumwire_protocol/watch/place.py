# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Where metrics are served: an address and a TCP port, or a socket that another program has opened."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address
from typing import Final

from sumwire_protocol.outside import shown
from sumwire_protocol.watch.errors import MetricsPlaceError

VARIABLE: Final = "SUMWIRE_METRICS"
# As whom `sumwire top` asks over HTTP. It keeps nothing, so that nobody waits for it.
ONLOOKER: Final = "sumwire-top"
LOOPBACK: Final = "127.0.0.1"
_SOCKET: Final = "fd:"
_PORT_MOST: Final = (1 << 16) - 1
# Set by torchrun: the number of a process among those of its machine.
_LOCAL_RANK: Final = "LOCAL_RANK"


@dataclass(frozen=True)
class Place:
    """``address`` and TCP ``port`` (0: the kernel picks one), or the file descriptor ``socket`` of a socket that
    listens already."""

    address: str = LOOPBACK
    port: int = 0
    socket: int | None = None

    def __str__(self) -> str:
        return f"{self.address}:{self.port}" if self.socket is None else f"{_SOCKET}{self.socket}"


def parse_place(text: str) -> Place:
    """The place that ``[ADDRESS:]PORT`` or ``fd:NUMBER`` names; without an address only this machine may ask.

    Raises MetricsPlaceError.
    """
    address, colon, number = text.rpartition(":")
    if f"{address}{colon}" == _SOCKET and number.isascii() and number.isdigit():
        return Place(socket=int(number))
    try:
        IPv4Address(address if colon else LOOPBACK)
        port = int(number) if number.isascii() and number.isdigit() else -1
    except AddressValueError:
        port = -1
    if not 0 <= port <= _PORT_MOST:
        raise MetricsPlaceError(
            f"metrics = {shown(text)}: ports are 0..{_PORT_MOST}; give PORT or ADDRESS:PORT, of IPv4"
        )
    return Place(address if colon else LOOPBACK, port)


def place_of(environment: Mapping[str, str] = os.environ) -> Place | None:
    """The place that SUMWIRE_METRICS names; None where it is not set.

    The processes that torchrun starts on one machine have equal environments: each takes the port above by its local
    rank. Raises MetricsPlaceError.
    """
    text = environment.get(VARIABLE, "")
    if not text:
        return None
    place, rank = parse_place(text), environment.get(_LOCAL_RANK, "")
    if place.socket is not None or not place.port or not rank.isdigit():
        return place
    return parse_place(f"{place.address}:{place.port + int(rank)}")
