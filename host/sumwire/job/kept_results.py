# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Results of the latest operations, kept for ranks that do not have them when the switch is lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

# A chunk's result as float32 values.
BYTES_PER_CHUNK: Final = 4096


# Contributors of a result that has all.
ALL: Final = torch.zeros(0, dtype=torch.int64, device="cpu")


@dataclass(frozen=True)
class Kept:
    """A result: its own tensor, or what makes it once more. ``nbytes``: of the memory that is held for it.

    ``contributors``: int64 (chunks,), bitmaps of the seats at this rank's switch; :data:`ALL` if no chunk lacks any.
    """

    nbytes: int
    tensor: Callable[[], Tensor]
    contributors: Tensor = ALL


@dataclass(frozen=True)
class HandedOut:
    """A result that another rank hands out. ``worker``: that rank's. ``contributors``: see :class:`Kept`."""

    worker: int
    tensor: Tensor
    contributors: Tensor = ALL


class KeptResults:
    """``most``: with a quorum of all workers 1, since ranks are at most one operation apart; else None. ``most_bytes``:
    the oldest results beyond it are dropped, but never the latest."""

    def __init__(self, *, most: int | None, most_bytes: int) -> None:
        # Results of the operations first..first + n - 1.
        self.first = 0
        self._results: deque[Kept] = deque()
        self._bytes = 0
        self._most = most
        self._most_bytes = most_bytes

    def __len__(self) -> int:
        return len(self._results)

    def add(self, operation: int, result: Kept) -> None:
        """Keep the result of the operation after the latest one, or of a later one if nothing is kept."""
        if not self._results:
            self.first = operation
        assert operation == self.first + len(self._results), "results are kept without a gap"
        self._results.append(result)
        self._bytes += result.nbytes
        while len(self._results) > 1 and (
            self._bytes > self._most_bytes or (self._most is not None and len(self._results) > self._most)
        ):
            self._drop()

    def trim(self, operation: int) -> None:
        """All ranks have the results of operations below this one."""
        while self._results and self.first < operation:
            self._drop()

    def result(self, operation: int) -> Kept:
        """A kept result."""
        return self._results[operation - self.first]

    def _drop(self) -> None:
        self._bytes -= self._results.popleft().nbytes
        self.first += 1
