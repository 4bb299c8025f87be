# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The tensors that codecs take and return: checks, values that are not finite, and memory that is used again.

NaN and infinity cannot be summed by a codec. A worker that has such values tells the others in the preliminary
exchange, by `NOT_FINITE` in place of the block's norm or exponent. It sends zeros for that block, and the block's
result is NaN.

The operating system clears every page that it hands out, and the C library returns large blocks to it at once. So a new
tensor of ten million values can take longer to allocate than to compute. :class:`Recycler` keeps the memory of tensors
that nothing refers to any more. Large blocks lie on huge pages, where the system has them: a codec touches all of a
tensor, and on a virtual machine the look-up of a page is expensive.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sumwire.blocks import new_block
from sumwire.codec.errors import CodecError

DTYPES: Final = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
# Bits of a NaN of float32. As an unsigned number it is above every float that is finite.
NOT_FINITE: Final = 0x7FC00000
_INFINITY: Final = 0x7F800000
_SIGN: Final = 0x80000000
# The attribute of a marked tensor.
_RESIDUAL: Final = "_sumwire_residual"


def check_kind(x: Tensor, dtypes: Collection[torch.dtype] = DTYPES) -> Tensor:
    """Return the flat tensor, detached, with its values in its memory.

    Raises CodecError for another shape, dtype or layout, or one without values.
    """
    if not isinstance(x, Tensor):
        raise CodecError(f"{type(x).__name__}: needs a tensor")
    if x.dim() != 1 or x.dtype not in dtypes:
        known = ", ".join(map(str, dtypes))
        raise CodecError(f"{x.dtype} tensor of shape {tuple(x.shape)}: needs a flat one of {known}")
    if x.layout != torch.strided or x.is_meta:
        rule = "needs one that is dense and has values: call to_dense() first, or to_empty() and fill it"
        raise CodecError(f"{x.layout} tensor on {x.device}: {rule}")
    # What torch only says to be negated is not so in memory, which the kernels read.
    return x.detach().resolve_neg()


def not_finite(agreed: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Return where agreed values say that some worker's values are not finite."""
    spoiled: NDArray[np.bool_] = (agreed >= _INFINITY) & (agreed < _SIGN)
    return spoiled


def all_finite(x: Tensor) -> bool:
    """Return whether x has neither NaN nor infinity. One pass, if it has none."""
    # A sum of finite values may be infinite, but one with NaN or infinity is never finite.
    total = x.sum() if x.dtype == torch.float64 else x.sum(dtype=torch.float32)
    return bool(torch.isfinite(total)) or bool(torch.isfinite(x).all())


def runs(marked: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Yield (first, last + 1) of every run of True."""
    edges = np.flatnonzero(np.diff(marked, prepend=False, append=False))
    return ((int(first), int(last)) for first, last in edges.reshape(-1, 2))


def result_dtype(x: Tensor) -> torch.dtype:
    """Return the dtype of results: float64 for float64, else float32."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def expect_residual(x: Tensor) -> Tensor:
    """Mark a tensor whose round will be asked for its residual, and return it. A codec may then compute the residual
    while encoding."""
    setattr(x, _RESIDUAL, True)
    return x


def residual_expected(x: Tensor) -> bool:
    """Return whether the tensor is marked as one that gets a residual."""
    return getattr(x, _RESIDUAL, False)


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
    """Makes CPU tensors, and reuses the memory of earlier ones once nothing, not even a view, refers to them.

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
