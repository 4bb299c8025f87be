# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Early results: they arrive before this worker has begun their exchange.

Where slots close early, the other workers continue without a straggler, and the switch sends it their results. They are
kept here until their exchange begins; its chunks then have results from the start.

Example: a straggler is about to begin the exchange of chunks 100 to 199. The results of 100 to 140 are here already:
it sends only the other 59 chunks.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.config import JobConfig
from sumwire.transport.catchup.kept_results import KeptResults
from sumwire.wire.header import HEADER_BYTES, WORD_BYTES
from sumwire.wire.packets import OP_WORDS, first_byte
from sumwire.wire.sequence import ROUNDS

_RESULT: Final = first_byte(p4.KIND_RESULT)
# Words of a result, indexed by op; 0 for a number that is no op.
_WORDS_DOWN: Final = np.array([OP_WORDS.get(op, (0, 0))[1] for op in range(256)], np.uint8)
_NOTHING: Final = -1


def whole_results(
    config: JobConfig, token: int, records: NDArray[Any], sizes: NDArray[np.integer[Any]]
) -> NDArray[np.bool_]:
    """Which of received datagrams are complete results of any op for this worker in the run with ``token``, bool (n,).
    Given are their headers and the bytes in each."""
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
    behind still find the results that this worker has applied. ``token``: of the run, TOKEN_NONE before it."""

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
        """The early results of an exchange that begins: indices of its chunks, datagrams, and the bytes in each."""
        here = self._kept.held(first, min(chunks, max(self._latest + 1 - first, 0)), self.token)
        rows, sizes = self._kept.get(first + here)
        return here, rows, sizes

    def reaches(self, sequence: int) -> bool:
        """Return True if a result of this chunk or a later one is here that contains a whole quorum: a quorum of other
        workers has started it, and completes it without this worker. A slot closed early by the loss bound is no such
        sign."""
        return self._latest_whole >= sequence
