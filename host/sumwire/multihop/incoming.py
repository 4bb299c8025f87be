# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The packets of one operation from a neighbour: which have arrived, and which are not waited for.

A packet is lost when three packets arrive that were sent after it. It is then left out, at once, if the bound allows;
otherwise its neighbour sends it again.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sumwire.multihop.errors import HopError
from sumwire.multihop.frames import WINDOW_MAX, Flags, Numbers, State
from sumwire.transport.fast_retransmit import REORDER_TOLERANCE
from sumwire.wire.controls import are_marked


class Sink(Protocol):
    """What is done with the packets."""

    def take(self, numbers: Numbers, values: NDArray[np.float32], counts: NDArray[np.int64]) -> None:
        """Packets have arrived, each for the first time: their values, shape (packets, VALUES), and contributions."""

    def leave_out(self, numbers: Numbers) -> None:
        """Packets are lost and not waited for."""


class Incoming:
    """``count`` packets of a tensor of ``length`` values, which go to ``sink``.

    ``hop``: the hop of each packet, which grows. ``allowed``: how many packets of each hop may be left out.
    """

    def __init__(self, count: int, length: int, sink: Sink, hop: Numbers, allowed: NDArray[np.int64]) -> None:
        self.left_out: Flags = np.zeros(count, np.bool_)
        self._length = length
        self._sink = sink
        self._hop = hop
        self._allowed = allowed.copy()
        self._settled: Flags = np.zeros(count, np.bool_)
        self._open = count
        self._overtaking = np.zeros(REORDER_TOLERANCE, np.int64)
        self._looked_below = 0
        # Below these the neighbour knows all.
        self._known_below = 0
        self._arrived = self._marked = 0

    @property
    def done(self) -> bool:
        """Whether no packet is waited for any more."""
        return self._open == 0

    def arrive(self, packets: NDArray[np.void], tos: NDArray[np.uint8]) -> None:
        """Packets of this operation have arrived, with these TOS bytes. Raises HopError if they are of another
        tensor."""
        other = packets["length"] != self._length
        if other.any():
            raise HopError(
                f"the neighbour sends a tensor of {int(packets['length'][other.argmax()])} values: this rank has "
                f"{self._length}; make the same calls on all ranks, then start all workers again"
            )
        self._arrived += len(packets)
        self._marked += int(np.count_nonzero(are_marked(tos)))
        numbers = packets["number"].astype(np.int64)
        inside = np.flatnonzero(numbers < len(self._settled))
        _, first = np.unique(numbers[inside], return_index=True)
        rows = inside[first]
        rows = rows[~self._settled[numbers[rows]]]
        if len(rows):
            self._settle(numbers[rows])
            self._sink.take(numbers[rows], packets["values"][rows], packets["count"][rows].astype(np.int64))
        self._known_below = max(self._known_below, int(packets["base"].max(initial=0)))
        latest = np.concatenate([self._overtaking, packets["sent_below"].astype(np.int64)])
        self._overtaking = np.sort(latest)[-REORDER_TOLERANCE:]
        self._look_for_lost()

    def state(self, operation: int, *, asks: bool = False) -> State:
        """What the neighbour should know."""
        first = self._known_below
        settled = np.flatnonzero(self._settled[first : first + WINDOW_MAX])
        window = slice(first, first + int(settled[-1]) + 1 if len(settled) else first)
        return State(operation, first, self._settled[window], self.left_out[window], self._arrived, self._marked, asks)

    def _look_for_lost(self) -> None:
        below = min(int(self._overtaking[0]), len(self._settled))
        lost = self._looked_below + np.flatnonzero(~self._settled[self._looked_below : below])
        self._looked_below = max(self._looked_below, below)
        if not len(lost):
            return
        # The first of each hop, as many as are allowed there.
        hops = self._hop[lost]
        place = np.arange(len(lost)) - np.searchsorted(hops, hops)
        chosen = lost[place < self._allowed[hops]]
        if len(chosen):
            np.subtract.at(self._allowed, self._hop[chosen], 1)
            self.left_out[chosen] = True
            self._settle(chosen)
            self._sink.leave_out(chosen)

    def _settle(self, numbers: Numbers) -> None:
        self._settled[numbers] = True
        self._open -= len(numbers)
