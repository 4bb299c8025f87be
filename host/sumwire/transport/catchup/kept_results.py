# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The latest results of a job, as they came: for workers that lack one which the switch no longer has.

A ring of datagrams by sequence number. Results that this worker has not come to yet lie in it as well
(:mod:`sumwire.transport.catchup.early_results`), so that each is held once.
"""

from __future__ import annotations

import threading
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.wire.header import HEADER_BYTES, WORD_BYTES

# Results held at least: 17 MiB when all of them are large. A worker that falls behind by more cannot be helped.
KEPT_CHUNKS: Final = 1 << 14
# The longest result.
ROW_BYTES: Final = HEADER_BYTES + p4.SLOT_WORDS * WORD_BYTES
_ROUNDS: Final = 1 << 32
_OP_AT: Final = 1
_NEVER: Final = -1


class Kept:
    """Results by sequence number K = round x ``slots`` + slot. Any thread may use it.

    ``capacity``: how many it holds, ``least`` rounded up to a power of two of rounds. A result pushes out that of
    K - capacity.
    """

    def __init__(self, slots: int, *, least: int = KEPT_CHUNKS) -> None:
        rounds = -(-max(least, slots) // slots)
        # A power of two, so that a place is the same for all K that a round of 32 bits may stand for.
        self._rounds = 1 << (rounds - 1).bit_length()
        self._slots = slots
        self.capacity = slots * self._rounds
        self._sequences = np.full(self.capacity, _NEVER, np.int64)
        # Not cleared: the kernel gives pages as they are used.
        self._rows = np.empty((self.capacity, ROW_BYTES), np.uint8)
        self._sizes = np.zeros(self.capacity, np.uint16)
        self._lock = threading.Lock()

    def put(self, sequences: NDArray[np.int64], rows: NDArray[np.uint8], sizes: NDArray[np.integer[Any]]) -> None:
        """Hold datagrams (n, at least the longest of ``sizes``), one for each of the different ``sequences``."""
        if not len(sequences):
            return
        places = sequences % self.capacity
        longest = int(sizes.max())
        with self._lock:
            self._sequences[places] = sequences
            self._sizes[places] = sizes
            self._rows[places, :longest] = rows[:, :longest]

    def held(self, first: int, count: int) -> NDArray[np.int64]:
        """Which of first..first+count-1 are here, in rising order, less ``first``."""
        wanted = np.arange(first, first + min(count, self.capacity))
        with self._lock:
            return np.flatnonzero(self._sequences[wanted % self.capacity] == wanted)

    def get(self, sequences: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.uint16]]:
        """Copies of results that are here, as :meth:`held` has told this same thread: rows, and the bytes in each."""
        places = sequences % self.capacity
        with self._lock:
            return self._rows[places], self._sizes[places]

    def find(self, slot: int, round_: int, op: int) -> bytearray | None:
        """The result of an op that is here for (slot, round), as a datagram of the caller's own."""
        if slot >= self._slots:
            return None
        place = slot + self._slots * (round_ % self._rounds)
        with self._lock:
            sequence = int(self._sequences[place])
            if sequence == _NEVER or sequence // self._slots % _ROUNDS != round_ or self._rows[place, _OP_AT] != op:
                return None
            return bytearray(self._rows[place, : self._sizes[place]].tobytes())
