# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Tensors whose memory is used again once nothing refers to them.

The operating system clears every page that it hands out, and the C library returns large blocks to it at once. So a
new tensor of ten million values can take longer to allocate than to compute. Large blocks lie on huge pages, where the
system has them: a codec touches all of a tensor, and on a virtual machine the look-up of a page is dear.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sumwire.blocks import new_block

# Free blocks kept for later, the latest ones: a step frees the residuals of all of its buckets at once.
_KEPT: Final = 16
# A block serves lengths down to this fraction of its own.
_LEAST_USED: Final = 0.5


class _Lease(np.ndarray[Any, np.dtype[np.uint8]]):
    """Memory of a block, which goes back when the lease does. (A finalizer of weakref does the same for more.)"""

    block: NDArray[np.uint8]
    free: deque[NDArray[np.uint8]] | None = None

    def __del__(self) -> None:
        if self.free is not None:
            self.free.append(self.block)


class Recycler:
    """Makes CPU tensors. The memory of one that nothing refers to any more, its views included, serves a later one.

    Any thread may use it. A block may come back at any time, so it relies on atomic operations of the queue.
    """

    def __init__(self) -> None:
        self._free: deque[NDArray[np.uint8]] = deque(maxlen=_KEPT)

    def empty(self, length: int, dtype: torch.dtype) -> Tensor:
        """Return a tensor of shape (length,), not filled."""
        size = length * dtype.itemsize
        if size == 0:
            return torch.empty(length, dtype=dtype, device="cpu")
        block = self._fitting(size)
        # The tensor holds the lease, the lease the block; when the last tensor on it goes, the lease does.
        lease = block[:size].view(_Lease)
        lease.block, lease.free = block, self._free
        return torch.frombuffer(lease, dtype=dtype)

    def _fitting(self, size: int) -> NDArray[np.uint8]:
        others: list[NDArray[np.uint8]] = []
        try:
            while not _LEAST_USED * len(block := self._free.pop()) <= size <= len(block):
                others.append(block)
        except IndexError:
            block = new_block(size)
        self._free.extendleft(others)
        return block
