# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Who sends: the workers and lower aggregators of all jobs by their addresses, and strangers."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sumwire.aggregator.parts import Part

# Strangers share so many rows, so that forged addresses take no memory.
_STRANGERS: Final = 16


class Senders:
    """A row number for each sender. The first ``known`` of ``rows`` are the addresses of seats, one each."""

    def __init__(self, parts: Sequence[Part]) -> None:
        ips = {seat.ip for part in parts for seat in part.seats.values()}
        self._addresses = np.sort(np.array([packed_address(ip) for ip in ips], np.uint32))
        self.known = len(self._addresses)
        self.rows = self.known + _STRANGERS

    def rows_of(self, sources: NDArray[np.uint32]) -> NDArray[np.intp]:
        """The rows of senders' addresses, (n,)."""
        places = np.minimum(np.searchsorted(self._addresses, sources), self.known - 1)
        strangers = self.known + (sources % _STRANGERS).astype(np.intp)
        return np.where(self._addresses[places] == sources, places, strangers)


def packed_address(ip: str) -> int:
    """An IPv4 address as the number that this machine's byte order makes of a packet's four bytes."""
    return int(np.frombuffer(socket.inet_aton(ip), np.uint32)[0])


def unpacked_address(number: int) -> str:
    """The IPv4 address of such a number."""
    return socket.inet_ntoa(np.uint32(number).tobytes())
