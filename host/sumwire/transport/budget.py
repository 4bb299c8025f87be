# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The loss budget: how many contributions each worker may leave out of one tensor's sums.

A loss bound p allows floor(p * chunks * workers) missing contributions. They are divided among the workers beforehand,
so that no two workers spend the same one. A worker spends its budget when it closes slots by FLUSH. Every missing
contribution is paid by the worker whose FLUSH closed its slot, so the missing share never exceeds p.

Example: p = 0.01, 500 chunks and 4 workers allow 20 missing contributions, 5 for each worker.
"""

from __future__ import annotations

import math
from collections.abc import Callable


def allowance(loss_bound: float, chunks: int, workers: int, *, worker: int, sequence: int) -> int:
    """Contributions that ``worker`` may leave out of a tensor whose first chunk is number ``sequence`` of its job.

    The remainder of the division goes to the workers in turn, by the sequence number, so that small tensors do not
    always favour the same worker. Example: 1 of 3 workers may leave one out of a tensor; for sequence 7 it is worker 1.
    """
    each, rest = divmod(math.floor(loss_bound * chunks * workers), workers)
    return each + ((worker - sequence) % workers < rest)


class Budget:
    """One worker's budget for one tensor. A FLUSH leaves out one contribution at most."""

    def __init__(self, allowed: int) -> None:
        self.allowed = allowed
        self.spent = 0
        # Chunks that were sent with FLUSH and have no result yet, so that their cost is unknown.
        self.reserved: set[int] = set()

    def reserve(self, chunk: int) -> bool:
        """Whether ``chunk`` may be flushed, also again. One contribution is reserved for it until :meth:`settle`."""
        if chunk in self.reserved:
            return True
        if self.spent + len(self.reserved) >= self.allowed:
            return False
        self.reserved.add(chunk)
        return True

    def settle(self, landed: Callable[[int], bool], cost: Callable[[int], int]) -> None:
        """Book the flushed chunks that have ``landed``. ``cost`` tells how many contributions the sum of each lacks."""
        for chunk in [chunk for chunk in self.reserved if landed(chunk)]:
            self.reserved.remove(chunk)
            self.spent += cost(chunk)
