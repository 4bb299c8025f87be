# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Results that come before this worker has come to their exchange.

Where fewer than all workers close a slot, the others go on without a slow one, and the switch sends it their results.
They are taken in here as they come; the exchange they belong to then begins with these chunks answered.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.config import JobConfig
from sumwire.transport.catchup.kept_results import Kept
from sumwire.wire.header import HEADER_BYTES, WORD_BYTES
from sumwire.wire.packets import OP_WORDS, first_byte

_RESULT: Final = first_byte(p4.KIND_RESULT)
# Words of a result by op, 0 for what is none.
_WORDS_DOWN: Final = np.array([OP_WORDS.get(op, (0, 0))[1] for op in range(256)], np.uint8)
_SPAN: Final = 1 << 32
_NOTHING: Final = -1


def whole_results(config: JobConfig, records: NDArray[Any], sizes: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
    """Which of received datagrams (headers and bytes) are results of any op for this worker that can be applied."""
    ops, words = records["op"].copy(), records["words"].copy()
    known: NDArray[np.bool_] = (words == _WORDS_DOWN[ops]) & (words != 0)
    # Without its two low planes, which the host puts back.
    known |= (ops == p4.OP_THC) & (words == p4.THC_WORDS_CUT)
    known &= sizes == HEADER_BYTES + words.astype(np.int64) * WORD_BYTES
    known &= (records["version_kind"] == _RESULT) & (records["job"] == config.job) & (records["worker"] == config.seat)
    known &= (records["count"] != 0) & (records["slot"] < config.slots)
    known &= records["flags"] & p4.FLAG_INCOMPLETE == 0
    return known


class Ahead:
    """Results to come, in the ring of :class:`Kept`. They take up half of it at most, so that peers that are further
    behind still find what this worker has applied."""

    def __init__(self, config: JobConfig, kept: Kept) -> None:
        self._config = config
        self._kept = kept
        self._most = kept.capacity // 2
        self._latest = _NOTHING
        # The latest of those that a whole quorum is in.
        self._latest_whole = _NOTHING
        # Totals, in results: taken in, and too far ahead to hold.
        self.taken = 0
        self.refused = 0

    def put(
        self, upcoming: int, records: NDArray[Any], rows: NDArray[np.uint8], sizes: NDArray[np.integer[Any]]
    ) -> NDArray[np.bool_]:
        """Take in those of received datagrams that are results of chunk ``upcoming`` or later ones; which they are.

        ``upcoming``: sequence number of the first chunk that no exchange of this worker has had.
        """
        config, slots = self._config, self._config.slots
        numbers = records["round"].astype(np.int64) * slots + records["slot"]
        steps = (numbers - upcoming) % (slots * _SPAN)
        # What is late is half the rounds and more ahead, in serial-number arithmetic.
        later: NDArray[np.bool_] = steps < slots * _SPAN // 2
        if not later.any():
            return later
        later = later & whole_results(config, records, sizes)
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
        """What is here of an exchange that begins: its chunks (indices in it), datagrams, and bytes in each."""
        here = self._kept.held(first, min(chunks, max(self._latest + 1 - first, 0)))
        rows, sizes = self._kept.get(first + here)
        return here, rows, sizes

    def reaches(self, sequence: int) -> bool:
        """Whether a result of this chunk or a later one is here that a whole quorum is in: as many others work on it,
        so that they finish it without this worker. One that a loss bound has closed early does not say so."""
        return self._latest_whole >= sequence
