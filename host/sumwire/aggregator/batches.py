# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Batches of received datagrams and of replies, as arrays; and IPv4's TOS byte.

The upper six bits of the TOS byte are the DSCP: three of priority, two of drop class, one 0. The lower two are ECN
(RFC 3168). A reply keeps the priority of the packet that it answers; its drop class is 0, and queues may mark it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.wire import messages
from sumwire.wire.messages import address_of
from sumwire.wire.packets import HEADER_BYTES, WORD_BYTES

WORDS_BYTES: Final = p4.SLOT_WORDS * WORD_BYTES
# Of a reply: words, and an authentication tag behind them.
PAYLOAD_BYTES: Final = WORDS_BYTES + p4.TAG_BYTES
# One word longer than any contribution, so that a datagram that is too long is noticed.
ROW_BYTES: Final = HEADER_BYTES + PAYLOAD_BYTES + WORD_BYTES


@dataclass
class Batch:
    """A batch of received datagrams. Only the first ``count`` rows of each array are in use.

    ``rows``: uint8 (room, ROW_BYTES), the first ROW_BYTES of each datagram; or only the headers (room, HEADER_BYTES),
    and then ``at`` has the addresses of the whole datagrams in memory. ``sizes``: bytes of each. ``sources``: the
    senders' addresses, as from :func:`sumwire.aggregator.state.packed_address`. ``ports``: their UDP ports, uint16, big
    endian. ``tos``: uint8, IPv4's TOS byte. ``longest``: how many datagrams the longest GSO train among them has.
    """

    rows: NDArray[np.uint8]
    sizes: NDArray[np.uint32]
    sources: NDArray[np.uint32]
    ports: NDArray[np.uint16]
    tos: NDArray[np.uint8]
    count: int
    longest: int = 1
    at: NDArray[np.uintp] | None = None

    def only(self) -> Batch:
        """Return this batch with its arrays cut to ``count``."""
        return self._part(0, self.count)

    def parts(self, most: int) -> Iterator[Batch]:
        """Split this batch into parts of at most ``most`` datagrams, in order."""
        if self.count <= most:
            yield self
            return
        for first in range(0, self.count, most):
            yield self._part(first, min(first + most, self.count))

    def _part(self, first: int, last: int) -> Batch:
        part = slice(first, last)
        rows, sizes, tos = self.rows[part], self.sizes[part], self.tos[part]
        at = None if self.at is None else self.at[part]
        return Batch(rows, sizes, self.sources[part], self.ports[part], tos, last - first, self.longest, at)

    def addresses(self) -> NDArray[np.uintp]:
        """Return the address of each datagram in memory, (count,)."""
        if self.at is not None:
            return self.at
        return address_of(self.rows) + np.arange(self.count, dtype=np.uintp) * np.uintp(self.rows.strides[0])

    def keep(self, which: NDArray[np.intp]) -> None:
        """Drop all datagrams but these, in their order."""
        for array in (self.rows, self.sizes, self.sources, self.ports, self.tos, self.at):
            if array is not None:
                array[: len(which)] = array[which]
        self.count = len(which)


class Refusal(NamedTuple):
    """A REFUSED or HELLO to send: the datagram, its receiver (ip, UDP port), and its TOS byte."""

    data: bytes
    to: tuple[str, int]
    tos: int


class Replies:
    """Replies to a batch, the first ``count`` rows of each array, and which datagrams of the batch were refused.

    ``heads``: uint8 (room, HEADER_BYTES). ``payloads``: uint8 (room, PAYLOAD_BYTES); replies with the same result share
    one payload. ``payload_of``: int32, the payload of each reply. ``sizes``: bytes of each reply, header included.
    ``places``: the receiver, an index into :attr:`State.places`. ``tos``: uint8, the TOS byte to send it with.
    ``reasons``: uint8, the reject reason of each datagram of the batch, or REJECT_NONE. ``refused``: how many are
    refused. ``refusals``: the REFUSED answers to them.
    """

    def __init__(self, room: int) -> None:
        self.heads = np.zeros((room, HEADER_BYTES), np.uint8)
        self.payloads = np.zeros((room, PAYLOAD_BYTES), np.uint8)
        self.payload_of = np.zeros(room, np.int32)
        self.sizes = np.zeros(room, np.uint32)
        self.places = np.zeros(room, np.int32)
        self.tos = np.zeros(room, np.uint8)
        self.reasons = np.zeros(room, np.uint8)
        self.refusals: list[Refusal] = []
        self.refused = 0
        self.count = 0

    def data(self, reply: int) -> bytes:
        """Return a whole reply."""
        payload: bytes = self.payloads[self.payload_of[reply]].tobytes()
        head: bytes = self.heads[reply].tobytes()
        return head + payload[: int(self.sizes[reply]) - HEADER_BYTES]


PRIORITY_BITS: Final = p4.DSCP_PRIORITY << 2
ECN_BITS: Final = messages.ECN_BITS
# Of replies to packets without tags.
PLAIN_REPLY: Final = p4.ECN_ECT
