# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""REFUSED: tells a known sender why its packet was refused, at most once in REFUSAL_GAP_US.

Only contributions and probes are answered, so two programs cannot answer each other for ever. The answer is a header
alone, so it is never longer than the question. Strangers get none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sumwire_protocol import constants as p4

from sumwire.aggregator import marks
from sumwire.aggregator.admission import FROM_WORKERS
from sumwire.aggregator.batches import Batch, Refusal
from sumwire.aggregator.senders import unpacked_address
from sumwire.aggregator.state import State
from sumwire.wire.header import HEADER_BYTES
from sumwire.wire.packets import chunks_of, first_byte, headers

_GAP_S: Final = p4.REFUSAL_GAP_US / 1e6
_CLEARED: Final = ("contributors", "flags", "words")


class Refuser:
    """Answers the refused datagrams of batches."""

    def __init__(self, state: State) -> None:
        self._senders, self._told_at = state.shared.senders, state.shared.told_at

    def answers(self, batch: Batch, reasons: NDArray[np.uint8], now: float) -> list[Refusal]:
        """The answers to a batch whose datagrams were refused for ``reasons``, at ``now`` in seconds."""
        which = np.flatnonzero(reasons)
        which = which[batch.sizes[which] >= HEADER_BYTES]
        kinds = headers(batch.rows)["version_kind"][which] & 0xF
        return [_answer(batch, row, reasons) for row in self._due(batch, which[np.isin(kinds, FROM_WORKERS)], now)]

    def _due(self, batch: Batch, which: NDArray[np.intp], now: float) -> Iterator[int]:
        """Those whose senders are known and have not been told of late: the first of each sender."""
        senders, first = np.unique(self._senders.rows_of(batch.sources[which]), return_index=True)
        known = senders < self._senders.known
        senders, first = senders[known], first[known]
        due = now - self._told_at[senders] >= _GAP_S
        self._told_at[senders[due]] = now
        return map(int, np.sort(which[first[due]]))


def _answer(batch: Batch, row: int, reasons: NDArray[np.uint8]) -> Refusal:
    packet = batch.rows[row : row + 1, :HEADER_BYTES].copy()
    head = headers(packet)
    head["version_kind"], head["count"] = first_byte(p4.KIND_REFUSED), reasons[row]
    for name in _CLEARED:
        head[name] = 0
    # No planes are cut.
    head["cut_chunk"] = chunks_of(head)
    sender = unpacked_address(batch.sources[row]), int(batch.ports[row])
    return Refusal(packet.tobytes(), sender, int(batch.tos[row]) & marks.PRIORITY_BITS | p4.ECN_ECT)
