# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Runs of plain results, checked and stored by C in one pass. Without a compiler, or with SUMWIRE_NATIVE=0, numpy does
the same in several (:meth:`sumwire.transport.buffers.Buffers.plain_run`)."""

from __future__ import annotations

import math
from ctypes import CDLL
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sumwire.transport.buffers import Buffers
from sumwire.transport.kernels import RunsExchange, RunsMessages
from sumwire.wire.header import HEADER_BYTES
from sumwire.wire.messages import MessagePlaces, address_of


class Run(NamedTuple):
    """Messages with datagrams of one size, about consecutive chunks. ``longest``: datagrams of the longest message."""

    first: int
    datagrams: int
    longest: int
    datagram_bytes: int


class Runs:
    """The runs among the results of one exchange.

    ``messages``: where received messages lie; ``exchange``: what is taken from them. Both are for C. ``flying``: bool
    (chunks,), whether a chunk is in flight; read at every call.
    """

    def __init__(self, library: CDLL, messages: MessagePlaces, buffers: Buffers, flying: NDArray[np.bool_]) -> None:
        expected, results = buffers.expected, buffers.results
        # The structures only have addresses.
        self._kept = expected.heads, results, flying
        self._take = library.runs_take
        self.messages = RunsMessages(*messages)
        self.exchange = RunsExchange(
            address_of(expected.heads),
            tuple(expected.mask.tolist()),
            buffers.chunks,
            math.prod(results.words.shape[1:]),
            buffers.tag_bytes,
            address_of(flying),
            address_of(results.words),
            address_of(results.counts),
            address_of(results.contributors),
        )

    @property
    def datagram_bytes(self) -> int:
        """Of each result."""
        return HEADER_BYTES + int(self.exchange.payload_bytes) + int(self.exchange.tag_bytes)

    def take(self, messages: int) -> Run | None:
        """Store the results that lie in so many messages, if they are all plain ones of consecutive chunks in flight.

        Returns None, with nothing stored, if there is anything else among them.
        """
        exchange = self.exchange
        count = self._take(self.messages, messages, exchange)
        return Run(exchange.first, count, exchange.longest, self.datagram_bytes) if count else None
