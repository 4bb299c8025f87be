# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The latest results of a job, for workers that lack one that the switch no longer has.

They are kept as received, in a ring of datagrams indexed by sequence number. Early results
(:mod:`sumwire.transport.catchup.early_results`) are in the same ring, so that each result is stored once.
"""

from __future__ import annotations

import threading
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.wire.header import HEADER_BYTES, WORD_BYTES
from sumwire.wire.packets import headers
from sumwire.wire.sequence import ROUNDS

# The least number of results kept: 17 MiB if all of them are large. A worker that falls behind by more cannot catch up.
KEPT_CHUNKS: Final = 1 << 14
# The longest result.
ROW_BYTES: Final = HEADER_BYTES + p4.SLOT_WORDS * WORD_BYTES
_OP_AT: Final = 1
_NEVER: Final = -1


class KeptResults:
    """Results by sequence number K = round x ``slots`` + slot. Any thread may use it.

    ``capacity``: how many results it holds, ``least`` rounded up to a power of two of rounds. The result of K replaces
    that of K - capacity. Example: with 64 slots and ``least`` 100, it holds two rounds, 128 results.
    """

    def __init__(self, slots: int, *, least: int = KEPT_CHUNKS) -> None:
        rounds = -(-max(least, slots) // slots)
        # A power of two divides 2**32, so that a round of 32 bits determines the place although rounds wrap.
        self._rounds = 1 << (rounds - 1).bit_length()
        self._slots = slots
        self.capacity = slots * self._rounds
        self._sequences = np.full(self.capacity, _NEVER, np.int64)
        # Not cleared: the kernel provides pages only when they are written.
        self._rows = np.empty((self.capacity, ROW_BYTES), np.uint8)
        # A switch that has forgotten its slots can lead a later run to the rounds of an earlier one.
        self._tokens: NDArray[np.uint64] = headers(self._rows)["token"]
        self._sizes = np.zeros(self.capacity, np.uint16)
        self._lock = threading.Lock()

    def put(self, sequences: NDArray[np.int64], rows: NDArray[np.uint8], sizes: NDArray[np.integer[Any]]) -> None:
        """Keep datagrams, uint8 (n, at least the longest of ``sizes``), one for each of the distinct ``sequences``."""
        if not len(sequences):
            return
        places = sequences % self.capacity
        longest = int(sizes.max())
        with self._lock:
            self._sequences[places] = sequences
            self._sizes[places] = sizes
            self._rows[places, :longest] = rows[:, :longest]

    def held(self, first: int, count: int, token: int) -> NDArray[np.int64]:
        """Which of a run's sequence numbers first..first+count-1 are here: rising int64 offsets from ``first``."""
        wanted = np.arange(first, first + min(count, self.capacity))
        places = wanted % self.capacity
        with self._lock:
            here: NDArray[np.int64] = np.flatnonzero(self._sequences[places] == wanted)
            here = here[self._tokens[places[here]] == token]
        return here

    def get(self, sequences: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.uint16]]:
        """Copies of results that are here: rows, and the bytes in each.

        Only the thread that calls :meth:`put` may ask, for sequence numbers that :meth:`held` has just told it.
        """
        places = sequences % self.capacity
        with self._lock:
            return self._rows[places], self._sizes[places]

    def find(self, slot: int, round_: int, op: int, token: int) -> bytearray | None:
        """A copy of the op's result for (slot, round) of a run, as a datagram; None if it is not here."""
        if slot >= self._slots:
            return None
        place = slot + self._slots * (round_ % self._rounds)
        with self._lock:
            sequence = int(self._sequences[place])
            if sequence == _NEVER or sequence // self._slots % ROUNDS != round_:
                return None
            if self._rows[place, _OP_AT] != op or self._tokens[place] != token:
                return None
            return bytearray(self._rows[place, : self._sizes[place]].tobytes())
