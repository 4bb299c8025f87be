# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Who may leave how many contributions out of one tensor's sums.

The bound p allows floor(p * chunks * workers) of them. They are shared out beforehand, so that no two workers can
spend the same one: each closes slots by FLUSH on its own account, and every missing contribution is on the account of
at least the worker whose FLUSH closed its slot. So the realised share is never above p, whoever flushes.
"""

from __future__ import annotations

import math
from collections.abc import Callable


def share(loss_bound: float, chunks: int, workers: int, *, worker: int, sequence: int) -> int:
    """Contributions that ``worker`` may leave out of a tensor whose first chunk is number ``sequence`` of its job.

    What does not divide goes to workers in turn, by the sequence, so that small tensors are not always the same one's.
    """
    each, rest = divmod(math.floor(loss_bound * chunks * workers), workers)
    return each + ((worker - sequence) % workers < rest)


class Budget:
    """One worker's account for one tensor. A FLUSH leaves out one contribution at most."""

    def __init__(self, allowed: int) -> None:
        self.allowed = allowed
        self.spent = 0
        # Chunks that were sent with FLUSH and have no result: what they will have cost is not known yet.
        self.reserved: set[int] = set()

    def reserve(self, chunk: int) -> bool:
        """Whether ``chunk`` may be flushed, also again; its cost is then set aside until :meth:`settle`."""
        if chunk in self.reserved:
            return True
        if self.spent + len(self.reserved) >= self.allowed:
            return False
        self.reserved.add(chunk)
        return True

    def settle(self, landed: Callable[[int], bool], cost: Callable[[int], int]) -> None:
        """Book those flushed chunks that have ``landed``: ``cost`` tells how many contributions each lacks."""
        for chunk in [chunk for chunk in self.reserved if landed(chunk)]:
            self.reserved.remove(chunk)
            self.spent += cost(chunk)
