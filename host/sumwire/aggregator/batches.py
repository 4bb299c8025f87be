# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Datagrams in and out, many at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.wire.header import HEADER_BYTES, WORD_BYTES

REPLY_BYTES: Final = HEADER_BYTES + p4.SLOT_WORDS * WORD_BYTES
# More than any contribution has, so that one that is too long shows as such.
ROW_BYTES: Final = REPLY_BYTES + WORD_BYTES


@dataclass
class Batch:
    """Datagrams as they came: ``rows`` uint8 (room, ROW_BYTES), ``sizes`` in bytes (the first ROW_BYTES of a longer one
    are here), ``sources`` the senders' addresses as :func:`sumwire.aggregator.state.packed_address` gives them,
    ``tos`` uint8, the byte of IPv4 (sumwire.aggregator.marks). The first ``count`` are there."""

    rows: NDArray[np.uint8]
    sizes: NDArray[np.uint32]
    sources: NDArray[np.uint32]
    tos: NDArray[np.uint8]
    count: int

    def only(self) -> Batch:
        """Without the room that is not used."""
        n = self.count
        return Batch(self.rows[:n], self.sizes[:n], self.sources[:n], self.tos[:n], n)

    def keep(self, which: NDArray[np.intp]) -> None:
        """Close ranks: only some are left, in their order."""
        for array in (self.rows, self.sizes, self.sources, self.tos):
            array[: len(which)] = array[which]
        self.count = len(which)


class Replies:
    """Room for replies; the first ``count`` are there.

    ``rows``: uint8 (room, REPLY_BYTES); ``sizes``: bytes of each; ``places``: whom it is for, an index into
    :attr:`State.places`; ``tos``: the byte of IPv4 that it goes out with.
    """

    def __init__(self, room: int) -> None:
        self.rows = np.zeros((room, REPLY_BYTES), np.uint8)
        self.sizes = np.zeros(room, np.uint32)
        self.places = np.zeros(room, np.int32)
        self.tos = np.zeros(room, np.uint8)
        self.count = 0
