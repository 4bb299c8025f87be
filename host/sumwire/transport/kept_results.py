# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Keeps the latest results of a job for workers that lack one which the switch no longer has, and results that arrive
early.

Results are kept as received, in a ring of datagrams indexed by sequence number. Early results arrive before this worker
has begun their exchange: where slots close early, the other workers continue without a straggler, and the switch sends
it their results. They stay in the same ring until their exchange begins, whose chunks then have results from the start.

Example: a straggler is about to begin the exchange of chunks 100 to 199. The results of 100 to 140 are here already: it
sends only the other 59 chunks.
"""

from __future__ import annotations

import threading
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.config import JobConfig
from sumwire.wire.packets import HEADER_BYTES, OP_WORDS, ROUNDS, WORD_BYTES, first_byte, headers

# The least number of results kept: 17 MiB if all of them are large. A worker that falls behind by more cannot catch up.
KEPT_CHUNKS: Final = 1 << 14
# The longest payload of a job without JUMBO.
USUAL_BYTES: Final = p4.SLOT_WORDS * WORD_BYTES
_OP_AT: Final = 1
_NEVER: Final = -1


class KeptResults:
    """Results by sequence number K = round x ``slots`` + slot. Any thread may use it.

    ``capacity``: how many results it holds, ``least`` rounded up to a power of two of rounds. ``longest_bytes``: the
    longest payload. The result of K replaces that of K - capacity. Example: with 64 slots and ``least`` 100, it holds
    two rounds, 128 results.
    """

    def __init__(self, slots: int, *, longest_bytes: int = USUAL_BYTES, least: int = KEPT_CHUNKS) -> None:
        rounds = -(-max(least, slots) // slots)
        # A power of two divides 2**32, so that a round of 32 bits determines the place although rounds wrap.
        self._rounds = 1 << (rounds - 1).bit_length()
        self._slots = slots
        self.capacity = slots * self._rounds
        self._sequences = np.full(self.capacity, _NEVER, np.int64)
        # Not cleared: the kernel provides pages only when they are written.
        self._rows = np.empty((self.capacity, HEADER_BYTES + longest_bytes), np.uint8)
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
        """Return which sequence numbers first..first+count-1 of a run are here: rising int64 offsets from ``first``."""
        wanted = np.arange(first, first + min(count, self.capacity))
        places = wanted % self.capacity
        with self._lock:
            here: NDArray[np.int64] = np.flatnonzero(self._sequences[places] == wanted)
            here = here[self._tokens[places[here]] == token]
        return here

    def get(self, sequences: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.uint16]]:
        """Return copies of results that are here: rows, and the bytes in each.

        Only the thread that calls :meth:`put` may call it, and only for sequence numbers that :meth:`held` has just
        returned.
        """
        places = sequences % self.capacity
        with self._lock:
            return self._rows[places], self._sizes[places]

    def find(self, slot: int, round_: int, op: int, token: int) -> bytearray | None:
        """Return a copy of a run's result of ``op`` for (slot, round), as a datagram; None if it is not here."""
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


_RESULT: Final = first_byte(p4.KIND_RESULT)
# Words of a result, indexed by op; 0 for a number that is no op.
_WORDS_DOWN: Final = np.array([OP_WORDS.get(op, (0, 0))[1] for op in range(256)], np.uint8)
_NOTHING: Final = -1


def whole_results(
    config: JobConfig, token: int, records: NDArray[Any], sizes: NDArray[np.integer[Any]]
) -> NDArray[np.bool_]:
    """Return which received datagrams are complete results of any op for this worker in the run with ``token``, bool
    (n,).

    ``records``: their headers. ``sizes``: the bytes in each.
    """
    ops, words = records["op"].copy(), records["words"].copy()
    known: NDArray[np.bool_] = (words == _WORDS_DOWN[ops]) & (words != 0)
    # Cut by a switch: the host appends what stands for the two low planes.
    known |= (ops == p4.OP_THC) & (words == p4.THC_WORDS_CUT)
    known &= sizes == HEADER_BYTES + words.astype(np.int64) * WORD_BYTES
    known &= (records["version_kind"] == _RESULT) & (records["job"] == config.job) & (records["worker"] == config.seat)
    known &= (records["count"] != 0) & (records["slot"] < config.slots) & (records["token"] == token)
    known &= records["flags"] & p4.FLAG_INCOMPLETE == 0
    return known


class EarlyResults:
    """Keeps early results in the ring of :class:`KeptResults`. They fill at most half of it, so that workers further
    behind can still get the results that this worker has applied. ``token``: that of the run, TOKEN_NONE before it."""

    def __init__(self, config: JobConfig, kept: KeptResults) -> None:
        self.token = p4.TOKEN_NONE
        self._config = config
        self._kept = kept
        self._most = kept.capacity // 2
        self._latest = _NOTHING
        # The latest of those with a whole quorum in them.
        self._latest_whole = _NOTHING
        # Totals, in results: kept, and too far ahead to keep.
        self.taken = 0
        self.refused = 0

    def put(
        self, upcoming: int, records: NDArray[Any], rows: NDArray[np.uint8], sizes: NDArray[np.integer[Any]]
    ) -> NDArray[np.bool_]:
        """Keep the received datagrams that are results of chunk ``upcoming`` or later. Returns which are, bool (n,).

        ``upcoming``: sequence number of the first chunk that no exchange of this worker has had.
        """
        config, slots = self._config, self._config.slots
        numbers = records["round"].astype(np.int64) * slots + records["slot"]
        steps = (numbers - upcoming) % (slots * ROUNDS)
        # In serial-number arithmetic, old results are half the rounds or more ahead.
        later: NDArray[np.bool_] = steps < slots * ROUNDS // 2
        if not later.any():
            return later
        later = later & whole_results(config, self.token, records, sizes)
        fits: NDArray[np.bool_] = later & (steps < self._most)
        self.refused += int(np.count_nonzero(later)) - int(np.count_nonzero(fits))
        chosen = np.flatnonzero(fits)
        if len(chosen):
            sequences, places = np.unique(upcoming + steps[chosen], return_index=True)
            self._kept.put(sequences, rows[chosen[places]], sizes[chosen[places]])
            self._latest = max(self._latest, int(sequences[-1]))
            whole = sequences[records["count"][chosen[places]] >= config.quorum]
            self._latest_whole = max([self._latest_whole, *whole[-1:].tolist()])
            self.taken += len(sequences)
        return fits

    def take(self, first: int, chunks: int) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.uint16]]:
        """Return the early results of an exchange that begins: indices of its chunks, datagrams, and the bytes in
        each."""
        here = self._kept.held(first, min(chunks, max(self._latest + 1 - first, 0)), self.token)
        rows, sizes = self._kept.get(first + here)
        return here, rows, sizes

    def reaches(self, sequence: int) -> bool:
        """Return True if a result of this chunk or a later one is here that contains a whole quorum.

        Then a quorum of other workers has started the chunk, and completes it without this worker. A slot that the loss
        bound closed early does not show that.
        """
        return self._latest_whole >= sequence
