# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Batches of datagrams, and of the replies to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.wire.header import HEADER_BYTES, WORD_BYTES

REPLY_BYTES: Final = HEADER_BYTES + p4.SLOT_WORDS * WORD_BYTES
# Longer than any contribution, so that a datagram that is too long can be told.
ROW_BYTES: Final = REPLY_BYTES + WORD_BYTES


@dataclass
class Batch:
    """Datagrams as they came, the first ``count`` of the arrays.

    ``rows``: uint8 (room, ROW_BYTES), the first ROW_BYTES of a longer datagram. ``sizes``: bytes of each. ``sources``:
    the senders' addresses, as from :func:`sumwire.aggregator.state.packed_address`. ``tos``: uint8, IPv4's TOS byte
    (:mod:`sumwire.aggregator.marks`).
    """

    rows: NDArray[np.uint8]
    sizes: NDArray[np.uint32]
    sources: NDArray[np.uint32]
    tos: NDArray[np.uint8]
    count: int

    def only(self) -> Batch:
        """This batch with its arrays cut to ``count``."""
        n = self.count
        return Batch(self.rows[:n], self.sizes[:n], self.sources[:n], self.tos[:n], n)

    def keep(self, which: NDArray[np.intp]) -> None:
        """Keep these datagrams only, in their order."""
        for array in (self.rows, self.sizes, self.sources, self.tos):
            array[: len(which)] = array[which]
        self.count = len(which)


class Replies:
    """Replies, the first ``count`` of the arrays.

    ``rows``: uint8 (room, REPLY_BYTES). ``sizes``: bytes of each. ``places``: the receiver, an index into
    :attr:`State.places`. ``tos``: uint8, the TOS byte to send it with.
    """

    def __init__(self, room: int) -> None:
        self.rows = np.zeros((room, REPLY_BYTES), np.uint8)
        self.sizes = np.zeros(room, np.uint32)
        self.places = np.zeros(room, np.int32)
        self.tos = np.zeros(room, np.uint8)
        self.count = 0
